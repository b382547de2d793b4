"""What holds for every schedule; each one's own formula is tested beside its file."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.training.schedules import (
    Constant,
    Cosine,
    Exponential,
    OneCycle,
    Piecewise,
    Plateau,
    Power,
    Schedule,
    Shifted,
    Span,
    WarmUp,
    as_schedule,
    count,
)
from weightsmith.training.watching import Watch

RATES = st.floats(1e-8, 10)
PER = st.sampled_from(["step", "epoch"])
SHARES = st.floats(1e-6, 1)


@st.composite
def piecewise(draw):
    bounds = draw(st.lists(st.integers(1, 5000), min_size=1, max_size=5, unique=True).map(sorted))
    rates = draw(st.lists(RATES, min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    return Piecewise(tuple(rates), tuple(bounds), draw(PER))


MEMBERS = {
    "constant": st.builds(Constant, RATES),
    "power": st.builds(Power, RATES, st.floats(1, 1e6), st.floats(0, 3), PER),
    "exponential": st.builds(Exponential, RATES, st.floats(50, 1e6), PER),
    "piecewise": piecewise(),
    "cosine": st.builds(Cosine, RATES, st.just(0.0) | st.floats(0, 1e-9), per=PER),
    "one-cycle": st.builds(OneCycle, RATES, SHARES, st.floats(0, 0.9), SHARES, st.none() | st.integers(2, 9999)),
    "plateau": st.builds(Plateau, RATES, st.floats(0.01, 0.99), rule=st.sampled_from(["keras", "torch"])),
}
PLAIN = st.one_of(*MEMBERS.values())
SCHEDULES = (
    PLAIN
    | st.builds(WarmUp, st.integers(1, 2000), PLAIN.map(str), PER)
    | st.builds(Shifted, st.just(0), st.just(20), PLAIN.map(str))
)
SPANS = st.builds(Span, st.integers(1, 500), st.integers(1, 20))


def test_every_member_is_drawn_here():
    assert {*MEMBERS, "warm-up", "shifted"} == set(Schedule.members)


@given(SCHEDULES, SPANS, st.data())
def test_rates_are_positive_finite_and_a_pure_function_of_the_step(schedule, span, data):
    watch = Watch(fired=data.draw(st.integers(0, 20)))
    for _ in range(5):
        step = data.draw(st.integers(0, span.total - 1))
        rate = schedule.at(step, span, watch)
        assert isinstance(rate, float)
        assert 0 < rate < math.inf
        assert rate == schedule.at(step, span, watch)


@given(SCHEDULES)
def test_text_and_dict_lead_back_to_the_same_schedule(schedule):
    assert Schedule.parse(str(schedule)) == schedule
    assert Schedule.from_dict(schedule.to_dict()) == schedule
    assert hash(Schedule.parse(str(schedule))) == hash(schedule)


@given(SCHEDULES, st.integers(1, 9), st.floats(0, 9))
def test_only_a_plateau_watches(schedule, epoch, value):
    watch = Watch(1.0, 1, 0, 0)
    if "plateau" in str(schedule):
        assert schedule.monitor == "validation_loss"
    else:
        assert schedule.monitor is None
        assert schedule.observe(watch, epoch, value) is watch


@pytest.mark.parametrize(
    ("given_as", "schedule"),
    [
        (None, Constant(0.02)),
        (0.5, Constant(0.5)),
        (1, Constant(1.0)),
        ("0.5", Constant(0.5)),
        (" 1e-3 ", Constant(0.001)),
        ("cosine:0.5", Cosine(0.5)),
        ("plateau:0.5", Plateau(0.5)),
        (Power(0.1, 20), Power(0.1, 20)),
    ],
)
def test_what_may_stand_for_a_schedule(given_as, schedule):
    assert as_schedule(given_as, usual_rate=0.02) == schedule


@pytest.mark.parametrize("text", ["cos:0.1", "true", "none", ""])
def test_text_that_names_no_schedule_is_refused(text):
    with pytest.raises(UnknownName, match="unknown schedule"):
        as_schedule(text, 0.02)


@pytest.mark.parametrize("number", [0, -0.1, "-1", "nan"])
def test_a_rate_that_is_not_positive_is_refused(number):
    with pytest.raises(OptionError, match="constant: rate must be"):
        as_schedule(number, 0.02)


@given(st.integers(1, 99), st.integers(1, 99), st.integers(0, 99))
def test_a_span_counts_steps_and_the_epochs_begun(steps, epochs, skipped):
    span = Span(steps, epochs, min(skipped, steps * epochs - 1))
    left = range(span.skipped, steps * epochs)
    assert span.total == span.length("step") == len(left)
    # An epoch of what is left begins with its first step, wherever the warm-up ended.
    assert span.length("epoch") == len({count(step, span, "epoch") for step in range(len(left))})


@pytest.mark.parametrize(("steps", "epochs"), [(0, 1), (1, 0), (-1, 5)])
def test_a_run_without_steps_is_refused(steps, epochs):
    with pytest.raises(UsageError, match="both must be at least 1"):
        Span(steps, epochs)
