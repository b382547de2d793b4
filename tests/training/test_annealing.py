from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from weightsmith.core.errors import OptionError
from weightsmith.training.schedules import Cosine, OneCycle, Span


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
