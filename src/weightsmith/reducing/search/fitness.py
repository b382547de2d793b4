"""The fitness of a mask: training accuracy minus a penalty for size (equations 5 and 6), or any function.

    fitness = accuracy % − λ · Nf / Ni      (5)   ``per="share"``
    fitness = accuracy % − λ · Nf           (6)   ``per="units"``

Nf are the units a mask keeps and Ni all units, so that equation 6 with λ is equation 5 with λ·Ni. A price, such as
synaptic operations, can replace the number of units in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import UsageError

__all__ = ["Fitness", "Memory", "Price", "Score", "guarded", "penalised", "priced", "units", "viable"]


Masks = NDArray[np.bool_]
Fitness = Callable[[NDArray[np.float64], Masks], NDArray[np.float64]]
Price = Callable[[Masks], NDArray[np.float64]]


def units(masks: Masks) -> NDArray[np.float64]:
    """The number of units each mask keeps: Nf, the default price."""
    counts: NDArray[np.float64] = np.count_nonzero(masks, axis=1).astype(np.float64)
    return counts


def penalised(penalty: float, per: Literal["share", "units"], bits: int, price: Price | None = None) -> Fitness:
    """Equation 5 (``per="share"``) or 6 (``per="units"``) for chromosomes of ``bits`` units, with λ = ``penalty``.

    >>> accuracy, masks = np.array([80.0, 70.0]), np.array([[True, True, True, True], [True, False, False, False]])
    >>> penalised(50, "share", 4)(accuracy, masks).tolist(), penalised(5, "units", 4)(accuracy, masks).tolist()
    ([30.0, 57.5], [60.0, 65.0])
    """
    cost = units if price is None else price
    full = float(priced(cost, np.ones((1, bits), np.bool_))[0])
    if per == "share" and full <= 0:
        raise UsageError(f"the price of the whole network is {full:g}: a share of it means nothing; it must be > 0")
    factor = penalty / full if per == "share" else penalty

    def fitness(accuracy: NDArray[np.float64], masks: Masks) -> NDArray[np.float64]:
        return accuracy - factor * priced(cost, masks)

    return fitness


def priced(price: Price, masks: Masks) -> NDArray[np.float64]:
    """The price of each mask, checked to be finite and not negative."""
    prices = np.asarray(price(masks), np.float64)
    if prices.shape != (len(masks),):
        raise UsageError(f"the price of {len(masks)} masks must be {len(masks)} numbers, not of shape {prices.shape}")
    if not np.isfinite(prices).all() or (prices < 0).any():
        raise UsageError("the price of a mask is negative, NaN or infinite: it must be a finite number ≥ 0")
    return prices


def viable(masks: Masks, sites: Sequence[slice]) -> NDArray[np.bool_]:
    """Which masks keep a unit in each of ``sites``."""
    left: Masks = np.logical_and.reduce([masks[:, site].any(axis=1) for site in sites])
    return left


def guarded(evaluate: Score, fitness: Fitness, sites: Sequence[slice]) -> Score:
    """The fitness of masks by the accuracies of ``evaluate``; −∞, unevaluated, for a mask that empties a site."""

    def score(masks: Masks) -> NDArray[np.float64]:
        able = viable(masks, sites)
        scores = np.full(len(masks), -np.inf)
        if able.any():
            left = masks[able]
            accuracy = np.asarray(evaluate(left), np.float64)
            values = np.asarray(fitness(accuracy, left), np.float64)
            if values.shape != (len(left),):
                raise UsageError(
                    f"the fitness of {len(left)} masks must be {len(left)} numbers, not of shape {values.shape}"
                )
            scores[able] = values
        return scores

    return score


# A cache of scores, so that only new and distinct masks of a generation are evaluated.
#
# About half of the masks of a genetic search are repeats (measured: 54 % in the paper's run).


Score = Callable[[NDArray[np.bool_]], NDArray[np.float64]]


class Memory:
    """A score function with a cache; ``known`` maps packed masks to their scores, in order of evaluation."""

    def __init__(self, score: Score, known: dict[bytes, float] | None = None) -> None:
        self._score, self.known = score, {} if known is None else known

    def __call__(self, masks: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """The scores of all rows, and the indices of the newly evaluated ones."""
        packed = np.packbits(masks, axis=1)
        keys: list[bytes] = packed.view(f"V{packed.shape[1]}").ravel().tolist()
        known = self.known
        fresh = {key: row for row, key in enumerate(keys) if key not in known}
        rows = np.fromiter(fresh.values(), np.intp, len(fresh))
        if fresh:
            known.update(zip(fresh, _checked(self._score(masks[rows]), len(rows)).tolist(), strict=True))
        return np.fromiter(map(known.__getitem__, keys), np.float64, len(keys)), rows


def _checked(scores: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Check the output of a score function: a number for each mask; −∞ is allowed."""
    values = np.asarray(scores, np.float64)
    if values.shape != (count,):
        raise UsageError(f"the fitness of {count} masks must be {count} numbers, not an array of shape {values.shape}")
    if np.isnan(values).any() or np.isposinf(values).any():
        raise UsageError("the fitness of a mask is NaN or infinite: it must be a finite number, or −∞ to exclude it")
    return values
