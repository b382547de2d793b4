"""The genetic operators on whole populations: masks are rows of truth values, a bit per unit.

They are those of the paper (section 2.5), drawn for all individuals at once. Each takes its random numbers from the
generator it is given and changes nothing it is handed.
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
    """Neighbours (0 and 1, 2 and 3, …) change their ends from a random bit on, each pair with ``probability``.

    The cut lies between any two bits with equal chance; an individual without a neighbour stays as it is.
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


def hold(places: Sequence[slice], counts: Sequence[int]) -> Repair:
    """A repair that leaves exactly ``counts[k]`` bits on in ``places[k]``, switching as few random bits as needed."""
    for place, count in zip(places, counts, strict=True):
        if not 1 <= count <= place.stop - place.start:
            raise OptionError(f"{count} of {place.stop - place.start} units cannot be kept: 1 at least, all at most")

    def repair(masks: Masks, random: np.random.Generator) -> Masks:
        # Bits that are on come first, in random order; then those that are off, in random order.
        keys = random.random(masks.shape) + ~masks
        repaired = masks.copy()
        for place, count in zip(places, counts, strict=True):
            best = np.argpartition(keys[:, place], count - 1, axis=1)[:, :count]
            repaired[:, place] = False
            np.put_along_axis(repaired[:, place], best, True, axis=1)
        return repaired

    return repair
