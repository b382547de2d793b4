"""Inputs of the reference vectors, made from whole numbers so that they are the same bits everywhere.

Entry n (row by row) of the array with a salt is

    c(n) = mix(salt·2³² + n) mod (2·span + 1) − span,    mix(x) = what SplitMix64 gives in state x,

a whole number from −span to span. Networks take c/64 as weights: exact in every float type, without any random
generator or trigonometric function, whose last bits differ between libraries and processors.
"""

from __future__ import annotations

import base64
from typing import Any, TypeAlias

import numpy as np

__all__ = ["SCALE", "Codes", "codes", "packed", "weights"]

SCALE = 1 / 64
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]


def codes(*shape: int, salt: int, span: int = 127) -> Codes:
    """The whole numbers c(n) in ``shape``.

    >>> codes(4, salt=1).tolist()
    [69, 120, 47, -124]
    """
    n = np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(salt << 32)
    z = n + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    whole = (z % np.uint64(2 * span + 1)).astype(np.int64) - span
    return whole.astype(np.int8).reshape(shape)


def weights(*shape: int, salt: int, span: int = 127) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The codes divided by 64."""
    return codes(*shape, salt=salt, span=span).astype(np.float64) * SCALE


def packed(array: Codes) -> dict[str, Any]:
    """Codes as they stand in a vector file: base64 of int8, row by row, and what to multiply them by."""
    data = base64.b64encode(array.tobytes()).decode()
    return {"base64": data, "dtype": array.dtype.str, "scale": SCALE, "shape": list(array.shape)}
