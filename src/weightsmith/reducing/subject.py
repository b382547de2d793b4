"""The subject of a reduction: a network in ``eval`` mode with the rows that choose units and the rows that evaluate."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.datasets import as_data, load_all
from weightsmith.data.judging import drawn_to_judge
from weightsmith.data.sources import Source
from weightsmith.data.targets import Kind, kind_of
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.networks.editing.attention import open_heads
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluation import inputs_of, targets_for
from weightsmith.networks.files import load
from weightsmith.networks.held import held_network
from weightsmith.networks.running import arranged, outputs_of
from weightsmith.reducing.context import drawn
from weightsmith.training.run import TrainRun

__all__ = ["Subject", "check_device", "read_subject"]

_CHECKED = 16  # inputs on which every cut is compared with the masked network
# Unlabelled rows for a refit, if no number is given: convolutions have many positions per image, dense layers one row.
_CALIBRATION, _PER_INPUT, _WIDEST = 2000, 4, 1024


@dataclasses.dataclass(frozen=True)
class Subject:
    """A network to reduce and its data; targets are as the network learns them (:func:`targets_for`).

    ``train`` are the rows that methods use, ``judged`` those on which accuracies are measured (the test split if
    there is one), ``calibration`` the unlabelled training rows of a refit, ``example`` preprocessed inputs, ``run`` the
    training run of the network if known.
    """

    network: nn.Module
    data: Data
    train: Split
    split: str
    judged: Split
    calibration: Tensor
    example: Tensor
    run: TrainRun | Path | None
    inputs: dict[str, str]


def read_subject(
    network: nn.Module | TrainRun | str | Path, data: Any, *, rows: int | None, seed: int, test_rows: int | None = None
) -> Subject:
    """Network and data from the caller's arguments; both kinds of rows are drawn by the seed (None: all)."""
    module, run = _network(network)
    known = _data(data)
    split = next(name for name in ("test", "validation", "train") if name in known.splits)
    train = known.split("train")
    _check_finite(known, train)
    # Spread over all rows: files are often sorted, and rows of one class would check little.
    spread = torch.linspace(0, len(train) - 1, min(_CHECKED, len(train))).long()
    _check_parameters(module)
    example = arranged(module, inputs_of(module, train.x[spread]))
    count = _outputs(module, example)
    labels = {name: targets_for(card_of(module), known, known.split(name).y, count)[1] for name in ("train", split)}
    chosen = drawn(len(train), rows, seed, "training rows")
    judging = torch.from_numpy(drawn_to_judge(len(known.split(split)), test_rows, seed))
    looked_at = Split(train.x[chosen], labels["train"][chosen])
    _check_rows(known, looked_at)
    return Subject(
        network=module,
        data=known,
        train=looked_at,
        split=split,
        judged=Split(known.split(split).x[judging], labels[split][judging]),
        calibration=looked_at.x[drawn(len(looked_at), rows or _calibration_rows(module), seed, "calibration rows")],
        example=example,
        run=run,
        inputs={"network": weights_digest(module), "data": known.digest()},
    )


def _calibration_rows(network: nn.Module) -> int:
    """Enough rows for the widest dense layer that is regressed on its inputs (wider ones on their channels)."""
    widths = [layer.in_features for layer in network.modules() if isinstance(layer, nn.Linear)]
    return max(_CALIBRATION, *(_PER_INPUT * width for width in widths if width <= _WIDEST), 0)


def _network(given: nn.Module | TrainRun | str | Path) -> tuple[nn.Module, TrainRun | Path | None]:
    """A copy in ``eval`` mode whose attention can lose heads, and its training run (or the folder) if known."""
    if isinstance(given, TrainRun):
        return open_heads(copied(given.network).eval()), given
    given = held_network(given)
    if isinstance(given, nn.Module):
        return open_heads(copied(given).eval()), None
    if not isinstance(given, str | Path):
        raise UsageError(
            f"a network is a module, a result that holds one, a file or a folder, not {given!r}; a class must be called"
        )
    path = Path(given)
    return open_heads(load(path)), path if path.is_dir() else None


def _data(given: Any) -> Data:
    if isinstance(given, Path | Source):
        return load_all(given)
    return as_data(given, splits=("train", "test"))


def _check_finite(data: Data, train: Split) -> None:
    if train.x.is_floating_point() and not bool(torch.isfinite(train.x).all()):
        row = int((~torch.isfinite(train.x)).flatten(1).any(dim=1).nonzero()[0, 0])
        raise DataMismatch(f"{data.name}: row {row} of the train split holds nan or infinity")


def _check_rows(data: Data, rows: Split) -> None:
    """Refuse rows that cannot distinguish units."""
    if kind_of(rows.y) is Kind.CLASSES and int(rows.y.min()) == int(rows.y.max()):
        raise DataMismatch(
            f"{data.name}: all {len(rows)} training rows used have the same class, so the use of a unit cannot be "
            "measured; use rows of at least two classes"
        )
    flat = rows.x.flatten(1)
    if torch.equal(flat[-1], flat[0]) and bool((flat == flat[:1]).all()):
        raise DataMismatch(f"{data.name}: all training rows used are equal: every unit is constant on them")


@torch.no_grad()
def _outputs(network: nn.Module, example: Tensor) -> int:
    given = outputs_of(network, example.clone())  # it may begin with an in-place operation
    if not bool(torch.isfinite(given).all()):
        raise DataMismatch("the network gives nan or infinity for training rows; check it with inspect or grade")
    return int(given.shape[1])


def _check_parameters(network: nn.Module) -> None:
    if not any(value.is_floating_point() for value in network.parameters()):
        raise UsageError(f"{type(network).__name__} has no parameters: there is nothing to remove")


def check_device(device: str) -> None:
    """Refuse a device that torch does not know or that is not available."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch raises this if it was built without the device
        raise UsageError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]})") from error
