"""The input of a conversion: a network with its calibration rows and evaluation rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.seeds import stream
from weightsmith.data.datasets import as_data, load_all
from weightsmith.data.sources import Source
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.evaluation import labels_for, scores
from weightsmith.networks.files import load
from weightsmith.networks.held import held_network
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.results import SpikeRun
from weightsmith.training.run import TrainRun

__all__ = ["Subject", "read_subject"]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A network to be converted and its data; labels are indices of the network's outputs.

    ``train`` are all training rows. ``split`` and ``judged`` are the name and the rows of the split on which accuracies
    are measured (the test split if there is one), and ``answers`` the network's predictions for them.
    """

    network: nn.Module
    data: Data
    train: Split
    split: str
    judged: Split
    answers: Tensor
    inputs: dict[str, str]


def read_subject(network: nn.Module | TrainRun | str | Path, data: Any, *, images: int | None, seed: int) -> Subject:
    """Read network and data; ``images`` of the evaluation rows are drawn by the seed (None: all)."""
    module = _network(network)
    known = load_all(data) if isinstance(data, Path | Source) else as_data(data, splits=("train", "test"))
    split = next(name for name in ("test", "validation", "train") if name in known.splits)
    if "train" not in known.splits or len(known.split("train")) == 0:
        raise DataMismatch(f"{known.name} has no training rows, which are needed to find thresholds")
    rows = _drawn(len(known.split(split)), images, seed)
    judged = Split(known.split(split).x[rows], known.split(split).y[rows])
    answers = scores(module, judged.x)
    card = card_of(module)
    return Subject(
        network=module,
        data=known,
        train=Split(known.split("train").x, labels_for(card, known, known.split("train").y, answers.shape[1])[1]),
        split=split,
        judged=Split(judged.x, labels_for(card, known, judged.y, answers.shape[1])[1]),
        answers=answers.argmax(dim=1),
        inputs={"network": weights_digest(module), "data": known.digest()},
    )


def _network(given: Any) -> nn.Module:
    """A copy in ``eval`` mode."""
    given = held_network(given)
    if isinstance(given, nn.Module):
        return copied(given).eval()
    if isinstance(given, SpikingNetwork | SpikeRun):
        which = "its run()" if isinstance(given, SpikingNetwork) else "its network.run()"
        raise UsageError(f"this is a spiking network already: {which} runs it")
    if not isinstance(given, str | Path):
        raise UsageError(
            f"a network is a module, a result that holds one, a file or a folder, not {type(given).__name__}"
        )
    return load(given).eval()


def _drawn(total: int, images: int | None, seed: int) -> Tensor:
    """Indices of ``images`` out of ``total`` rows, in ascending order."""
    if total == 0:
        raise DataMismatch("the data have no rows to evaluate the network on")
    if images is None or images >= total:
        return torch.arange(total)
    return torch.from_numpy(stream(seed, "judging rows").choice(total, images, replace=False)).sort().values
