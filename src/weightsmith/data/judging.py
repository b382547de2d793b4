"""The rows on which a network is evaluated: a split of the data, or some of its rows drawn by the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.seeds import stream
from weightsmith.data.datasets import as_data
from weightsmith.data.tensors import Data, Split

__all__ = ["Rows", "draw_rows", "drawn_to_judge"]


@dataclass(frozen=True)
class Rows:
    """The rows to evaluate on, the name of their split, and their data."""

    data: Data
    split: str
    part: Split


def draw_rows(data: Any, split: str | None, test_rows: int | None, seed: int) -> Rows:
    """``test_rows`` of one split (the test split, or the only one there is), drawn by the seed (None: all).

    All verbs draw the same rows, so that their results can be compared in pairs.
    """
    known = as_data(data, splits=(split or "test",))
    chosen = split or (next(iter(known.splits)) if len(known.splits) == 1 else "test")
    part = known.split(chosen)
    drawn = test_rows is not None and test_rows < len(part)
    return Rows(known, chosen, part.take(drawn_to_judge(len(part), test_rows, seed)) if drawn else part)


def drawn_to_judge(total: int, test_rows: int | None, seed: int) -> NDArray[np.int64]:
    """The numbers of ``test_rows`` drawn from ``total`` rows (None: all), ascending; the same in every verb.

    >>> drawn_to_judge(100, None, seed=0).size, drawn_to_judge(100, 3, seed=0).size
    (100, 3)
    """
    if test_rows is None or test_rows >= total:
        return np.arange(total)
    return np.sort(stream(seed, "judging rows").choice(total, test_rows, replace=False))
