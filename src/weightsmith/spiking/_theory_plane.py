"""Directions in the plane of two inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["directions"]


def directions(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors (…, 2) of length 1 at angles from 0 to 90°; what rounding makes negative is 0."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=-1).clip(0.0)
