"""What is reduced: read from whatever a caller has, refused where nothing could come of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.judging import draw_rows
from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.subject import read_subject
from weightsmith.training.run import TrainRun


def test_networks_come_as_modules_runs_files_and_folders(trained: TrainRun, digits: Data, tmp_path: Path) -> None:
    ws.save(trained.network, tmp_path / "network.safetensors")
    state = trained.network.state_dict()
    for given, has_run in (
        (trained.network, False),
        (trained, True),
        (tmp_path / "network.safetensors", False),
        (str(tmp_path), True),
    ):
        subject = read_subject(given, digits, rows=None, seed=0)
        assert all(torch.equal(value, state[name]) for name, value in subject.network.state_dict().items())
        assert (subject.run is not None) == has_run
        assert subject.network is not trained.network


def test_methods_look_at_training_rows_and_the_test_split_judges(trained: TrainRun, digits: Data) -> None:
    subject = read_subject(trained, digits, rows=100, seed=0)
    assert len(subject.train) == 100
    assert subject.split == "test"
    assert len(subject.judged) == len(digits.split("test"))
    again, other = (read_subject(trained, digits, rows=100, seed=seed) for seed in (0, 1))
    assert torch.equal(subject.train.x, again.train.x)
    assert not torch.equal(subject.train.x, other.train.x)


def test_the_rows_that_judge_are_those_of_evaluate(trained: TrainRun, digits: Data) -> None:
    subject = read_subject(trained, digits, rows=None, seed=3, test_rows=40)
    assert torch.equal(subject.judged.x, draw_rows(digits, "test", 40, 3).part.x)


def test_without_a_test_split_the_training_rows_judge(trained: TrainRun, digits: Data) -> None:
    assert read_subject(trained, dataclasses.replace(digits, test=None), rows=None, seed=0).split == "train"


def test_classes_are_matched_by_name(trained: TrainRun, digits: Data) -> None:
    """Data whose classes are listed the other way round are the same data."""
    turned = dataclasses.replace(
        digits,
        classes=digits.classes[::-1],
        train=Split(digits.split("train").x, 9 - digits.split("train").y),
        test=Split(digits.split("test").x, 9 - digits.split("test").y),
    )
    plain, mapped = (read_subject(trained, data, rows=None, seed=0) for data in (digits, turned))
    assert torch.equal(plain.train.y, mapped.train.y)
    assert torch.equal(plain.judged.y, mapped.judged.y)


def _data(x: torch.Tensor, y: torch.Tensor) -> Data:
    return Data("rows", train=Split(x, y))


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (torch.randn(20, 4), torch.zeros(20, dtype=torch.int64), "all 20 training rows used have the same class"),
        (torch.ones(20, 4), torch.arange(20) % 3, "all training rows used are equal"),
        (torch.full((20, 4), float("nan")), torch.arange(20) % 3, "row 0 of the train split holds nan"),
        (torch.randn(20, 5), torch.arange(20) % 3, "cannot take inputs of shape"),
        (torch.randn(20, 4), torch.arange(20) % 9, "label 8, the network has 3 outputs"),
    ],
)
def test_data_that_tell_nothing_are_refused(x: torch.Tensor, y: torch.Tensor, words: str) -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    with pytest.raises(DataMismatch, match=words):
        read_subject(network, _data(x, y), rows=None, seed=0)


def test_the_row_with_nan_is_named() -> None:
    x = torch.randn(20, 4)
    x[7, 2] = float("inf")
    with pytest.raises(DataMismatch, match="row 7"):
        read_subject(nn.Linear(4, 3), _data(x, torch.arange(20) % 3), rows=None, seed=0)


def test_networks_that_give_nothing_usable_are_refused() -> None:
    data = _data(torch.randn(20, 4), torch.arange(20) % 3)
    broken = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        broken[0].weight[0, 0] = float("nan")
    with pytest.raises(DataMismatch, match="nan or infinity"):
        read_subject(broken, data, rows=None, seed=0)
    with pytest.raises(UsageError, match="a class must be called"):
        read_subject(nn.ReLU, data, rows=None, seed=0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no parameters"):
        read_subject(nn.ReLU(), data, rows=None, seed=0)
    with pytest.raises(DataMismatch, match="not one score per class"):
        read_subject(nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (2, 3))), data, rows=None, seed=0)
