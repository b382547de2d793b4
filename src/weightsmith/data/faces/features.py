"""The full descriptors of many faces, and principal components fitted on training rows only.

Principal components fitted on test rows too would leak and bias the result. So the full descriptors are kept, and each
fold fits its own:

    features = FaceFeatures.load("faces.npz")
    for fold in stratified_folds(features.labels, 10):
        x = features.components(fold.train)             # (n, 10); fitted on fold.train, applied to all rows
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.storage import write_atomic
from weightsmith.data.formats.npz import read_arrays
from weightsmith.data.splits import stratified_split
from weightsmith.data.tensors import SPLITS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["FaceFeatures", "LeftOut", "principal"]


_ARRAYS = ("lpq", "phog", "labels", "classes", "paths", "splits", "left_out", "notes", "recipe")


class LeftOut(NamedTuple):
    """An image that gave no row: its path and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class FaceFeatures:
    """One row for each face: its descriptors, class, file, and the split its folder belongs to (else ``train``)."""

    lpq: NDArray[np.float32]
    phog: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    paths: tuple[str, ...]
    splits: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    recipe: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", self.splits or ("train",) * len(self.labels))
        rows = {len(part) for part in (self.lpq, self.phog, self.labels, self.paths, self.splits)}
        if rows != {len(self.labels)} or not len(self.labels) or {self.lpq.ndim, self.phog.ndim} != {2}:
            raise DataMismatch(
                f"all parts of faces need the same number of rows: lpq {self.lpq.shape}, phog {self.phog.shape}, "
                f"{len(self.labels)} labels, {len(self.paths)} paths, {len(self.splits)} splits"
            )
        if not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise DataMismatch(f"labels of faces are numbers of the {len(self.classes)} classes, from 0")
        if not set(self.splits) <= set(SPLITS):
            raise DataMismatch(f"splits of faces are {', '.join(SPLITS)}, not {sorted(set(self.splits) - set(SPLITS))}")

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"FaceFeatures({len(self)} faces, {len(self.classes)} classes, {len(self.left_out)} left out)"

    def components(self, train_rows: ArrayLike, lpq: int = 5, phog: int = 5) -> NDArray[np.float64]:
        """The principal components of LPQ, then of PHOG, of every row, fitted on ``train_rows`` alone."""
        fits = self.fitted(train_rows, lpq, phog)
        return np.hstack([fit.scores(x) for fit, x in zip(fits, (self.lpq, self.phog), strict=True)])

    def fitted(self, train_rows: ArrayLike, lpq: int = 5, phog: int = 5) -> tuple[_Principal, _Principal]:
        """The components of LPQ and of PHOG over ``train_rows`` (row numbers, or one true or false for each row)."""
        rows = self._rows(train_rows)
        return principal(self.lpq[rows], lpq, "LPQ"), principal(self.phog[rows], phog, "PHOG")

    def divided(self, test: float = 0.2, seed: int = 0) -> tuple[str, ...]:
        """The split of each row: that of its folder, or, without split folders, a stratified draw of ``test`` rows."""
        if not 0 <= test < 1:
            raise UsageError(f"the share of test rows must be ≥ 0 and < 1, not {test}")
        if set(self.splits) != {"train"} or test == 0:
            return self.splits
        parts = np.array(self.splits, dtype="U10")
        parts[stratified_split(self.labels, (1 - test, test), seed)[1]] = "test"
        return tuple(parts.tolist())

    def save(self, path: str | Path) -> Path:
        """Write everything as a NumPy archive: plain arrays, no pickle."""
        file = io.BytesIO()
        np.savez(
            file,
            lpq=self.lpq,
            phog=self.phog,
            labels=self.labels,
            classes=np.array(self.classes, np.str_),
            paths=np.array(self.paths, np.str_),
            splits=np.array(self.splits, np.str_),
            left_out=np.array(self.left_out, np.str_).reshape(-1, 2),
            notes=np.array(self.notes, np.str_),
            recipe=np.array(self.recipe, np.str_),
        )
        return write_atomic(path, file.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> FaceFeatures:
        """Read what :meth:`save` wrote; anything else is refused."""
        path = Path(path)
        lpq, phog, labels, classes, paths, splits, left_out, notes, recipe = read_arrays(path, _ARRAYS)
        numbers = (lpq, phog, labels)
        texts = (classes, paths, splits, left_out, notes, recipe)
        kinds = [array.dtype.kind for array in (*numbers, *texts)]
        shapes = [array.ndim for array in (*numbers, *texts)]
        if kinds != list("ffiUUUUUU") or shapes != [2, 2, 1, 1, 1, 1, 2, 1, 0] or left_out.shape[1] != 2:
            raise FileRefused(path, "does not hold descriptions of faces as weightsmith writes them")
        if not (np.isfinite(lpq).all() and np.isfinite(phog).all()):
            raise FileRefused(path, "holds NaN or infinity")
        try:
            return cls(
                lpq.astype(np.float32, copy=False),
                phog.astype(np.float32, copy=False),
                labels.astype(np.int64, copy=False),
                _words(classes),
                _words(paths),
                _words(splits),
                tuple(LeftOut(*pair) for pair in left_out.tolist()),
                _words(notes),
                str(recipe),
            )
        except DataMismatch as error:
            raise FileRefused(path, str(error)) from error

    def _rows(self, rows: ArrayLike) -> NDArray[Any]:
        index: NDArray[Any] = np.asarray(rows)
        if index.dtype == np.bool_ and index.shape == (len(self),):
            index = np.flatnonzero(index)
        numbers = index.ndim == 1 and len(index) and index.dtype.kind in "iu"
        if not numbers or index.min() < 0 or index.max() >= len(self):
            raise UsageError(
                f"training rows are numbers from 0 to {len(self) - 1}, or {len(self)} times true or false; "
                f"not {index.dtype} {index.shape}"
            )
        return index


def _words(array: NDArray[np.str_]) -> tuple[str, ...]:
    return tuple(array.tolist())


# Principal components, fitted on some rows and applied to any.
#
#     x − mean = U S Vᵀ over the rows given;  scores of a row = (row − mean) V,  the first ``count`` columns
#
# The sign of a direction is arbitrary; here the entry of largest magnitude in each is positive, so that the same
# rows give the same scores.


class _Principal(NamedTuple):
    """Directions ``(count, features)`` of largest variance about ``mean``, and the share of the variance in each."""

    mean: NDArray[np.float64]
    directions: NDArray[np.float64]
    shares: NDArray[np.float64]

    def scores(self, x: ArrayLike) -> NDArray[np.float64]:
        """Rows ``(n, features)`` projected onto the directions: ``(n, count)``."""
        with pinned_threads():
            scores: NDArray[np.float64] = (np.asarray(x, np.float64) - self.mean) @ self.directions.T
        return scores


def principal(x: ArrayLike, count: int, what: str = "data") -> _Principal:
    """The ``count`` principal components of the rows ``x``; ``what`` names them in errors.

    >>> fit = principal([[0, 0], [1, 2], [2, 4]], 1)
    >>> fit.directions.round(3), fit.shares
    (array([[0.447, 0.894]]), array([1.]))
    """
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or not len(rows):
        raise UsageError(f"{what}: components need rows (n, features), not {rows.shape}")
    mean = rows.mean(axis=0)
    with pinned_threads():
        _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
    # NumPy's own rule for the rank, scaled by the rows themselves, so that equal rows have none.
    rank = int((sizes > max(rows.shape) * np.finfo(np.float64).eps * np.abs(rows).max(initial=0)).sum())
    if not 0 <= count <= rank:
        raise UsageError(
            f"{what}: {count} components were requested, but the {len(rows)} training rows vary in {rank} directions"
        )
    chosen = directions[:count]
    largest = np.abs(chosen).argmax(axis=1)
    signs = np.sign(chosen[np.arange(count), largest])
    variances = sizes**2
    return _Principal(mean, chosen * signs[:, None], variances[:count] / (variances.sum() or 1))
