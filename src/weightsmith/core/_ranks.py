"""Rank correlation with an exact two-sided p-value for small samples, ties included.

Rankings of a handful of networks are the rule in this field (n = 4 … 8), where every approximation is inaccurate. Up
to nine values all n! orders are counted, on whole numbers only, so that no order is lost to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weightsmith.core._bootstrap import pair
from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.records import Record

__all__ = ["Correlation", "rank_correlation"]

_ENUMERATED = 9  # 9! = 362,880 orders: a few tenths of a second
_KENDALL_EXACT = 170  # without ties; beyond it n! leaves the range of a float

_Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Correlation(Record):
    """A rank correlation, its two-sided p-value, how that was computed, and from how many pairs."""

    value: float
    p: float
    method: str
    n: int


def rank_correlation(x: ArrayLike, y: ArrayLike, kind: Literal["kendall", "spearman"] = "kendall") -> Correlation:
    """Kendall's τ-b or Spearman's ρ of ``x`` and ``y``, with a two-sided p-value.

        τ_b = S / √((P − T_x)(P − T_y)),   S = Σ_{i<j} sign(x_i − x_j) sign(y_i − y_j)

    with P = n(n − 1)/2 pairs, T_x and T_y of them tied in x and in y (Kendall, Biometrika 33 (1945) 239). ρ is
    Pearson's correlation of the mid-ranks (Spearman, Am. J. Psychol. 15 (1904) 72).

    The p-value is the share of orders of ``y`` whose correlation is at least as far from 0, counted

    * over all n! orders for n ≤ 9, with or without ties ("exact, all n! orders");
    * from the known distribution of S for Kendall without ties up to n = 170 ("exact, no ties");

    and beyond that approximated: Kendall by the normal law with the variance corrected for ties, Spearman by Student's
    t with n − 2 degrees of freedom. An approximate p-value is never below 2/n!, the smallest possible one.

    >>> rank_correlation([8.27, 7.37, 6.90, 6.61], [128.9, 72.8, -45.2, -158.2])
    Correlation(value=1.0, p=0.08333333333333333, method='Kendall tau-b, exact, all 24 orders', n=4)
    """
    if kind not in ("kendall", "spearman"):
        raise UnknownName("rank correlation", kind, ["kendall", "spearman"])
    first, second = pair(x, y, ("x", "y"), least=2)
    for name, values in (("x", first), ("y", second)):
        if np.ptp(values) == 0:
            raise UsageError(f"{name} is constant ({values[0]:g}): it has no order to correlate")
    measure = _exact if first.size <= _ENUMERATED else _by_scipy
    value, p, how = measure(_dense_ranks(first), _dense_ranks(second), kind)
    title = "Kendall tau-b" if kind == "kendall" else "Spearman rho"
    return Correlation(value, p, f"{title}, {how}", first.size)


def _exact(x: _Integers, y: _Integers, kind: str) -> tuple[float, float, str]:
    """Correlation, p-value and method from all orders of y: only the numerator, a whole number, depends on them."""
    a, b = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    if kind == "spearman":
        a, b = a.sum(axis=1), b.sum(axis=1)  # number of lower minus number of higher values: twice the centred mid-rank
    orders = _orders(x.size)
    sums = np.zeros(orders.shape[1], np.int64)
    for entry in zip(*np.nonzero(a), strict=True):
        sums += a[entry] * b[tuple(orders[i] for i in entry)]
    squares = int(np.sum(a * a)), int(np.sum(b * b))
    # Avoid the root where possible, so that ±1 is exact.
    norm = squares[0] if squares[0] == squares[1] else math.sqrt(squares[0] * squares[1])
    p = float(np.mean(np.abs(sums) >= abs(sums[0])))
    return int(sums[0]) / norm, p, f"exact, all {sums.size} orders"


def _by_scipy(x: _Integers, y: _Integers, kind: str) -> tuple[float, float, str]:
    """Correlation, p-value and method if there are too many orders to count."""
    from scipy import stats

    if kind == "spearman":
        found, how = stats.spearmanr(x, y), "t approximation"
    elif x.size <= _KENDALL_EXACT and min(x.max(), y.max()) == x.size - 1:  # n distinct ranks: no ties
        found, how = stats.kendalltau(x, y, method="exact"), "exact, no ties"
    else:
        found, how = stats.kendalltau(x, y, method="asymptotic"), "normal approximation"
    least = math.exp(math.log(2) - math.lgamma(x.size + 1))
    return float(found.statistic), max(float(found.pvalue), least), how


def _orders(n: int) -> _Integers:
    """All n! orders of 0 … n−1, one per column; the first column is the identity."""
    orders = np.zeros((1, 1), np.int64)
    for last in range(1, n):
        orders = np.concatenate([np.insert(orders, position, last, axis=0) for position in range(last, -1, -1)], axis=1)
    return orders


def _dense_ranks(values: NDArray[np.float64]) -> _Integers:
    """The dense rank of each value: its index among the distinct values."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
