"""The bars of a reduction are as long as its layers were wide, and divided as its record says."""

from __future__ import annotations

import pytest
from matplotlib.colors import same_color

from weightsmith.core.errors import UsageError
from weightsmith.reducing.results import Gone, SiteReduction
from weightsmith.reporting.figures.sites import draw_sites, gone_by_reason
from weightsmith.reporting.figures.style import BLUE


def site(name="dense1", before=10, kept=4, reasons=(), **more):
    gone = tuple(Gone(kept + place, reason) for place, reason in enumerate(reasons))
    return SiteReduction(name, more.pop("layers", (name,)), "dense", before, tuple(range(kept)), gone, **more)


def bars(figure):
    """Lengths by label."""
    (axes,) = figure.axes
    return {found.get_label(): [round(bar.get_width()) for bar in found] for found in axes.containers}


def test_bars_are_units_left_and_gone_by_reason():
    figure = draw_sites([site(reasons=["similar"] * 4 + ["constant"] * 2), site("dense2", 6, 5, ["constant"])])
    assert bars(figure) == {"left": [4, 5], "similar": [4, 0], "constant": [2, 1]}
    (axes,) = figure.axes
    assert all(same_color(bar.get_facecolor(), BLUE) for bar in axes.containers[0])
    ends = [bar.get_x() + bar.get_width() for bar in axes.containers[-1]]
    assert ends == [10, 6]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dense1", "dense2"]
    assert axes.get_title(loc="left") == "9 of 16 units are left"
    assert [text.get_text() for text in axes.texts] == ["4 of 10 (40 %)", "5 of 6 (83 %)"]


def test_rare_reasons_are_drawn_together_and_earlier_rounds_are_named():
    reasons = ["a"] * 4 + ["b"] * 3 + ["c"] * 2 + ["d", "e"]
    assert bars(draw_sites([site(before=15, kept=4, reasons=reasons)])) == {
        "left": [4],
        "a": [4],
        "b": [3],
        "c": [2],
        "other reasons": [2],
    }
    earlier = site(before=9, kept=3, reasons=["search"])
    assert gone_by_reason(earlier) == {"search": 1, "earlier rounds": 5}
    assert bars(draw_sites([earlier])) == {"left": [3], "search": [1], "earlier rounds": [5]}


def test_layers_that_share_units_and_refusals_are_told():
    (axes,) = draw_sites([site(kept=10, layers=("a", "b", "c"), refused="because")]).axes
    assert axes.get_yticklabels()[0].get_text() == "dense1 (+2)"
    assert axes.texts[0].get_text() == "10 of 10 (100 %), refused"


def test_many_layers_are_drawn_without_numbers_and_none_is_refused():
    (axes,) = draw_sites([site(f"layer{number}") for number in range(41)]).axes
    assert not axes.texts
    with pytest.raises(UsageError, match="no layers whose units could go"):
        draw_sites([])


def test_hostile_names_are_letters(hostile):
    figure = draw_sites([site(hostile, reasons=[hostile])])
    figure.draw_without_rendering()
