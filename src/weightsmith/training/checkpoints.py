"""Checkpoints of a training run after each epoch, in memory and on disk.

A folder holds ``checkpoint.safetensors`` (sealed, written anew after each epoch: weights, best weights, the optimiser's
state, the history), ``journal.jsonl`` (a line per epoch with its duration), and a network file for each epoch that is
kept. Journal and checkpoint name the call they belong to, so that a folder never mixes two runs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.journal import Journal
from weightsmith.core.records import Record, digest_of
from weightsmith.networks.card import Card
from weightsmith.networks.sealed import is_sealed, sealed_content, write_sealed
from weightsmith.networks.weights import open_weights
from weightsmith.training.run import EpochRow
from weightsmith.training.watching import Watch

__all__ = ["Checkpoints", "Standing"]

_FILE = "checkpoint.safetensors"


@dataclasses.dataclass(frozen=True, eq=False)
class Standing(Record):
    """The state of a run after some epochs, without its tensors."""

    rows: tuple[EpochRow, ...] = ()
    schedule: Watch = dataclasses.field(default_factory=Watch)
    stop: Watch = dataclasses.field(default_factory=Watch)
    best: float | None = None
    best_epoch: int = 0
    stopped_early: bool = False
    probes: dict[str, Any] | None = None


class Checkpoints:
    """The folder of a run, or nothing at all if no folder is given."""

    def __init__(self, folder: Path | None, call: Mapping[str, Any]) -> None:
        self._folder, self._call = folder, digest_of(json.dumps(call, sort_keys=True))
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._journal = None if folder is None else Journal(folder / "journal.jsonl", call)

    def read(self) -> tuple[dict[str, Tensor], Standing] | None:
        """The last state that was written by this call; None if there is none."""
        if self._folder is None or self._journal is None or not (self._folder / _FILE).exists():
            return None
        weights = open_weights(self._folder / _FILE)  # checks sizes and seal
        if not is_sealed(weights.metadata):
            raise FileRefused(weights.path, "is not a checkpoint of weightsmith")
        try:
            content = json.loads(sealed_content(weights.metadata))
            call, standing = content["call"], Standing.from_dict(content["standing"])
        except (ValueError, KeyError, TypeError) as error:
            raise FileRefused(weights.path, f"was written by another version of weightsmith ({error})") from error
        # Without the journal the run starts over: a checkpoint that it does not mention belongs to an earlier run.
        if call != self._call or _key(standing) not in self._journal:
            return None
        return _tensors(weights.path), standing

    def write(self, tensors: Mapping[str, Tensor], standing: Standing, seconds: float) -> None:
        """Keep the state after an epoch that took ``seconds``."""
        if self._folder is None or self._journal is None:
            return
        key = _key(standing)
        if key not in self._journal:  # a run killed between this line and the next has it already
            self._journal.append(key, standing.rows[-1].to_dict(), seconds)
        content = {"call": self._call, "standing": standing.to_dict()}
        write_sealed(self._folder / _FILE, tensors, json.dumps(content, allow_nan=False))

    def keep(self, epoch: int, state: dict[str, Tensor], card: Card) -> None:
        """Keep the weights of an epoch: as a network file in the folder, or in memory if there is none."""
        if self._folder is None:
            self._kept[epoch] = state
        else:
            write_sealed(self._folder / _kept_file(epoch), state, card.to_json())

    def has(self, epoch: int) -> bool:
        """Whether the weights of an epoch were kept; of several processes only the first has all of them."""
        return epoch in self._kept if self._folder is None else (self._folder / _kept_file(epoch)).exists()

    def kept(self, epoch: int) -> dict[str, Tensor]:
        """The weights that were kept of an epoch."""
        if self._folder is None:
            return self._kept[epoch]
        return _tensors(open_weights(self._folder / _kept_file(epoch)).path)

    def close(self) -> None:
        """Release the folder for other processes."""
        if self._journal is not None:
            self._journal.close()


def _tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a sealed file, as stored: none is treated as a quantised weight."""
    from safetensors.torch import load_file

    # Copied, because they are the mapped file itself, and the next epoch replaces it.
    return {name: tensor.clone() for name, tensor in load_file(path).items()}


def _kept_file(epoch: int) -> str:
    return f"epoch-{epoch:04d}.safetensors"


def _key(standing: Standing) -> str:
    return f"epoch {len(standing.rows)}"
