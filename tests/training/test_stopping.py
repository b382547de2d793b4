from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.training.loop import train
from weightsmith.training.stopping import EarlyStopping, KeepBest, Stop
from weightsmith.training.watching import Watch


def run(stop: Stop, values: list[float]) -> tuple[int | None, Watch]:
    """The epoch after which the run stops, and the watch then."""
    watch = Watch()
    for epoch, value in enumerate(values, start=1):
        watch = stop.observe(watch, epoch, value)
        if stop.stops(watch):
            return epoch, watch
    return None, watch


def test_it_stops_when_keras_does(reference):
    vectors = reference("keras_layers")["early_stopping"]
    for name, epoch in vectors["stops_after_epoch"].items():
        patience = int(name.removeprefix("patience_"))
        assert run(EarlyStopping(patience), vectors["losses"])[0] == epoch


@given(st.lists(st.floats(0, 1) | st.just(math.nan), max_size=30), st.integers(1, 6), st.sampled_from([0.0, 0.1]))
def test_against_a_slow_version(losses, patience, min_delta):
    expected, since, best = None, 0, math.inf
    for epoch, loss in enumerate(losses, start=1):
        since += 1
        if loss < best - min_delta:
            best, since = loss, 0
        if since == patience:
            expected = epoch
            break
    assert run(EarlyStopping(patience, min_delta=min_delta), losses)[0] == expected


def test_the_best_epoch_is_the_one_to_go_back_to():
    epoch, watch = run(EarlyStopping(3), [0.9, 0.5, 0.6, 0.55, 0.7, 0.1])
    assert (epoch, watch.best_epoch, watch.best) == (5, 2, 0.5)


def test_accuracies_are_to_rise():
    stop = EarlyStopping(2, monitor="validation_accuracy")
    assert run(stop, [0.5, 0.6, 0.7, 0.8])[0] is None
    assert run(stop, [0.8, 0.7, 0.6, 0.9])[0] == 3


def test_a_gain_of_no_more_than_min_delta_is_none():
    assert run(EarlyStopping(2, min_delta=0.25), [1.0, 0.75, 0.75, 0.5])[0] == 3
    assert run(EarlyStopping(2, min_delta=0.25), [1.0, 0.7, 0.4, 0.1])[0] is None


def test_keeping_the_best_never_stops_and_breaks_ties_by_the_loss():
    assert run(KeepBest(), [0.5, 0.4, 0.3, 0.2, 0.1])[0] is None
    x = torch.tensor([[-1.0], [1.0]]).repeat(20, 1)
    found = train(
        nn.Linear(1, 2), (x, (x[:, 0] > 0).long()), epochs=6, schedule=0.5, batch=40, stop="best", validation=0.5
    )
    rows = found.history.rows
    assert [row.validation_accuracy for row in rows[-2:]] == [1.0, 1.0]
    assert found.record.restored == min(rows, key=lambda row: row.validation_loss).epoch == 6


def test_text_form():
    assert Stop.parse("early:7") == EarlyStopping(7)
    assert str(EarlyStopping(3, restore=False)) == "early:patience=3,restore=false"
    with pytest.raises(OptionError, match="patience must be ≥ 0"):
        Stop.parse("early:-1")
