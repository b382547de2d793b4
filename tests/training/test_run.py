from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.records import Origin
from weightsmith.training.run import EpochRow, History, Stopped, TrainRecord, TrainRun

ROWS = (
    EpochRow(1, 10, 0.1, 2.0, 0.25),
    EpochRow(2, 10, 0.1, 1 / 3, 0.5, 0.7, 0.75, None, 0.5, {"alpha": 4.5}),
    EpochRow(3, 10, 0.01, 1e-300, 1.0, 0.6, 1.0, None, 0.0, {"alpha": 4.25, "a,b": 1.0}),
)


def record(**changes: object) -> TrainRecord:
    values = {
        "settings": {"batch": 32, "penalties": ["l2:0.1"], "clip": None}, "history": History(ROWS),
        "stopped": Stopped.EARLY, "reason": "because", "monitor": "train_loss", "best_epoch": 3, "restored": 3,
        "parameters": 9, "trained": 6, "gradients": None, "removed": ("a",), "warnings": (), "notes": ("b", "c"),
        "network": "0" * 64, "origin": Origin(seed=1),
    }  # fmt: skip
    return TrainRecord(**(values | changes))  # type: ignore[arg-type]


def test_columns_are_those_that_hold_anything_in_the_order_of_the_row():
    assert History(ROWS).columns == (
        "epoch", "steps", "rate", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "clipped",
        "alpha", "a,b",
    )  # fmt: skip
    assert History(ROWS[:1]).columns == ("epoch", "steps", "rate", "train_loss", "train_accuracy")
    assert History().columns == ()


def test_a_column_has_none_where_nothing_was_measured():
    history = History(ROWS)
    assert history.column("validation_loss") == (None, 0.7, 0.6)
    assert history.column("alpha") == (None, 4.5, 4.25)
    assert history.column("a,b") == (None, None, 1.0)
    assert history.column("penalty") == (None, None, None)
    with pytest.raises(UnknownName, match="unknown column 'train_los'; did you mean 'train_loss'"):
        history.column("train_los")
    with pytest.raises(UnknownName, match="extra"):
        ROWS[0].value("extra")


def test_csv_is_exact_and_quotes_what_must_be():
    assert History(ROWS).to_csv() == (
        'epoch,steps,rate,train_loss,train_accuracy,validation_loss,validation_accuracy,clipped,alpha,"a,b"\n'
        "1,10,0.1,2.0,0.25,,,,,\n"
        "2,10,0.1,0.3333333333333333,0.5,0.7,0.75,0.5,4.5,\n"
        "3,10,0.01,1e-300,1.0,0.6,1.0,0.0,4.25,1.0\n"
    )


def test_records_read_back_exactly():
    given = record()
    assert TrainRecord.from_json(given.to_json()) == given
    assert TrainRecord.from_json(given.to_json()).stopped is Stopped.EARLY
    assert TrainRecord.from_json(given.to_json()).history.rows[1].extra == {"alpha": 4.5}


def test_a_record_holds_no_nan():
    with pytest.raises(UsageError, match="train_loss is nan"):
        record(history=History((EpochRow(1, 1, 0.1, float("nan"), 0.0),))).to_json()


def test_kept_epochs_are_made_when_asked_for_and_unknown_ones_named():
    made = []

    def make() -> nn.Module:
        made.append(1)
        return nn.Linear(1, 1)

    run = TrainRun(record(), nn.Linear(1, 1), {0: make, 5: make})
    assert made == []
    assert isinstance(run.checkpoint(5), nn.Linear)
    assert made == [1]
    with pytest.raises(UnknownName, match=r"unknown kept epoch '4'.*known: 0, 5"):
        run.checkpoint(4)
    with pytest.raises(UnknownName, match=r"name them with keep="):
        TrainRun(record(), nn.Linear(1, 1)).checkpoint(0)


def test_shortcuts_are_those_of_the_record():
    run = TrainRun(record(settings={"network": "mlp:3", "data": "digits"}), nn.Linear(1, 1))
    assert run.history is run.record.history
    assert run.stopped is Stopped.EARLY
    assert run.gradients is None
    assert repr(run) == f"TrainRun({run})"
    assert "\n" not in str(run)
    assert torch.is_grad_enabled()


def test_a_table_asks_each_row_for_each_column_a_fixed_number_of_times(monkeypatch):
    asked, value = [], EpochRow.value
    monkeypatch.setattr(EpochRow, "value", lambda row, column: asked.append(column) or value(row, column))
    counts = []
    for epochs in (10, 20, 40):
        asked.clear()
        History(tuple(EpochRow(e, 5, 0.1, 1 / e, 0.5, extra={"pi": 3.0}) for e in range(1, epochs + 1))).to_csv()
        counts.append(len(asked))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])
