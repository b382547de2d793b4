"""Genetic operators on whole populations: masks are boolean rows, one bit per unit.

They are those of the paper (section 2.5), vectorised. Each draws from the given generator and does not modify its
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import OptionError

__all__ = ["Repair", "crossed", "hold", "initial", "mutated", "tournament"]

Masks = NDArray[np.bool_]
Repair = Callable[[Masks, np.random.Generator], Masks]


def initial(count: int, bits: int, random: np.random.Generator) -> Masks:
    """Masks whose bits are on with probability one half."""
    return random.integers(0, 2, size=(count, bits), dtype=np.bool_)


def tournament(order: NDArray[np.float64], count: int, size: int, random: np.random.Generator) -> NDArray[np.intp]:
    """``count`` winners: each time the highest of ``size`` individuals, which are drawn with replacement.

    With n individuals the one of rank r (0: worst) wins with probability ((r+1)ˢ − rˢ)/nˢ.
    """
    drawn = random.integers(0, len(order), size=(count, size))
    winners: NDArray[np.intp] = drawn[np.arange(count), order[drawn].argmax(axis=1)]
    return winners


def crossed(masks: Masks, probability: float, random: np.random.Generator) -> Masks:
    """Cross neighbours (0 and 1, 2 and 3, …) at a random bit, each pair with ``probability``.

    All cut points are equally likely; an individual without a neighbour is unchanged.
    """
    pairs, bits = len(masks) // 2, masks.shape[1]
    children = masks.copy()
    if bits < 2:
        return children
    cuts = random.integers(1, bits, size=pairs)
    cuts[random.random(pairs) >= probability] = bits
    first, second = children[0 : 2 * pairs : 2], children[1 : 2 * pairs : 2]
    changes = (first ^ second) & (np.arange(bits) >= cuts[:, None])
    first ^= changes
    second ^= changes
    return children


def mutated(masks: Masks, probability: float, flip: float, random: np.random.Generator) -> Masks:
    """Each individual mutates with ``probability``; of one that does, each bit flips with probability ``flip``."""
    children = masks.copy()
    chosen = np.flatnonzero(random.random(len(masks)) < probability)
    children[chosen] ^= random.random((len(chosen), masks.shape[1])) < flip
    return children


def hold(sites: Sequence[slice], counts: Sequence[int]) -> Repair:
    """A repair that leaves exactly ``counts[k]`` bits on in ``sites[k]``, flipping as few random bits as needed."""
    for site, count in zip(sites, counts, strict=True):
        if not 1 <= count <= site.stop - site.start:
            raise OptionError(f"{count} of {site.stop - site.start} units cannot be kept: 1 at least, all at most")

    def repair(masks: Masks, random: np.random.Generator) -> Masks:
        # Bits that are on come first, in random order; then those that are off, in random order.
        keys = random.random(masks.shape) + ~masks
        repaired = masks.copy()
        for site, count in zip(sites, counts, strict=True):
            best = np.argpartition(keys[:, site], count - 1, axis=1)[:, :count]
            repaired[:, site] = False
            np.put_along_axis(repaired[:, site], best, True, axis=1)
        return repaired

    return repair
