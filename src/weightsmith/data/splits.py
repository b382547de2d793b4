"""Stratified splits and folds, by rows or by whole groups of rows.

Both functions shuffle the rows of each class, lay the classes end to end, and deal them out evenly along that line.
Which row goes where depends on the labels and the seed alone; the rows of a part come back in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import stream

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

__all__ = ["Fold", "group_folds", "group_split", "stratified_folds", "stratified_split"]


class Fold(NamedTuple):
    """Row numbers to train on and to test on; together they hold every row once."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def stratified_split(y: Tensor | ArrayLike, sizes: Sequence[float], seed: int = 0) -> tuple[NDArray[np.int64], ...]:
    """Row numbers of disjoint parts that cover every row; ``sizes`` are fractions of 1 or counts of rows.

    Part totals are exact. With two parts, each class count is its exact share rounded up or down; with more, the
    parts are cut off one after another, and each cut adds at most one to the deviation.

    >>> train, test = stratified_split([0, 0, 0, 0, 1, 1], (4, 2))
    >>> len(train), len(test), np.sort(np.concatenate([train, test])).tolist()
    (4, 2, [0, 1, 2, 3, 4, 5])
    """
    labels = _labels(y)
    counts = _counts(sizes, len(labels))
    line = _line(labels, seed, "split")
    parts: list[NDArray[np.int64]] = []
    for count in reversed(counts[1:]):
        # Every stretch of this line holds its share of the chosen rows, rounded up or down: Bresenham's line.
        steps = np.arange(len(line) + 1) * count // len(line)
        chosen = np.diff(steps).astype(bool)
        parts.append(np.sort(line[chosen]))
        line = line[~chosen]
    return (np.sort(line), *reversed(parts))


def stratified_folds(y: Tensor | ArrayLike, k: int, seed: int = 0) -> tuple[Fold, ...]:
    """``k`` folds for cross-validation: fold sizes, and the counts of each class, differ by at most one.

    A class with fewer than ``k`` rows is absent from the test rows of some folds.
    """
    labels = _labels(y)
    if not 2 <= k <= len(labels):
        raise UsageError(f"{len(labels)} rows cannot be split into {k} folds; use 2 to {len(labels)}")
    line = _line(labels, seed, "folds")
    every = np.arange(len(labels))
    tests = [np.sort(line[start::k]) for start in range(k)]
    return tuple(Fold(np.setdiff1d(every, test, assume_unique=True), test) for test in tests)


def group_split(
    y: Tensor | ArrayLike, groups: Tensor | ArrayLike, sizes: Sequence[float], seed: int = 0
) -> tuple[NDArray[np.int64], ...]:
    """As :func:`stratified_split` with fractions, but rows of a group stay together; sizes are approximate.

    Groups are dealt out from the largest down (equal ones in an order drawn by the seed), each to the part whose counts
    of the classes are then nearest to its share: least Σ (count − share)² / share over parts and classes.

    >>> group_split([0, 0, 1, 1, 0, 1], [7, 7, 7, 7, 8, 8], (0.6, 0.4))
    (array([0, 1, 2, 3]), array([4, 5]))
    """
    labels, members = _labels(y), np.unique(np.asarray(groups), return_inverse=True)[1]
    if members.shape != labels.shape:
        raise UsageError(f"{len(labels)} labels need a group each, not groups of shape {members.shape}")
    if not abs(sum(sizes) - 1) <= 1e-9 or min(sizes) <= 0:
        raise UsageError(f"the fractions {list(sizes)} must be above 0 and sum to 1")
    total = int(members.max()) + 1
    if total < len(sizes):
        raise UsageError(f"{total} group(s) cannot be split into {len(sizes)} parts, each of whole groups")
    classes = np.unique(labels, return_inverse=True)[1]
    counts = np.zeros((total, int(classes.max()) + 1))
    np.add.at(counts, (members, classes), 1)
    drawn = stream(seed, "data", "groups").permutation(total)
    order = drawn[np.argsort(-counts.sum(axis=1)[drawn], kind="stable")]
    shares = np.outer(sizes, counts.sum(axis=0))
    filled, part = np.zeros_like(shares), np.empty(total, np.int64)
    for place, group in enumerate(order):
        empty = np.flatnonzero(filled.sum(axis=1) == 0)
        open_to = empty if len(empty) >= total - place else np.arange(len(sizes))  # no part stays empty
        before = ((filled - shares) ** 2 / shares).sum(axis=1)
        after = ((filled + counts[group] - shares) ** 2 / shares).sum(axis=1)
        part[group] = open_to[np.argmin(np.round((after - before)[open_to], 9))]  # the same ties on every processor
        filled[part[group]] += counts[group]
    return tuple(np.flatnonzero(part[members] == number) for number in range(len(sizes)))


def group_folds(y: Tensor | ArrayLike, groups: Tensor | ArrayLike, k: int, seed: int = 0) -> tuple[Fold, ...]:
    """``k`` folds for cross-validation of whole groups: no group has both training and test rows."""
    if k < 2:
        raise UsageError(f"cross-validation needs at least 2 folds, not {k}")
    tests = group_split(y, groups, [1 / k] * k, seed)
    every = np.arange(len(_labels(y)))
    return tuple(Fold(np.setdiff1d(every, test, assume_unique=True), test) for test in tests)


def _labels(y: Any) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise UsageError(f"labels must be a row of at least one value, not of shape {labels.shape}")
    return labels


def _line(labels: NDArray[Any], seed: int, purpose: str) -> NDArray[np.int64]:
    """Rows ordered by class, shuffled within each class."""
    shuffled = stream(seed, "data", purpose).permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _counts(sizes: Sequence[float], rows: int) -> list[int]:
    """Whole counts that sum to ``rows``, each at least one."""
    if all(isinstance(size, int | np.integer) for size in sizes):
        counts = [int(size) for size in sizes]
        if sum(counts) != rows:
            raise UsageError(f"the sizes {list(sizes)} sum to {sum(counts)}, but there are {rows} rows")
    else:
        if not abs(sum(sizes) - 1) <= 1e-9:
            raise UsageError(f"the fractions {list(sizes)} sum to {sum(sizes):g}, not to 1")
        bounds = np.rint(np.cumsum([0.0, *sizes]) * rows).astype(int)
        counts = np.diff(bounds).tolist()
    if not counts or min(counts) < 1:
        raise UsageError(f"{rows} rows cannot be split by {list(sizes)}: a part would be empty")
    return counts
