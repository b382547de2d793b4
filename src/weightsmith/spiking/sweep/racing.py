"""Racing: settings that are clearly worse than the leader are dropped before they have seen all images.

All settings see the same images with the same spikes, so they are compared image by image. After each block of images
the setting with most right answers leads its race, and another one is dropped if it is significantly worse on the
images that only one of the two has right, by the exact one-sided McNemar test, p < level. (Maron and Moore, "The racing
algorithm: model selection for lazy learners", 1997, with a paired test in place of their bounds.)

The level is that of one test. A setting is tested again after every block, and the leader is the best of many, so
settings as good as the leader are dropped more often than that: of 20 equal ones about a fifth in 20 blocks
(simulated). This affects only the choice among equals.

>>> leader = np.ones(40, bool)
>>> other = np.arange(40) % 3 > 0
>>> dropped(np.array([leader, other]), Racing(0.01, least=20))
array([False,  True])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.options import Option, param

__all__ = ["Race", "Racing", "dropped"]


class Race(Option, family="race"):
    """The family of rules for dropping settings early: ``racing``."""


class Racing(Race, name="racing"):
    """Drop settings that are worse than the leader by a paired test."""

    level: float = param(default=0.01, gt=0, lt=0.5, doc="p of the paired test below which a setting is dropped")
    least: int = param(default=48, ge=1, doc="images that every setting sees")


def dropped(right: NDArray[np.bool_], racing: Racing) -> NDArray[np.bool_]:
    """Which settings of a race are dropped: ``right`` is (settings, images), whether each answer is right.

    The leader (the first of several with most right answers) is never dropped.
    """
    from scipy.stats import binom

    settings, images = right.shape
    if images < racing.least or settings < 2:
        return np.zeros(settings, bool)
    leader = right[int(right.sum(axis=1).argmax())]
    only_leader = (leader & ~right).sum(axis=1)
    only_other = (right & ~leader).sum(axis=1)
    # P(X ≤ k) for X ~ Binomial(n, ½): the chance that the other one wins so few of the n images on which they differ.
    p = binom.cdf(only_other, only_leader + only_other, 0.5)
    return np.asarray((p < racing.level) & (only_leader > only_other))
