"""The interface of observers: each is shown the spikes of every population, part by part."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counting", "Observer"]


class Observer(Protocol):
    """Watches a run. ``membranes`` says whether it wants to see membranes too, which costs time.

    With ``inputs`` it is also shown the spikes that are fed in (int8: −1, 0, +1), under the name of the input.
    """

    membranes: bool
    inputs: bool

    def see(
        self,
        population: str,
        images: NDArray[np.int64],
        step: int,
        spikes: NDArray[np.integer],
        membranes: NDArray[np.floating] | None,
    ) -> None:
        """Spikes (images, steps, positions, channels) of ``population`` from step number ``step`` (from 0) on.

        ``images`` are the rows of the input that are shown. Positions count an image row by row; features have one
        position. Spikes of signed neurons are −1, 0 and +1 (int8), those of graded ones whole numbers of the smallest
        size. ``membranes`` has the same shape: each membrane just before it is compared with the threshold. Arrays are
        valid during the call only.
        """
        ...


@runtime_checkable
class Counting(Observer, Protocol):
    """An observer whose counts of several parts of a run add up, so that workers may share the images."""

    def fresh(self) -> Counting:
        """One like this that has seen nothing."""
        ...

    def counted(self) -> Any:
        """All counts so far."""
        ...

    def add(self, counted: Any) -> None:
        """Add the counts of another."""
        ...
