from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

import weightsmith as ws
from weightsmith.core.statistics import wilson
from weightsmith.reporting.sections._training_findings import advice
from weightsmith.training.diagnosis.gradients import Health
from weightsmith.training.loop import train
from weightsmith.training.run import EpochRow, History, Stopped


@pytest.fixture(scope="module")
def record():
    return train("mlp:8", ws.data.load("digits"), schedule=0.05, epochs=2, validation=0.1).record


def rows(losses, train_accuracy=0.9, validation_accuracy=0.9):
    return History(
        tuple(
            EpochRow(
                epoch=number,
                steps=10,
                rate=0.1,
                train_loss=loss,
                train_accuracy=train_accuracy,
                validation_loss=loss,
                validation_accuracy=validation_accuracy,
            )
            for number, loss in enumerate(losses, 1)
        )
    )


def of(record, history, best, stopped=Stopped.DONE, **settings):
    changed = {**record.settings, **settings}
    return dataclasses.replace(record, history=history, best_epoch=best, stopped=stopped, settings=changed)


def test_advice_follows_from_the_numbers(record):
    improving = advice(of(record, rows([0.5, 0.4]), 2))
    assert improving == ["--epochs 4 (in another folder): the validation loss was best in the last epoch"]
    history = rows([0.5, 0.6], train_accuracy=0.99, validation_accuracy=0.9)
    few, many = SimpleNamespace(score=wilson(10, 10)), SimpleNamespace(score=wilson(900, 1000))
    overfitted = advice(of(record, history, 1), many)
    assert any("99.0 % in training, 90.0 % in validation" in line for line in overfitted)
    assert not any("in training" in line for line in advice(of(record, history, 1), few))
    assert any("epoch 1 was better than the last one" in line for line in overfitted)
    kept = advice(of(record, rows([0.5, 0.6]), 1, Stopped.EARLY, stop="early"))
    assert len(kept) == 1
    assert "sweep" in kept[0]
    assert "--find-rate" in advice(of(record, History(), 0, Stopped.DIVERGED))[0]


def test_gradients_come_first(record):
    sick = dataclasses.replace(record.gradients, health=Health.VANISHING)
    assert advice(dataclasses.replace(record, gradients=sick)) == [
        "fix the gradients first: the table above shows which layers do not learn, and what helps"
    ]


def test_a_run_without_any_epoch_has_no_advice_from_numbers(record):
    assert advice(of(record, History(), 0)) == []
