from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.chain.tailor.drawing import draw_front_of, draw_kept_of, shares_of, taken_and_rivals


@pytest.fixture(scope="module")
def found(digits_mlp):
    return ws.tailor(digits_mlp, "digits", params="50%", accuracy=-20, rows=200)


def test_the_figures_show_the_choice_and_the_limits(found):
    front, kept = draw_front_of(found.record), draw_kept_of(found.record)
    assert found.record.limits.params in [line.get_xdata()[0] for line in front.axes[1].lines]
    names = [text.get_text() for text in front.legends[0].get_texts()]
    assert any(name.startswith("chosen") for name in names)
    widths = [bar.get_width() for bar in kept.axes[1].patches]
    assert 100 * found.record.best.params_share in [pytest.approx(width) for width in widths]


def test_the_one_taken_comes_first_and_energies_are_those_that_were_judged(found):
    (taken, judged), *rivals = taken_and_rivals(found.record)
    assert taken is found.record.best
    assert [each.kind for each, _ in rivals] == ["int8"]
    assert shares_of(found.record, taken, judged)["energy"] == judged.energy / found.record.energy
