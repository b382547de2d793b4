"""The interface of observers: each receives the spikes of every population, part by part."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counting", "Observer"]


class Observer(Protocol):
    """Watches a run. ``membranes`` says whether it needs membranes too, which costs time.

    With ``inputs`` it also receives the input spikes (int8: −1, 0, +1), under the name of the input.
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

        ``images`` are the rows of the input in this part. Positions run through an image row by row; features have one
        position. Spikes of signed neurons are −1, 0 and +1 (int8), those of graded ones whole numbers of the smallest
        size. ``membranes`` has the same shape: each membrane just before it is compared with the threshold. Arrays are
        valid only during the call.
        """
        ...


@runtime_checkable
class Counting(Observer, Protocol):
    """An observer whose counts of several parts of a run add up, so that workers can share the images."""

    def fresh(self) -> Counting:
        """A new observer of this kind that has seen nothing."""
        ...

    def counted(self) -> Any:
        """All counts so far."""
        ...

    def add(self, counted: Any) -> None:
        """Add the counts of another observer."""
        ...
