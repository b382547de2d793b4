"""The Tracy–Widom quantile against the determinant it was fitted to, which against its published value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import airy

from weightsmith.core.errors import OptionError
from weightsmith.grading.tracy_widom import tracy_widom_quantile

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)


def tail_by_determinant(s: float) -> float:
    """1 − det(1 − V) with V(x, y) = ½·Ai((x + y)/2) on (s, ∞), at the nodes of a Gauss–Legendre rule."""
    half = (max(s, 0.0) + 24 - s) / 2
    points, roots = s + half * (NODES + 1), np.sqrt(half * WEIGHTS)
    kernel = airy((points[:, None] + points) / 2)[0] / 2 * np.outer(roots, roots)
    return -math.expm1(np.log1p(-np.linalg.eigvalsh(kernel)).sum())


def test_the_determinant_is_that_of_the_literature():
    # Bornemann, Markov Processes Relat. Fields 16 (2010) 803: F₁(0).
    assert 1 - tail_by_determinant(0.0) == pytest.approx(0.83190806620295, abs=1e-13)


@pytest.mark.parametrize("tail", [0.5, 0.3, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15])
def test_the_quantile_inverts_the_determinant(tail):
    s = tracy_widom_quantile(tail)
    assert tail_by_determinant(s + 2e-5) < tail < tail_by_determinant(s - 2e-5)


@pytest.mark.parametrize("tail", [0.0, 0.51, 1e-16, -1.0, math.nan])
def test_outside_its_range_it_refuses(tail):
    with pytest.raises(OptionError, match="tail probability"):
        tracy_widom_quantile(tail)
