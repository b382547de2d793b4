from __future__ import annotations

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import wilson
from weightsmith.reporting.figures.tailoring import Tailor, draw_kept_and_cost

WHOLE = wilson(95, 100)
NETWORKS = [
    Tailor("taken: half", wilson(93, 100), {"parameters": 0.5, "energy": 0.4}),
    Tailor("int8", None, {"parameters": 1.0, "energy": 0.05}),
]


def test_accuracies_that_were_judged_and_costs_of_all():
    figure = draw_kept_and_cost(WHOLE, NETWORKS, {"parameters": 0.6})
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["original", "taken"]
    assert [bar.get_width() for bar in right.patches] == pytest.approx([50, 40, 100, 5])
    assert 60 in [line.get_xdata()[0] for line in right.lines]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_numbers_of_all_bars_can_be_read_on_one_page(count):
    costs = dict.fromkeys(("parameters", "bytes", "energy"), 0.5)
    figure = draw_kept_and_cost(WHOLE, [Tailor(f"number {n}", wilson(90 + n, 100), costs) for n in range(count)])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in figure.axes[1].texts]
    assert len(boxes) == 3 * count
    for upper, lower in itertools.pairwise(sorted(boxes, key=lambda box: -box.y0)):
        assert lower.y1 <= upper.y0 + 0.5
    assert figure.get_figheight() < figure.get_figwidth()


def test_nothing_to_draw_is_refused():
    with pytest.raises(UsageError, match="no networks"):
        draw_kept_and_cost(WHOLE, [])
