from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from weightsmith.core.errors import OptionError
from weightsmith.training.schedules import Constant, Cosine, Exponential, OneCycle, Piecewise, Power, Schedule, Span

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


def torch_rates(build, total: int, rate: float = 0.1) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    scheduler = build(optimiser)
    trace = []
    for step in range(total):
        trace.append(float(optimiser.param_groups[0]["lr"]))
        optimiser.step()
        if step + 1 < total:
            scheduler.step()
    return trace


@pytest.mark.parametrize("total", [1, 2, 7, 100])
@pytest.mark.parametrize("least", [0.0, 0.02])
def test_cosine_is_torchs(total, least):
    theirs = torch_rates(lambda o: lr_scheduler.CosineAnnealingLR(o, total, eta_min=least), total)
    ours = [Cosine(0.1, least).at(step, Span(total, 1)) for step in range(total)]
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_cosine_is_keras_and_stays_at_its_end(reference):
    vectors = reference("keras_layers")["schedules"]
    ours = [Cosine(0.1).at(step, Span(10, 10)) for step in vectors["steps"]]
    assert ours == pytest.approx(vectors["rates"]["cosine_100"], rel=1e-9)
    assert Cosine(0.1, 0.03).at(10**6, Span(10, 10)) == 0.03


@given(st.integers(2, 10**9))
def test_the_last_step_of_a_cosine_still_moves(total):
    assert Cosine(0.1).at(total - 1, Span(total, 1)) == pytest.approx(
        0.1 * (3.141592653589793 / 2 / total) ** 2, rel=0.6
    )


def test_a_cosine_by_epoch_changes_between_epochs_only_and_one_of_its_own_length_ends_there():
    run = Span(steps=10, epochs=4)
    by_epoch = [Cosine(0.1, per="epoch").at(step, run) for step in range(40)]
    assert by_epoch == [Cosine(0.1).at(step // 10, Span(1, 4)) for step in range(40)]
    assert [Cosine(1.0, over=20).at(step, run) for step in (0, 10, 20, 39)] == pytest.approx([1, 0.5, 0, 0])
    assert Cosine(1.0, over=2, per="epoch").at(19, run) == pytest.approx(0.5)


@pytest.mark.parametrize("total", [20, 101, 1000])
@pytest.mark.parametrize(("warm", "start", "end"), [(0.3, 0.04, 4e-6), (0.1, 0.5, 0.01), (0.75, 0.001, 1e-3)])
def test_one_cycle_is_torchs(total, warm, start, end):
    def build(optimiser):
        return lr_scheduler.OneCycleLR(
            optimiser,
            0.2,
            total_steps=total,
            pct_start=warm,
            div_factor=1 / start,
            final_div_factor=start / end,
            cycle_momentum=False,
        )

    ours = [OneCycle(0.2, start, warm, end).at(step, Span(total, 1)) for step in range(total)]
    assert ours == pytest.approx(torch_rates(build, total, 0.2), rel=1e-9)


def test_the_defaults_of_one_cycle_are_torchs(reference):
    vectors = reference("torch_layers")["schedules"]
    ours = [OneCycle(0.1).at(step, Span(101, 1)) for step in vectors["steps"]]
    assert ours == pytest.approx(vectors["rates"]["one_cycle_100"], rel=1e-9)


@given(st.integers(4, 300), st.floats(0, 0.9), st.floats(1e-3, 0.9), st.floats(1e-6, 0.9))
def test_one_cycle_rises_to_its_peak_and_falls_to_its_end(total, warm, start, end):
    rates = [OneCycle(1.0, start, warm, end).at(step, Span(total, 1)) for step in range(total)]
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] == pytest.approx(end)
    assert abs(top - max(0.0, warm * total - 1)) <= 1
    if warm * total > 2:
        assert rates[0] == pytest.approx(start)


def test_one_cycle_of_its_own_length_stays_at_its_end():
    schedule, run = OneCycle(1.0, end=0.01, over=20), Span(10, 10)
    assert schedule.at(5, run) == pytest.approx(1.0)
    assert [schedule.at(step, run) for step in (19, 20, 99)] == pytest.approx([0.01] * 3)
    assert OneCycle(1.0).at(0, Span(1, 1)) == 1.0  # a single step is taken at the peak


def test_an_end_above_the_start_is_refused():
    with pytest.raises(OptionError, match=r"least must be < rate, but 0\.2 is not below 0\.1"):
        Cosine(0.1, 0.2)
