from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from weightsmith.core.errors import MissingExtra
from weightsmith.networks import mlp
from weightsmith.training import tensorboard
from weightsmith.training.distributed import Team
from weightsmith.training.loop import train
from weightsmith.training.run import EpochEnd, EpochRow
from weightsmith.training.tensorboard import TensorBoard

pytest.importorskip("tensorboard")

Y = torch.arange(60) % 3
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) + 2 * F.one_hot(Y, 4)


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """What TensorBoard itself reads from the folder: tag → epoch → value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, dict[int, float]] = defaultdict(dict)
    reader = EventAccumulator(str(folder))
    reader.Reload()
    for tag in reader.Tags()["scalars"]:
        events = reader.Scalars(tag)
        found[tag] = {event.step: event.value for event in events}
        assert len(found[tag]) == len(events), f"{tag} has two values for an epoch"
    return found


def test_every_number_of_the_history_is_there_under_its_name(tmp_path):
    with TensorBoard(tmp_path) as board:
        run = train(mlp(4, 3), (X, Y), epochs=3, validation=0.2, clip="norm:1", hooks=[board])
    found = scalars(tmp_path)
    assert set(found) == set(run.history.columns) - {"epoch"}
    for name, values in found.items():
        assert values == pytest.approx(dict(enumerate(run.history.column(name), start=1)), rel=1e-6)


def test_columns_of_earlier_hooks_are_written(tmp_path):
    with TensorBoard(tmp_path) as board:
        train(mlp(4, 3), (X, Y), epochs=2, hooks=[lambda end: {"alpha": end.row.epoch / 2}, board])
    assert scalars(tmp_path)["alpha"] == {1: 0.5, 2: 1.0}


def row(epoch: int, loss: float) -> EpochEnd:
    return EpochEnd(mlp(2, 2), EpochRow(epoch, 1, 0.1, loss, 0.5))


def test_an_epoch_is_on_the_disk_when_the_hook_returns(tmp_path):
    board = TensorBoard(tmp_path)
    board(row(1, 2.0))
    assert scalars(tmp_path)["train_loss"] == {1: 2.0}
    board(row(2, 1.0))
    assert scalars(tmp_path)["train_loss"] == {1: 2.0, 2: 1.0}
    board.close()
    board.close()


def test_a_resumed_run_takes_the_place_of_what_was_written_after_its_epoch(tmp_path):
    with TensorBoard(tmp_path) as board:
        for epoch in (1, 2, 3):
            board(row(epoch, 9.0))
    with TensorBoard(tmp_path) as board:  # killed in epoch 2, gone on from there
        for epoch in (2, 3, 4):
            board(row(epoch, 1.0))
    assert scalars(tmp_path)["train_loss"] == {1: 9.0, 2: 1.0, 3: 1.0, 4: 1.0}


def test_of_several_processes_only_the_first_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "team", lambda: Team(1, 2))
    with TensorBoard(tmp_path / "board") as board:
        board(row(1, 2.0))
    assert not (tmp_path / "board").exists()


def test_nothing_is_written_before_the_first_epoch(tmp_path):
    TensorBoard(tmp_path / "board").close()
    assert not (tmp_path / "board").exists()


def test_without_the_package_the_extra_is_named_before_training(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("tensorboard", "torch.utils.tensorboard"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"TensorBoard logging needs an optional package: .*\.\[tensorboard\]"):
        TensorBoard(tmp_path)


def test_the_network_and_the_record_know_nothing_of_it(tmp_path):
    def result(hooks: Any) -> str:
        return train(mlp(4, 3), (X, Y), epochs=1, hooks=hooks).record.to_json()

    with TensorBoard(tmp_path) as board:
        assert result([board]) == result([])
