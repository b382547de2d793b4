"""Checkpoints of a training run after each epoch, in memory and on disk.

A folder holds ``checkpoint.safetensors`` (sealed, rewritten after each epoch: weights, best weights, the optimiser's
state, the number of epochs done), ``journal.jsonl`` (a line per epoch: its row of the history, the measured gradients,
its duration), and a network file for each epoch that is kept. The amount written per epoch does not grow with the
number of epochs. Journal and checkpoint name the call they belong to, so that a folder never mixes two runs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from weightsmith.core.errors import FileRefused
from weightsmith.core.journal import Journal, read_journal
from weightsmith.core.records import Record, digest_of
from weightsmith.networks.card import Card
from weightsmith.networks.sealed import is_sealed, sealed_content, write_sealed
from weightsmith.networks.weights import open_weights
from weightsmith.training.run import EpochRow
from weightsmith.training.watching import Watch

__all__ = ["Checkpoints", "TrainingState", "begun_with", "extend", "may_extend"]

_FILE, _JOURNAL, _PROBES = "checkpoint.safetensors", "journal.jsonl", "probes"


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingState(Record):
    """The state of a run after some epochs, without its tensors. ``probes`` has a part for each epoch."""

    rows: tuple[EpochRow, ...] = ()
    schedule: Watch = dataclasses.field(default_factory=Watch)
    stop: Watch = dataclasses.field(default_factory=Watch)
    best: float | None = None
    best_epoch: int = 0
    stopped_early: bool = False
    probes: tuple[dict[str, Any], ...] = ()
    stopped_by_hook: str | None = None
    rates: dict[str, float] = dataclasses.field(default_factory=dict)


class Checkpoints:
    """The folder of a run; without one, only kept epochs are held, in memory."""

    def __init__(self, folder: Path | None, call: Mapping[str, Any]) -> None:
        self._folder, self._call = folder, digest_of(json.dumps(call, sort_keys=True))
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._beside: dict[str, Any] = {}  # epochs that the journal lacks or records differently
        self._journal = None if folder is None else Journal(folder / _JOURNAL, call)

    def read(self) -> tuple[dict[str, Tensor], TrainingState] | None:
        """The last state that was written by this call; None if there is none."""
        if self._folder is None or self._journal is None or not (self._folder / _FILE).exists():
            return None
        weights = open_weights(self._folder / _FILE)  # checks sizes and seal
        if not is_sealed(weights.metadata):
            raise FileRefused(weights.path, "is not a checkpoint of weightsmith")
        try:
            content = json.loads(sealed_content(weights.metadata))
            if "epochs" not in content:
                content = _with_epochs(content)
            facts, beside = TrainingState.from_dict(content["standing"]), content["beside"]
            keys = [_key(epoch) for epoch in range(1, content["epochs"] + 1)]
            # Deleting the journal starts over: a checkpoint that it does not mention belongs to an earlier run.
            if content["call"] != self._call or keys[-1] not in self._journal:
                return None
            epochs_known = {**self._journal, **beside}
            state = _with_rows(facts, [epochs_known[key] for key in keys])
        except (ValueError, LookupError, TypeError) as error:
            raise FileRefused(weights.path, f"was written by another version of weightsmith ({error})") from error
        self._beside = {key: epoch for key, epoch in beside.items() if self._journal.get(key) != epoch}
        return _tensors(weights.path), state

    def write(self, tensors: Mapping[str, Tensor], state: TrainingState, seconds: float) -> None:
        """Keep the state after an epoch that took ``seconds``."""
        if self._folder is None or self._journal is None:
            return
        key, epoch = _key(len(state.rows)), state.rows[-1].to_dict()
        if state.probes:
            epoch[_PROBES] = state.probes[-1]
        for number in range(len(state.rows) - 1, 0, -1):  # a run that was rewound begins with the rows of another
            if _key(number) in self._journal or _key(number) in self._beside:
                break
            self._beside[_key(number)] = state.rows[number - 1].to_dict()
        if key not in self._journal:
            self._journal.append(key, epoch, seconds)
        elif self._journal[key] != epoch:  # killed before the checkpoint, and a hook measured other values since
            self._beside[key] = epoch
        facts = dataclasses.replace(state, rows=(), probes=()).to_dict()
        content = {"call": self._call, "epochs": len(state.rows), "standing": facts, "beside": self._beside}
        write_sealed(self._folder / _FILE, tensors, json.dumps(content, allow_nan=False))

    def keep(self, epoch: int, state: dict[str, Tensor], card: Card, kinds: Mapping[str, str]) -> None:
        """Keep the weights of an epoch: as a network file in the folder, or in memory if there is none."""
        if self._folder is None:
            self._kept[epoch] = state
        else:
            write_sealed(self._folder / _kept_file(epoch), state, card.to_json(), kinds)

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


def begun_with(folder: Path) -> dict[str, Any] | None:
    """The settings of the run that a folder holds; None if there is none."""
    path = folder / _JOURNAL
    found = read_journal(path).call.get("settings") if path.exists() else None
    return found if isinstance(found, dict) else None


def extend(folder: Path, call: Mapping[str, Any]) -> None:
    """Make the folder of a finished run that of ``call``, the same run with more epochs.

    The checkpoint is written first: if killed between the files, the same call finds the old journal and repeats this.
    """
    journal = read_journal(folder / _JOURNAL)
    stored = open_weights(folder / _FILE)
    content = json.loads(sealed_content(stored.metadata))
    write_sealed(
        folder / _FILE,
        _tensors(stored.path),
        json.dumps({**content, "call": digest_of(json.dumps(call, sort_keys=True))}, allow_nan=False),
    )
    fresh = folder / f"{_JOURNAL}.new"
    fresh.unlink(missing_ok=True)
    with Journal(fresh, call) as made:
        for key, value in journal.values.items():
            made.append(key, value, journal.seconds[key])
    fresh.replace(folder / _JOURNAL)


def may_extend(folder: Path, call: Mapping[str, Any]) -> bool:
    """Whether ``call`` is the call of the finished run in ``folder`` with more epochs."""
    path = folder / _JOURNAL
    if not path.exists() or not (folder / _FILE).exists():
        return False
    journal = read_journal(path)
    before, after = journal.call.get("settings"), call["settings"]
    if not isinstance(before, dict) or {**journal.call, "settings": {}} != {**call, "settings": {}}:
        return False
    done = before.get("epochs")
    alike = {**before, "epochs": None} == {**after, "epochs": None}
    return alike and isinstance(done, int) and done < after["epochs"] and _key(done) in journal.values


def _tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a sealed file, as stored: none is treated as a quantised weight."""
    from safetensors.torch import load_file

    # Copied, because the tensors map the file, which the next epoch replaces.
    return {name: tensor.clone() for name, tensor in load_file(path).items()}


def _with_rows(facts: TrainingState, epochs: Iterable[Mapping[str, Any]]) -> TrainingState:
    """The facts with the row and the probes of each epoch."""
    epochs_known = [dict(epoch) for epoch in epochs]
    probes = tuple(epoch.pop(_PROBES) for epoch in epochs_known if _PROBES in epoch)
    return dataclasses.replace(facts, rows=tuple(map(EpochRow.from_dict, epochs_known)), probes=probes)


def _with_epochs(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of an old checkpoint, which holds all epochs itself, in the present format."""
    facts = dict(content["standing"])
    rows, probes = [dict(row) for row in facts.pop("rows")], facts.pop(_PROBES)
    if probes is not None:
        rows[-1][_PROBES] = probes  # of all epochs: the journal has none of them
    beside = {_key(epoch): row for epoch, row in enumerate(rows, start=1)}
    return {"call": content["call"], "epochs": len(rows), "standing": facts, "beside": beside}


def _kept_file(epoch: int) -> str:
    return f"epoch-{epoch:04d}.safetensors"


def _key(epoch: int) -> str:
    return f"epoch {epoch}"
