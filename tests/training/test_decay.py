from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.training.schedules import Constant, Exponential, Piecewise, Power, Schedule, Span

RUN = Span(steps=10, epochs=10)


def rates(schedule: Schedule, steps: list[int], span: Span = RUN) -> list[float]:
    return [schedule.at(step, span) for step in steps]


def test_a_constant_is_constant():
    assert rates(Constant(0.3), [0, 1, 99, 10**9]) == [0.3] * 4


@pytest.mark.parametrize(
    ("topic", "theirs", "ours"),
    [
        ("keras_layers", "inverse_time_20", Power(0.1, s=20, c=1)),
        ("keras_layers", "exponential_0.1_per_20", Exponential(0.1, s=20)),
        ("torch_layers", "exponential_0.1_per_20", Exponential(0.1, s=20)),
        ("torch_layers", "multistep_10_20", Piecewise((0.1, 0.01, 0.001), bounds=(10, 20))),
        ("keras_layers", "piecewise_10_20", Piecewise((0.1, 0.01, 0.001), bounds=(11, 21))),  # Keras: a step later
    ],
)
def test_peers_rates(reference, topic, theirs, ours):
    vectors = reference(topic)["schedules"]
    assert rates(ours, vectors["steps"]) == pytest.approx(vectors["rates"][theirs], rel=1e-9)


@given(st.floats(1e-6, 10), st.floats(0.5, 1e5), st.floats(0, 5), st.integers(0, 20))
def test_power_falls_from_one_multiple_of_s_to_the_next_as_in_equation_2(rate, s, c, k):
    schedule = Power(rate, s=1, c=c)
    ratio = schedule.at(k + 1, RUN) / schedule.at(k, RUN)
    assert ratio == pytest.approx((1 - 1 / (k + 2)) ** c)
    assert Power(rate, s=s, c=c).at(round(7 * s), RUN) == pytest.approx(rate / (1 + round(7 * s) / s) ** c)


@given(st.floats(1e-6, 10), st.integers(1, 10**6), st.integers(0, 50))
def test_exponential_falls_to_a_tenth_every_s_steps_as_in_equation_4(rate, s, k):
    schedule = Exponential(rate, s=s)
    assert schedule.at((k + 1) * s, RUN) / schedule.at(k * s, RUN) == pytest.approx(0.1)


@pytest.mark.parametrize("text", ["power:0.1,3", "exponential:0.1,3", "piecewise:3,2,1,bounds=[2,7]"])
def test_per_epoch_counts_whole_epochs_done(text):
    by_epoch = Schedule.parse(f"{text},per=epoch")
    by_step = Schedule.parse(text)
    for step in range(100):
        assert by_epoch.at(step, RUN) == by_step.at(step // 10, RUN)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6, unique=True).map(sorted),
    st.lists(st.floats(1e-6, 10), min_size=7, max_size=7),
)
def test_piecewise_is_a_sum_over_the_bounds_passed(bounds, values):
    schedule = Piecewise(tuple(values[: len(bounds) + 1]), bounds=tuple(bounds))
    for step in range(70):
        assert schedule.at(step, RUN) == values[sum(bound <= step for bound in bounds)]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((5,), "3 rates need 2 bounds, not 1"), ((5, 5), "bounds must rise"), ((9, 5), "bounds must rise, not")],
)
def test_bounds_that_do_not_fit_are_refused(bounds, message):
    with pytest.raises(OptionError, match=message):
        Piecewise((0.1, 0.01, 0.001), bounds=bounds)


@pytest.mark.parametrize("text", ["power:0.1,1e-300,c=50", "exponential:0.1,1e-300"])
def test_extreme_values_fade_to_nothing_without_overflow(text):
    assert rates(Schedule.parse(text), [0, 10**12]) == [0.1, 0.0]


@pytest.mark.parametrize(
    "text", ["constant:0", "constant:inf", "power:0.1,0", "power:0.1,9,c=-1", "exponential:0.1,-5"]
)
def test_values_out_of_range_are_refused(text):
    with pytest.raises(OptionError, match="must be"):
        Schedule.parse(text)


def test_the_courses_settings_at_the_end_of_its_run():
    course = Span(steps=2625, epochs=10)
    last = course.total - 1
    assert Power(0.01, s=10_000).at(last, course) == pytest.approx(0.01 / 3.6249, rel=1e-6)
    assert Exponential(0.01, s=3281).at(last, course) == pytest.approx(0.01 * math.exp(-math.log(10) * last / 3281))
