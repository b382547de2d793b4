"""Bootstrap intervals by scipy, seeded by a named stream, within bounded memory, and never NaN."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.core.seeds import stream

__all__ = ["Resampling", "check_confidence", "pair", "sample"]


_BATCH = 4_000_000  # numbers drawn at once; scipy's default draws all resamples at once


@dataclass(frozen=True)
class Resampling:
    """The settings of a bootstrap, checked."""

    seed: int
    confidence: float
    resamples: int
    method: str

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.method not in ("percentile", "bca"):
            raise UnknownName("bootstrap method", self.method, ["bca", "percentile"])
        if self.resamples < 2:
            raise OptionError(f"resamples must be ≥ 2, not {self.resamples}")

    def interval(self, values: NDArray[np.float64], statistic: Callable[..., Any]) -> tuple[float, float, float]:
        """Value, low and high of ``statistic`` of the values."""
        try:
            vectorised = "axis" in inspect.signature(statistic).parameters
        except ValueError:  # some built-in functions do not show their parameters
            vectorised = False
        value = float(statistic(values, axis=-1) if vectorised else statistic(values))
        if not math.isfinite(value):
            raise UsageError(f"the statistic of the values is {value}: there is no interval around it")
        if np.ptp(values) == 0:
            return value, value, value
        from scipy import stats

        found = stats.bootstrap(
            (values,),
            statistic,
            n_resamples=self.resamples,
            confidence_level=self.confidence,
            method="BCa" if self.method == "bca" else "percentile",
            vectorized=vectorised,
            batch=max(1, _BATCH // values.size),
            random_state=stream(self.seed, "bootstrap"),
        ).confidence_interval
        low, high = float(found.low), float(found.high)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise UsageError(
                f"the {self.method} interval is undefined for these {values.size} values; try 'percentile'"
            )
        return value, low, high


# Checks of samples: one-dimensional, finite, long enough.


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
