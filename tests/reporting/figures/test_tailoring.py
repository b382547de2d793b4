from __future__ import annotations

import pytest

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


def test_nothing_to_draw_is_refused():
    with pytest.raises(UsageError, match="no networks"):
        draw_kept_and_cost(WHOLE, [])
