"""Compiled simulation of leaky neurons driven by single spikes in continuous time."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["count"]


@njit(cache=True, nogil=True)
def count(
    decays: NDArray[np.float64],
    lifts: NDArray[np.float64],
    ends: NDArray[np.int64],
    thresholds: NDArray[np.float64],
    hard: bool,
) -> NDArray[np.int64]:
    """Spikes of each unit in each part of the input.

    Before input spike k, V decays by ``decays[k]``; the spike raises V of unit u by ``lifts[u, k]``. ``ends`` are the
    spikes before which the parts end. Between two spikes V only decays, so a threshold is passed only at a spike.
    """
    spikes = np.zeros((lifts.shape[0], ends.size), np.int64)
    for unit in range(lifts.shape[0]):
        threshold = thresholds[unit]
        potential = 0.0
        event = 0
        for part in range(ends.size):
            while event < ends[part]:
                potential = potential * decays[event] + lifts[unit, event]
                if potential > threshold:
                    spikes[unit, part] += 1
                    potential = 0.0 if hard else potential - threshold
                event += 1
    return spikes
