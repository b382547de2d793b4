from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.training.schedules import Plateau, Schedule, Shifted, Span
from weightsmith.training.watching import Watch

WHOLE = [
    "constant:0.1",
    "cosine:0.1",
    "cosine:0.1,per=epoch",
    "one-cycle:0.1",
    "power:0.1,7",
    "exponential:0.1,3,per=epoch",
    "piecewise:0.1,0.01,bounds=[4],per=epoch",
    "warm-up:13,cosine:0.1",
]


@given(st.sampled_from(WHOLE), st.integers(1, 9), st.integers(1, 9), st.data())
def test_it_is_that_part_of_the_whole(text, steps, epochs, data):
    start = data.draw(st.integers(0, epochs - 1))
    length = data.draw(st.integers(1, epochs - start))
    whole, part = Schedule.parse(text), Shifted(start, epochs, then=text)
    ours = [part.at(step, Span(steps, length)) for step in range(steps * length)]
    theirs = [whole.at(step, Span(steps, epochs)) for step in range(steps * epochs)]
    assert ours == theirs[start * steps : (start + length) * steps]


def test_equal_schedules_are_equal_however_they_were_written():
    assert Shifted(1, 3, then="cosine: 1e-1") == Shifted(1, 3, then="cosine:0.1,least=0.0")
    assert Schedule.parse(str(Shifted(1, 3, then="power:0.1,20"))) == Shifted(1, 3, then="power:0.1,20")


def test_a_plateau_inside_watches_on():
    schedule, whole = Shifted(4, 9, then="plateau:0.1,patience=2"), Plateau(0.1, patience=2)
    assert schedule.monitor == "validation_loss"
    watch, expected = Watch(), Watch()
    for epoch, value in enumerate([1.0, 0.5, 0.6, 0.6, 0.6], start=1):
        watch, expected = schedule.observe(watch, epoch, value), whole.observe(expected, epoch + 4, value)
    assert watch == expected
    assert (watch.best_epoch, watch.fired) == (6, 1)
    assert schedule.at(0, Span(10, 5), watch) == pytest.approx(0.01)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(OptionError, match="3 is not below 3"):
        Shifted(3, 3, then="cosine:0.1")
    with pytest.raises(UnknownName, match="did you mean 'cosine'"):
        Shifted(1, 3, then="cosinus:0.1")
