"""The state of a monitored metric: its best value, and the epochs without improvement.

The state is a record that is passed in and out, so that a resumed run continues where it stopped, and both users of it
(:class:`~weightsmith.training.schedules.Plateau`, :class:`~weightsmith.training.stopping.EarlyStopping`) stay frozen:

>>> watch = Watch()
>>> for epoch, loss in enumerate([0.9, 0.7, float("nan"), 0.8], start=1):
...     watch = after_epoch(watch, epoch, loss, better=improves(loss, watch.best, "validation_loss"))
>>> watch
Watch(best=0.7, best_epoch=2, waited=2, fired=0)
>>> after_firing(watch)
Watch(best=0.7, best_epoch=2, waited=0, fired=1)
"""

from __future__ import annotations

import dataclasses
import math

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record

__all__ = ["FRESH", "Monitor", "Watch", "after_epoch", "after_firing", "higher_is_better", "improves"]

Monitor = str
"""A column of the history: validation_loss, train_accuracy, validation_r2, validation_ and the name of a metric …"""

_RISE = ("accuracy", "r2", "f1", "score", "auc", "precision", "recall")
_FALL = ("loss", "error", "mae", "mse", "rmse")


@dataclasses.dataclass(frozen=True, eq=False)
class Watch(Record):
    """The best value so far and its epoch (from 1), the epochs waited since, and how often the rule has fired."""

    best: float | None = None
    best_epoch: int | None = None
    waited: int = 0
    fired: int = 0


FRESH = Watch()


def higher_is_better(monitor: Monitor) -> bool:
    """Whether a column should rise, by the last word of its name: an accuracy or score should, a loss or error not.

    >>> higher_is_better("validation_f1"), higher_is_better("validation_rmse")
    (True, False)
    """
    last = monitor.lower().replace("-", "_").rpartition("_")[2]
    if not last.endswith((*_RISE, *_FALL)):
        raise UsageError(
            f"{monitor} is monitored, but its name does not say whether it should rise ({', '.join(_RISE)}) or fall "
            f"({', '.join(_FALL)}); end it with one of these words"
        )
    return last.endswith(_RISE)


def improves(
    value: float, best: float | None, monitor: Monitor, threshold: float = 0.0, *, relative: bool = False
) -> bool:
    """Whether ``value`` beats ``best`` by more than the threshold, strictly.

    A loss must lie below best − threshold, or below best·(1 − threshold) if the threshold is ``relative``; an
    accuracy above best + threshold, or best·(1 + threshold). The first finite value always improves; NaN and infinity
    never do.

    >>> improves(0.95, 1.0, "train_loss", 0.1), improves(0.95, 0.8, "train_accuracy", 0.1)
    (False, True)
    """
    if not math.isfinite(value):
        return False
    if best is None:
        return True
    if higher_is_better(monitor):
        return value > (best * (1 + threshold) if relative else best + threshold)
    return value < (best * (1 - threshold) if relative else best - threshold)


def after_epoch(watch: Watch, epoch: int, value: float, *, better: bool) -> Watch:
    """The watch after an epoch that was ``better`` or was not: a new best, or one more epoch of waiting."""
    if better:
        return dataclasses.replace(watch, best=value, best_epoch=epoch, waited=0)
    return dataclasses.replace(watch, waited=watch.waited + 1)


def after_firing(watch: Watch) -> Watch:
    """The watch after its rule has fired: the waiting restarts, the best stays."""
    return dataclasses.replace(watch, waited=0, fired=watch.fired + 1)
