"""Split rows into selection, judging and training rows, without overlap.

Candidates are compared on *selection* rows: the validation split, or rows drawn from the test split. The chosen one is
judged on *other* rows: those of the test split, or the rest of it. Training rows are for pruning methods,
fine-tuning and thresholds.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch
from weightsmith.core.records import Record
from weightsmith.data.datasets import as_data, load_all
from weightsmith.data.sources import Source
from weightsmith.data.splits import stratified_split
from weightsmith.data.tensors import Data, Split

__all__ = ["Divided", "RowsUsed", "divided"]


@dataclasses.dataclass(frozen=True, eq=False)
class RowsUsed(Record):
    """The number of rows, their split and its size, and the SHA-256 of their inputs and labels."""

    split: str
    rows: int
    of: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Divided:
    """The data twice, with the same training rows: the test split of ``choosing`` holds the selection rows, that of
    ``judging`` the others.
    """

    choosing: Data
    judging: Data
    train: RowsUsed
    selection: RowsUsed
    judged: RowsUsed

    @property
    def inputs(self) -> dict[str, str]:
        """The digests of the three kinds of rows."""
        return {"train": self.train.sha256, "selection": self.selection.sha256, "judging": self.judged.sha256}


def divided(given: Any, *, test_rows: int | None, tune_rows: int | None, seed: int) -> Divided:
    """The rows of ``given`` for each purpose, drawn by the seed.

    ``test_rows`` of selection rows and as many of judging rows (None: all there are, of one split half and half), and
    ``tune_rows`` training rows (None: all).
    """
    known = load_all(given) if isinstance(given, str | Path | Source) else as_data(given)
    train = known.splits.get("train")
    held_out = [name for name in ("validation", "test") if name in known.splits]
    if train is None or not held_out:
        raise DataMismatch(
            f"{known.name} has only {', '.join(known.splits)} rows: tailoring needs training rows, others to choose "
            "and to judge by; --test 0.2 (in Python data.with_test(0.2)) sets some apart, if the network was not "
            "trained on them: train it with the same"
        )
    if len(held_out) == 2:
        names = ("validation", "test")
        first, second = known.split(names[0]), known.split(names[1])
        chosen, other = _some(first, test_rows, seed), _some(second, test_rows, seed)
    else:
        names = (held_out[0], held_out[0])
        first = second = known.split(held_out[0])
        chosen, other = _halves(known.name, first, test_rows, seed)
    selection, judging, training = first.take(chosen), second.take(other), train.take(_some(train, tune_rows, seed))
    return Divided(
        choosing=_with(known, training, selection),
        judging=_with(known, training, judging),
        train=RowsUsed("train", len(training), len(train), training.digest()),
        selection=RowsUsed(names[0], len(selection), len(first), selection.digest()),
        judged=RowsUsed(names[1], len(judging), len(second), judging.digest()),
    )


def _some(split: Split, count: int | None, seed: int) -> Tensor:
    """The indices of ``count`` rows, stratified by class (None: all)."""
    if count is None or count >= len(split):
        return torch.arange(len(split))
    return torch.from_numpy(stratified_split(split.y, (count, len(split) - count), seed)[0])


def _halves(name: str, split: Split, count: int | None, seed: int) -> tuple[Tensor, Tensor]:
    """Rows for selection and for judging from one split, stratified by class; groups stay whole."""
    if len(split) < 2:
        raise DataMismatch(f"{name} has one held-out row: one to choose by and another to judge by are needed")
    half = len(split) // 2
    sizes = (half, len(split) - half) if count is None or count >= half else (count, count, len(split) - 2 * count)
    chosen, other, *_ = split.divided(sizes, seed)
    return torch.from_numpy(chosen), torch.from_numpy(other)


def _with(known: Data, train: Split, test: Split) -> Data:
    return dataclasses.replace(known, train=train, validation=None, test=test)
