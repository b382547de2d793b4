"""Performance scheduling: the rate is cut when a metric has stopped improving (seed 002)."""

from __future__ import annotations

import math
from typing import Literal

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.training.schedules._base import Schedule, Span
from weightsmith.training.watching import FRESH, Monitor, Watch, after_epoch, after_firing, improves

__all__ = ["Plateau"]


class Plateau(Schedule, name="plateau"):
    """Performance scheduling: η = max(η0 · λ^k, η_min) after k cuts; cut when a metric has not improved for p epochs.

    η0 is ``rate``, λ ``factor``, η_min ``least``, p ``patience``. Libraries read the slides' sentence in two ways:

    - ``rule="keras"``: cut at the end of the p-th epoch in a row without improvement; an epoch improves if it beats the
      best by more than ``threshold``, absolutely (``ReduceLROnPlateau`` with ``min_delta``).
    - ``rule="torch"``: cut when there have been *more* than p such epochs; ``threshold`` is relative to the best
      (``ReduceLROnPlateau`` with ``threshold_mode="rel"``). Since it is a share of the best, it is meant for metrics
      that stay positive.

    After a cut the waiting restarts and the best stays. NaN counts as no improvement. p = 0 means 1 under Keras' rule,
    as in Keras. Every cut is made, however small (torch skips those of less than 1e-8).

    On a metric that never moves, with p = 2, the rate is cut after these epochs:

    >>> def cuts(rule):
    ...     schedule, watch, epochs = Plateau(0.1, patience=2, rule=rule), Watch(), []
    ...     for epoch in range(1, 9):
    ...         before, watch = watch, schedule.observe(watch, epoch, 1.0)
    ...         epochs += [epoch] * (watch.fired - before.fired)
    ...     return epochs
    >>> cuts("keras"), cuts("torch")
    ([3, 5, 7], [4, 7])
    >>> round(Plateau(0.1, factor=0.5).at(0, Span(steps=10, epochs=10), Watch(fired=2)), 4)
    0.025
    """

    rate: float = param(gt=0, lt=math.inf, doc="η0, the rate until the first cut")
    factor: float = param(default=0.1, gt=0, lt=1, doc="λ, the factor of a cut")
    patience: int = param(default=5, ge=0, doc="p, epochs without improvement")
    rule: Literal["keras", "torch"] = param(
        default="keras", doc="library whose rule for patience and threshold applies"
    )
    threshold: float = param(
        default=1e-4, ge=0, lt=math.inf, doc="least improvement: absolute (keras), relative (torch)"
    )
    monitor: Monitor = param(default="validation_loss", doc="the column of the history that is watched")
    least: float = param(default=0.0, ge=0, doc="η_min, the lowest rate")

    def check(self) -> None:
        """Check that the least rate lies below the first."""
        if self.least >= self.rate:
            raise OptionError(f"plateau: least must be < rate, but {self.least:g} is not below {self.rate:g}")

    @property
    def waits(self) -> int:
        """Epochs in a row without improvement after which the rate is cut."""
        return max(self.patience, 1) if self.rule == "keras" else self.patience + 1

    def at(self, step: int, span: Span, watch: Watch = FRESH) -> float:  # noqa: ARG002
        """The rate after the cuts so far."""
        return max(self.rate * self.factor**watch.fired, self.least)

    def observe(self, watch: Watch, epoch: int, value: float) -> Watch:
        """The watch after one more epoch: a new best, or one epoch closer to the next cut."""
        better = improves(value, watch.best, self.monitor, self.threshold, relative=self.rule == "torch")
        watch = after_epoch(watch, epoch, value, better=better)
        return after_firing(watch) if watch.waited >= self.waits else watch
