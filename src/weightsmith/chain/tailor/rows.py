"""The rows of a search, without overlap: unlabelled training rows, and judging rows that are not used before.

Of the training rows (1,000 at most) three quarters are *looked at*: sensitivities, refits, thresholds and ranges of
activations come from them. On the rest, the *selection* rows, candidates are compared with the original network. No
label of either is read. The *judging* rows are those of the test split, or of the validation split without one.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weightsmith.core.errors import DataMismatch
from weightsmith.core.records import Record
from weightsmith.core.seeds import stream
from weightsmith.data.datasets import as_data, load_all
from weightsmith.data.judging import drawn_to_judge
from weightsmith.data.sources import Source
from weightsmith.data.targets import Kind
from weightsmith.data.tensors import Data, Split

__all__ = ["Divided", "RowsUsed", "divided"]

_FEWEST = 8


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
    ``judging`` the judging rows.
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


def divided(given: Any, *, rows: int, test_rows: int | None, seed: int) -> Divided:
    """The rows of ``given`` for each purpose, drawn by the seed: ``rows`` training rows, ``test_rows`` judging rows.

    Without ``test_rows`` all rows of the split are judging rows.
    """
    known = load_all(given) if isinstance(given, str | Path | Source) else as_data(given)
    if known.kind is not Kind.CLASSES:
        raise DataMismatch(
            f"{known.name} is {known.kind.value}, and rows of one class each are needed here: tailoring compares "
            "accuracies; use reduce instead"
        )
    train = known.splits.get("train")
    judging_split = next((name for name in ("test", "validation") if name in known.splits), None)
    if train is None or judging_split is None:
        raise DataMismatch(
            f"{known.name} has only {', '.join(known.splits)} rows: tailoring needs training rows (without labels) and "
            "others to judge by; --test 0.2 (in Python data.with_test(0.2)) holds some out: train the network with the "
            "same option, so that it has not seen them"
        )
    if len(train) < _FEWEST:
        raise DataMismatch(f"{known.name} has {len(train)} training rows; at least {_FEWEST} are needed")
    judged = known.split(judging_split)
    drawn = stream(seed, "tailoring rows").permutation(len(train))[: min(rows, len(train))]
    looked = max(1, len(drawn) * 3 // 4)
    looked_at, checked = (train.take(torch.from_numpy(np.sort(part))) for part in (drawn[:looked], drawn[looked:]))
    judging = judged.take(drawn_to_judge(len(judged), test_rows, seed))
    return Divided(
        choosing=_with(known, looked_at, checked),
        judging=_with(known, looked_at, judging),
        train=RowsUsed("train", len(looked_at), len(train), looked_at.digest()),
        selection=RowsUsed("train", len(checked), len(train), checked.digest()),
        judged=RowsUsed(judging_split, len(judging), len(judged), judging.digest()),
    )


def _with(known: Data, train: Split, test: Split) -> Data:
    return dataclasses.replace(known, train=train, validation=None, test=test)
