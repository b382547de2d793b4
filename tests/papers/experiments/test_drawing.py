from __future__ import annotations

from weightsmith.core.records import Origin
from weightsmith.core.sweep import SweepTable
from weightsmith.papers.experiments.drawing import draw_lines


def test_a_panel_and_a_line_for_each_value_with_means_over_seeds():
    rows = tuple(
        {"x": x, "kind": kind, "norm": norm, "seed": seed, "y": x + seed if (x, kind) != (2, "b") else None}
        for x in (1, 2)
        for kind in ("a", "b")
        for norm in (False, True)
        for seed in (0, 2)
    )
    table = SweepTable("f", ("x", "kind", "norm"), ("x", "kind", "norm", "seed", "y"), rows, Origin())
    figure = draw_lines(table, x="x", y="y", line="kind", panel="norm", names=("size", "value"), scale=10)
    left, right = figure.axes
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("norm: no", "norm: yes")
    assert (left.get_xlabel(), left.get_ylabel()) == ("size", "value")
    first, second = (container.lines[0].get_xydata().tolist() for container in left.containers)
    assert first == [[1.0, 20.0], [2.0, 30.0]]  # means over the seeds, times ten
    assert second == [[1.0, 20.0]]  # what has no value is left out
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_words_on_the_axis_are_spread_evenly():
    rows = tuple({"net": net, "kind": "k", "seed": 0, "y": 1.0} for net in ("one", "two"))
    table = SweepTable("f", ("net", "kind"), ("net", "kind", "seed", "y"), rows, Origin())
    figure = draw_lines(table, x="net", y="y", line="kind", log=False)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["one", "two"]


def test_a_point_of_one_row_has_its_interval():
    rows = tuple(
        {"x": x, "kind": "k", "seed": 0, "y": 1.0, "low": low, "high": 4.0} for x, low in ((1, 0.5), (2, None))
    )
    table = SweepTable("f", ("x", "kind"), ("x", "kind", "seed", "y", "low", "high"), rows, Origin())
    figure = draw_lines(table, x="x", y="y", line="kind", scale=2, interval=("low", "high"))
    (bars,) = figure.axes[0].containers[0].lines[2]
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[1.0, 8.0], [2.0, 2.0]]
