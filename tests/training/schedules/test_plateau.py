from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.lr_scheduler import ReduceLROnPlateau

from weightsmith.core.errors import OptionError
from weightsmith.training.schedules import Plateau, Span
from weightsmith.training.watching import Watch

RUN = Span(steps=10, epochs=100)
METRICS = st.lists(
    st.floats(0, 2) | st.sampled_from([0.5, 0.50005, 0.4999, 1.0, 1.0001, 0.0]) | st.just(math.nan), max_size=40
)


def rates_of(schedule: Plateau, metrics: list[float]) -> list[float]:
    """The rate after each epoch."""
    watch, rates = Watch(), []
    for epoch, metric in enumerate(metrics, start=1):
        watch = schedule.observe(watch, epoch, metric)
        rates.append(schedule.at(epoch * RUN.steps, RUN, watch))
    return rates


def cuts_of(schedule: Plateau, metrics: list[float]) -> list[int]:
    rates = [schedule.rate, *rates_of(schedule, metrics)]
    return [epoch for epoch in range(1, len(rates)) if rates[epoch] < rates[epoch - 1]]


def test_on_a_metric_that_never_moves_the_two_rules_cut_at_these_epochs():
    assert cuts_of(Plateau(0.1, patience=2, rule="keras"), [1.0] * 8) == [3, 5, 7]
    assert cuts_of(Plateau(0.1, patience=2, rule="torch"), [1.0] * 9) == [4, 7]


@pytest.mark.parametrize("rule", ["keras", "torch"])
@pytest.mark.parametrize(("series", "patience"), [("flat", 2), ("slow", 2), ("small", 1)])
def test_peers_epochs(reference, rule, series, patience):
    vectors = reference(f"{rule}_layers")["plateau"]
    theirs = vectors["cuts_after_epoch"][f"{series}_patience_{patience}"]
    assert cuts_of(Plateau(0.001, patience=patience, rule=rule), vectors[series]) == theirs


def torch_rates(metrics: list[float], mode: str, patience: int, factor: float, least: float) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = ReduceLROnPlateau(optimiser, mode, factor=factor, patience=patience, min_lr=least, eps=0)
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(optimiser.param_groups[0]["lr"])
    return rates


def keras_rates(metrics: list[float], mode: str, patience: int, factor: float, least: float) -> list[float]:
    """Keras' callback without its cooldown, after its documentation: slow and plain."""
    sign = 1 if mode == "min" else -1
    best, wait, rate, rates = math.inf, 0, 0.1, []
    for metric in metrics:
        if sign * metric < best - 1e-4:
            best, wait = sign * metric, 0
        else:
            wait += 1
            if wait >= patience and rate > least:
                rate, wait = max(rate * factor, least), 0
        rates.append(rate)
    return rates


@pytest.mark.parametrize(("rule", "slow"), [("torch", torch_rates), ("keras", keras_rates)])
@pytest.mark.parametrize(("monitor", "mode"), [("validation_loss", "min"), ("train_accuracy", "max")])
@settings(deadline=None)
@given(
    metrics=METRICS,
    patience=st.integers(0, 6),
    factor=st.sampled_from([0.1, 0.5, 0.9]),
    least=st.sampled_from([0.0, 0.03]),
)
def test_both_rules_are_those_of_the_libraries(*, rule, slow, monitor, mode, metrics, patience, factor, least):
    schedule = Plateau(0.1, factor, patience, rule, monitor=monitor, least=least)
    assert rates_of(schedule, metrics) == pytest.approx(slow(metrics, mode, patience, factor, least), rel=1e-9)


@pytest.mark.parametrize("rule", ["keras", "torch"])
def test_nan_is_no_improvement_even_at_first(rule):
    schedule = Plateau(0.1, patience=2, rule=rule)
    waits = {"keras": 2, "torch": 3}[rule]
    assert cuts_of(schedule, [math.nan] * waits) == [waits]
    assert cuts_of(schedule, [1.0] + [math.nan] * waits) == [waits + 1]


@pytest.mark.parametrize("rule", ["keras", "torch"])
def test_a_metric_that_improves_is_never_cut(rule):
    improving = [0.9**epoch for epoch in range(20)]
    assert cuts_of(Plateau(0.1, patience=1, rule=rule), improving) == []
    rising = [1 - value for value in improving]
    accuracy = Plateau(0.1, patience=1, rule=rule, monitor="validation_accuracy")
    assert cuts_of(accuracy, rising) == []
    assert cuts_of(accuracy, improving) != []


def test_the_rate_follows_the_number_of_cuts_down_to_the_least():
    schedule = Plateau(0.1, factor=0.5, least=0.03)
    assert [schedule.at(0, RUN, Watch(fired=k)) for k in range(4)] == pytest.approx([0.1, 0.05, 0.03, 0.03])
    with pytest.raises(OptionError, match="least must be < rate"):
        Plateau(0.1, least=0.1)
