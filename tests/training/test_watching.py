from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.training.watching import FRESH, Watch, after_epoch, after_firing, higher_is_better, improves

NUMBERS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("monitor", "higher"),
    [("validation_loss", False), ("train_loss", False), ("validation_accuracy", True), ("train_accuracy", True)],
)
def test_accuracies_rise_and_losses_fall(monitor, higher):
    assert higher_is_better(monitor) is higher
    assert improves(2.0, 1.0, monitor) is higher
    assert improves(0.5, 1.0, monitor) is not higher
    assert not improves(1.0, 1.0, monitor)


@pytest.mark.parametrize(
    ("value", "best", "monitor", "threshold", "relative", "better"),
    [
        (7.4, 8.0, "train_loss", 0.5, False, True),
        (7.5, 8.0, "train_loss", 0.5, False, False),  # strictly
        (3.9, 8.0, "train_loss", 0.5, True, True),
        (4.0, 8.0, "train_loss", 0.5, True, False),
        (8.6, 8.0, "train_accuracy", 0.5, False, True),
        (8.5, 8.0, "train_accuracy", 0.5, False, False),
        (12.1, 8.0, "train_accuracy", 0.5, True, True),
        (12.0, 8.0, "train_accuracy", 0.5, True, False),
    ],
)
def test_thresholds_are_absolute_or_relative_and_strict(*, value, best, monitor, threshold, relative, better):
    assert improves(value, best, monitor, threshold, relative=relative) is better


@pytest.mark.parametrize("monitor", ["validation_loss", "validation_accuracy"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("best", [None, 0.5])
def test_what_is_not_finite_never_improves(monitor, value, best):
    assert not improves(value, best, monitor)


def test_the_first_finite_value_is_the_first_best():
    assert improves(1e9, None, "train_loss", 0.5)
    assert improves(-1e9, None, "train_accuracy", 0.5)


@given(st.lists(NUMBERS | st.just(math.nan), max_size=30))
def test_the_watch_holds_the_minimum_its_first_epoch_and_the_distance_to_it(losses):
    watch = FRESH
    for epoch, loss in enumerate(losses, start=1):
        watch = after_epoch(watch, epoch, loss, better=improves(loss, watch.best, "train_loss"))
    finite = [loss for loss in losses if not math.isnan(loss)]
    if not finite:
        assert watch == Watch(waited=len(losses))
        return
    first = losses.index(min(finite)) + 1
    assert (watch.best, watch.best_epoch, watch.waited) == (min(finite), first, len(losses) - first)


def test_firing_restarts_the_waiting_and_keeps_the_best():
    assert after_firing(Watch(0.5, 3, 4, 1)) == Watch(0.5, 3, 0, 2)


@given(st.none() | NUMBERS, st.none() | st.integers(1, 1000), st.integers(0, 99), st.integers(0, 99))
def test_a_watch_survives_json_exactly(best, epoch, waited, fired):
    watch = Watch(best, epoch, waited, fired)
    assert Watch.from_json(watch.to_json()) == watch
