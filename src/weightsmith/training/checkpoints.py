"""Where a run stands between two epochs, in memory and on disk.

A folder holds ``checkpoint.safetensors`` (the last epoch: weights, best weights, state of the optimiser, history;
sealed, written anew after each epoch), ``journal.jsonl`` (a line per epoch with its duration) and, in the end,
``epoch-NNNN.safetensors`` for each epoch that is kept. The journal names the call it belongs to, and a checkpoint is
taken only if the journal tells of its epoch, so a folder never mixes two runs.
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
from weightsmith.core.records import Record
from weightsmith.networks.sealed import is_sealed, sealed_content, write_sealed
from weightsmith.networks.weights import open_weights
from weightsmith.training.run import EpochRow
from weightsmith.training.watching import Watch

__all__ = ["Checkpoints", "Standing"]

_FILE = "checkpoint.safetensors"


@dataclasses.dataclass(frozen=True, eq=False)
class Standing(Record):
    """The facts of a run after some epochs; the tensors stand beside it."""

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
        self._folder = folder
        self._journal = None if folder is None else Journal(folder / "journal.jsonl", call)

    def read(self) -> tuple[dict[str, Tensor], Standing] | None:
        """The last state that was written by this call; None if there is none."""
        from safetensors.torch import load_file

        if self._folder is None or self._journal is None or not (self._folder / _FILE).exists():
            return None
        weights = open_weights(self._folder / _FILE)  # checks sizes and seal
        if not is_sealed(weights.metadata):
            raise FileRefused(weights.path, "is not a checkpoint of weightsmith")
        try:
            standing = Standing.from_dict(json.loads(sealed_content(weights.metadata)))
        except ValueError as error:
            raise FileRefused(weights.path, f"was written by another version of weightsmith ({error})") from error
        # Whoever deletes the journal starts over: what it does not speak of is the checkpoint of another call.
        if not standing.rows or self._journal.get(_key(standing)) != standing.rows[-1].to_dict():
            return None
        # Copied, because the tensors are the mapped file itself, and the next epoch replaces it.
        return {name: tensor.clone() for name, tensor in load_file(weights.path).items()}, standing

    def write(self, tensors: Mapping[str, Tensor], standing: Standing, seconds: float) -> None:
        """Keep the state after an epoch that took ``seconds``."""
        if self._folder is None or self._journal is None:
            return
        key = _key(standing)
        if key not in self._journal:  # a run killed between this line and the next has it already
            self._journal.append(key, standing.rows[-1].to_dict(), seconds)
        write_sealed(self._folder / _FILE, tensors, standing.to_json())

    def close(self) -> None:
        """Let another process have the folder."""
        if self._journal is not None:
            self._journal.close()


def _key(standing: Standing) -> str:
    return f"epoch {len(standing.rows)}"
