from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

import weightsmith as ws
from weightsmith.cli.training_report import advice, epoch_table, show_run
from weightsmith.core.statistics import wilson
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


@pytest.mark.parametrize("count", [1, 5, 12, 100])
def test_the_table_has_first_last_and_best_epoch(count):
    best = count // 2 + 1
    shown = epoch_table(rows([0.5] * count), best)
    epochs = list(shown.columns[0].cells)
    assert {"1", str(best), str(count)} <= set(epochs)
    assert len(epochs) == len(set(epochs)) <= 13
    assert epochs == sorted(epochs, key=int)
    marks = dict(zip(epochs, shown.columns[-1].cells, strict=True))
    assert [epoch for epoch, mark in marks.items() if mark] == [str(best)]


def test_columns_of_hooks_are_shown():
    history = rows([0.5, 0.4])
    extra = tuple(dataclasses.replace(row, extra={"alpha": 2.5 + row.epoch}) for row in history.rows)
    shown = epoch_table(History(extra), 1)
    heads = [str(column.header) for column in shown.columns]
    assert list(shown.columns[heads.index("alpha")].cells) == ["3.5", "4.5"]


def test_advice_follows_from_the_numbers(record):
    improving = advice(of(record, rows([0.5, 0.4]), 2))
    assert improving == ["--epochs 4 (in another folder): the validation loss was best in the last epoch"]
    history = rows([0.5, 0.6], train_accuracy=0.99, validation_accuracy=0.9)
    few, many = SimpleNamespace(accuracy=wilson(10, 10)), SimpleNamespace(accuracy=wilson(900, 1000))
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
        "what is said of the gradients above, before anything else"
    ]


def test_a_run_without_any_epoch_can_be_shown(record, capsys):
    lost = dataclasses.replace(
        record, history=History(), best_epoch=0, restored=0, stopped=Stopped.DIVERGED, gradients=None
    )
    show_run(lost, {})
    assert "the weights are those before training" in capsys.readouterr().out


def test_loss_and_validation_accuracy_are_drawn_with_their_ends(record, capsys):
    history = rows([0.5, 0.25, 0.375], validation_accuracy=0.875)
    show_run(of(record, history, 2), {})
    lines = {line[:21].strip(): line[21:] for line in capsys.readouterr().out.splitlines()}
    assert lines["loss"] == "█▁▅  0.5000 → 0.3750"  # 3.5 of 7 steps up is rounded to the even 4
    assert lines["validation loss"] == lines["loss"]
    assert lines["validation accuracy"] == "▁▁▁  87.50 % → 87.50 %"


def test_what_was_not_measured_has_no_curve(record, capsys):
    plain = tuple(
        dataclasses.replace(row, validation_loss=None, validation_accuracy=None) for row in rows([0.5, 0.25]).rows
    )
    show_run(dataclasses.replace(of(record, History(plain), 2), monitor="train_loss"), {})
    shown = capsys.readouterr().out
    assert "█▁  0.5000 → 0.2500" in shown
    assert "validation" not in shown.split("█▁")[1].split("ended")[0]


def test_what_was_removed_and_how_many_parameters_were_trained(record, capsys):
    partly = dataclasses.replace(record, trained=10, removed=("dense1: 3 of 8 [units] are zero",))
    show_run(partly, {}, ["a", "b"])
    shown = capsys.readouterr().out
    assert "10 of 610 parameters trained" in shown
    assert "dense1: 3 of 8 [units] are zero" in shown
    assert "files       a, b" in shown
