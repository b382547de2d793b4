"""Early stopping."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

from weightsmith.core.options import Option, param
from weightsmith.training.watching import Monitor, Watch, after_epoch, improves

__all__ = ["EarlyStopping", "KeepBest", "Stop"]


class Stop(Option):
    """The family of rules that end a run early."""

    @property
    @abstractmethod
    def monitor(self) -> Monitor:
        """The column of the history that is watched."""

    @property
    @abstractmethod
    def restore(self) -> bool:
        """Whether the weights of the best epoch are restored at the end of the run."""

    breaks_ties: ClassVar[bool] = False
    """Whether the smaller validation loss decides between two epochs with the same value."""

    @abstractmethod
    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:
        """The watch after an epoch (counted from 1) that ended with this ``value`` of the monitored column."""

    @abstractmethod
    def stops(self, watch: Watch) -> bool:
        """Whether the run ends now."""


class EarlyStopping(Stop, name="early"):
    """Early stopping: end the run after exactly p epochs in a row without improvement (seed 002; Keras' counting).

    p is ``patience`` (0 means 1, as in Keras). An epoch improves if it beats the best by more than ``min_delta``, an
    absolute difference; accuracies should rise, losses fall, and NaN is no improvement. With ``restore`` the network
    ends with the weights of the best epoch, also if the run reaches its last epoch.

    >>> stop, watch = EarlyStopping(patience=2), Watch()
    >>> for epoch, loss in enumerate([1.0, 0.8, 0.9, 0.7, 0.75, 0.74, 0.6], start=1):
    ...     watch = stop.observe(watch, epoch, loss)
    ...     if stop.stops(watch):
    ...         break
    >>> epoch, watch.best_epoch
    (6, 4)
    """

    patience: int = param(default=5, ge=0, doc="p, epochs in a row without improvement")
    monitor: Monitor = param(default="validation_loss", doc="the column of the history that is watched")
    min_delta: float = param(default=0.0, ge=0, lt=math.inf, doc="least improvement, absolute")
    restore: bool = param(default=True, doc="restore the best epoch's weights")

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:
        """The watch after one more epoch: a new best, or one more epoch of waiting."""
        better = improves(value, watch.best, self.monitor, self.min_delta)
        return after_epoch(watch, epoch, value, better=better)

    def stops(self, watch: Watch) -> bool:
        """Whether the patience is used up."""
        return watch.waited >= max(self.patience, 1)


class KeepBest(Stop, name="best"):
    """Run all epochs, and end with the weights of the best: best monitored value, then smallest validation loss."""

    monitor: Monitor = param(default="validation_accuracy", doc="the column of the history that is watched")

    restore = True
    breaks_ties = True

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:
        """The watch after one more epoch."""
        return after_epoch(watch, epoch, value, better=improves(value, watch.best, self.monitor))

    def stops(self, watch: Watch) -> bool:
        """Never."""
        del watch
        return False
