"""The Tracy–Widom law of real matrices: how far the largest eigenvalue of pure noise strays beyond the bulk's edge.

Its distribution function F₁ is a determinant (Ferrari & Spohn, J. Phys. A 38 (2005) L557), exact but slow to invert.
The quantile here is a polynomial in u = (−ln p)^⅓, p being the probability of going beyond: the tail falls as
exp(−⅔·s^1.5), so s is nearly of degree two in u. It was fitted to the determinant; the test computes that one anew.
"""

from __future__ import annotations

import math

from weightsmith.core.errors import OptionError

__all__ = ["tracy_widom_quantile"]

_COEFFICIENTS = (-4.7098109, 4.7847047, -2.0360663, 1.4493517, -0.37618204, 0.053774934, -0.0032602598)
_SMALLEST, _LARGEST = 1e-15, 0.5  # the range of the fit


def tracy_widom_quantile(tail: float) -> float:
    """The s with 1 − F₁(s) = ``tail``, to within 2e-5.

    >>> [round(tracy_widom_quantile(tail), 3) for tail in (0.05, 0.01)]  # the 95 and 99 % points of the usual tables
    [0.979, 2.023]
    """
    if not _SMALLEST <= tail <= _LARGEST:
        raise OptionError(f"the tail probability of a quantile must be ≥ {_SMALLEST:g} and ≤ {_LARGEST}, not {tail!r}")
    u = math.cbrt(-math.log(tail))
    return math.fsum(coefficient * u**power for power, coefficient in enumerate(_COEFFICIENTS))
