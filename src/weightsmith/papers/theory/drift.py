"""Figure 4 of the L4-norm paper: squaring a vector entry by entry turns it towards the nearer axis.

The variance of a potential goes with the cosine between the input λ and w∘w, the mean with that between λ and w. The
two vectors point the same way along the axes and along ⟨1, 1⟩ only; in between, w∘w lies closer to the axis by

    δ(θ) = arctan(tan² θ) − θ,      θ the angle of w
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.options import check_int
from weightsmith.core.records import Record
from weightsmith.spiking.theory._checks import numbers

__all__ = ["HadamardDrift", "angle_drift", "directions", "hadamard_drift"]


@dataclass(frozen=True, eq=False)
class HadamardDrift(Record):
    """The data of Figure 4: vectors (n, 2), their squares entry by entry, by how many degrees these are turned.

    ``angles`` and ``drift_of_angle`` are the same as a curve from axis to axis, in degrees.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    drift: NDArray[np.float64]
    angles: NDArray[np.float64]
    drift_of_angle: NDArray[np.float64]


def angle_drift(weights: ArrayLike) -> NDArray[np.float64]:
    """By how many degrees w∘w is turned against w, for each vector (…, 2) with entries ≥ 0; positive is away from x.

    >>> angle_drift([[1.0, 0.0], [1.0, 1.0]]).tolist(), round(float(angle_drift([2.0, 1.0])), 2)
    ([0.0, 0.0], -12.53)
    """
    w = numbers(weights, "weights")
    if w.ndim == 0 or w.shape[-1] != 2:
        raise DataMismatch(f"vectors in the plane have two entries along their last axis, not shape {w.shape}")
    if (w < 0).any() or not w.any(-1).all():
        raise OptionError(
            "vectors must have entries ≥ 0 of which one is > 0: others change their quadrant, or have none"
        )
    x, y = w[..., 0], w[..., 1]
    drift: NDArray[np.float64] = np.degrees(np.arctan2(y * y, x * x) - np.arctan2(y, x))
    return drift


def hadamard_drift(*, points: int = 9, largest: float = 1.2) -> HadamardDrift:
    """Figure 4: a grid of ``points`` × ``points`` vectors in the positive quadrant up to ``largest``, origin left out.

    The paper does not give its grid. Vectors inside the unit square get shorter, beyond it longer.
    """
    if not 0 < largest < np.inf:
        raise OptionError(f"largest must be > 0 and finite, not {largest!r}")
    if check_int("points", points) < 2:
        raise OptionError("points must be ≥ 2: a grid has two sides")
    side = np.linspace(0.0, largest, points)
    start = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)[1:]
    angles = np.linspace(0.0, 90.0, 181)
    return HadamardDrift(start, start**2, angle_drift(start), angles, angle_drift(directions(angles)))


# Directions in the plane of two inputs.


def directions(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors (…, 2) of length 1 at angles from 0 to 90°; what rounding makes negative is 0."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=-1).clip(0.0)
