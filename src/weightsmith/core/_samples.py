"""Samples of numbers as the statistics take them: one row, finite, long enough; otherwise refused by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError, UsageError

__all__ = ["check_confidence", "pair", "sample"]

_LARGEST = 1e150  # beyond it squares overflow


def sample(values: ArrayLike, name: str, least: int) -> NDArray[np.float64]:
    """``values`` as one row of at least ``least`` finite numbers; errors call it ``name``."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{name} must be numbers, not {array.dtype.name}")
    if array.ndim != 1:
        raise UsageError(f"{name} must be one row of numbers, not an array of shape {array.shape}")
    if array.size < least:
        raise UsageError(f"{name} has {array.size} value(s): at least {least} are needed")
    numbers = array.astype(np.float64)
    bad = np.flatnonzero(~(np.abs(numbers) < _LARGEST))
    if bad.size:
        raise UsageError(f"{name}[{bad[0]}] is {numbers[bad[0]]}: all values must be finite, below {_LARGEST:g}")
    return numbers


def pair(
    a: ArrayLike, b: ArrayLike, names: tuple[str, str], least: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two samples of the same cases, so of the same length."""
    first, second = sample(a, names[0], least), sample(b, names[1], least)
    if first.size != second.size:
        raise DataMismatch(
            f"{names[0]} has {first.size} values and {names[1]} has {second.size}: they must be of the same cases"
        )
    return first, second


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is not strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise OptionError(f"confidence must be between 0 and 1, not {confidence!r}")
