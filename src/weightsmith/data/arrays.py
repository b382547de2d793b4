"""The result of a file reader, and the checks that all readers share: the size limit and the range of labels."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from weightsmith.core.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["LIMIT", "Arrays", "Files", "checked_labels", "checked_size"]

LIMIT = 2 << 30
"""The most bytes that one array or archive member may take: ten times the largest data set known here."""


class Arrays(NamedTuple):
    """One split as read: inputs (a tensor where they may be streamed), targets, names of classes, and notes.

    ``classes`` name the columns of targets that are labels or values.
    """

    x: NDArray[np.uint8] | NDArray[np.float32] | NDArray[np.int64] | Tensor
    y: NDArray[np.int64] | NDArray[np.bool_] | NDArray[np.float32]
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    groups: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None

    def taken(self, rows: NDArray[np.bool_]) -> Arrays:
        """These rows only."""
        return self._replace(
            x=self.x[rows],
            y=self.y[rows],
            groups=None if self.groups is None else self.groups[rows],
            weights=None if self.weights is None else self.weights[rows],
        )


class Files(Protocol):
    """The files of one data set in one form, found but not yet read."""

    @property
    def origin(self) -> str:
        """The folder or file they were found in."""

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        """The requested splits; raises FileRefused if one is damaged."""


def checked_size(path: str | PathLike[str], size: int, what: str) -> int:
    """``size``, if that many bytes may be read into memory; call it before reading them."""
    if not 0 <= size <= LIMIT:
        raise FileRefused(path, f"{what} would take {size:,} bytes; the limit is {LIMIT:,}")
    return size


def checked_labels(path: str | PathLike[str], labels: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """Labels as int64, checked to be one of ``classes`` classes; the error names the first that is not."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        row = int(wrong[0])
        raise FileRefused(
            path, f"label {int(labels[row])} in row {row} is not one of the {classes} classes 0…{classes - 1}"
        )
    return labels.astype(np.int64)
