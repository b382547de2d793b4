"""Further measures of the validation rows after each epoch, which schedules and stopping rules may watch.

A metric is a function of all answers and all targets that gives a number; its column is ``validation_`` and its name.
Answers and targets of a regression are in the units of the data.

>>> Answers().measured((), NONE)
{}
>>> read_metrics("f1")[0].column
'validation_f1'
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.identity import identity_of
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.targets import Kind, Scoring, kind_of, scoring_of
from weightsmith.networks.models.factories import Factory, is_factory
from weightsmith.training.distributed import Team
from weightsmith.training.feeding import Feed
from weightsmith.training.losses import LossFunction
from weightsmith.training.stopping import KeepBest
from weightsmith.training.watching import higher_is_better

if TYPE_CHECKING:
    from weightsmith.training.settings import Settings

__all__ = ["NONE", "Answers", "Metric", "Metrics", "f1", "mae", "measure", "read_metrics", "rmse", "with_monitors"]

MetricFunction = Callable[[Tensor, Tensor], Tensor | float]
Metrics = Sequence[MetricFunction | str] | MetricFunction | str


def f1(answers: Tensor, targets: Tensor) -> float:
    """F1 = 2·tp / (2·tp + fp + fn) of each class or label, averaged over those that occur or are predicted."""
    if kind_of(targets) is Kind.VALUES:
        raise UsageError("f1 is for classes and labels, but these targets are values; use mae or rmse")
    on, called = targets, answers > 0
    if targets.ndim == 1:
        count = answers.shape[1]
        on, called = (torch.nn.functional.one_hot(each, count).bool() for each in (targets, answers.argmax(dim=1)))
    right, either = (on & called).sum(0).double(), (on.long() + called.long()).sum(0).double()
    return float((2 * right / either)[either > 0].mean())


def mae(answers: Tensor, targets: Tensor) -> float:
    """The mean absolute error, over rows and values."""
    return float((answers - _values(targets, "mae")).abs().mean())


def rmse(answers: Tensor, targets: Tensor) -> float:
    """The root of the mean squared error, over rows and values."""
    return math.sqrt(float((answers - _values(targets, "rmse")).square().mean()))


def _values(targets: Tensor, name: str) -> Tensor:
    if kind_of(targets) is not Kind.VALUES:
        raise UsageError(f"{name} is for values, but these targets are {kind_of(targets).value}; use f1")
    return targets


_NAMED: dict[str, MetricFunction] = {"f1": f1, "mae": mae, "rmse": rmse}


@dataclasses.dataclass(frozen=True)
class Metric:
    """A named measure."""

    name: str
    function: MetricFunction

    @property
    def column(self) -> str:
        """Its column of the history."""
        return f"validation_{self.name}"

    @property
    def written(self) -> str:
        """Its name, or the identity of a function of the user's own."""
        return self.name if self.name in _NAMED else identity_of(self.function)


def read_metrics(given: Metrics) -> tuple[Metric, ...]:
    """The metrics for names and functions."""
    several = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    found = []
    for each in several:
        if not callable(each) and not isinstance(each, str):
            raise UsageError(f"a metric is a function, or one of {', '.join(_NAMED)}, not {each!r}")
        if isinstance(each, str) and each not in _NAMED and not is_factory(each):
            raise UnknownName("metric", each, [*_NAMED, "FILE.py:FUNCTION"])
        function = each if callable(each) else _NAMED.get(each) or Factory.parse(each).function
        name = each if each in _NAMED else getattr(function, "__name__", type(function).__name__)
        found.append(Metric(str(name), function))
    names = [metric.name for metric in found]
    if len(set(names)) != len(names):
        raise UsageError(f"two metrics are called {next(name for name in names if names.count(name) > 1)}")
    return tuple(found)


class Answers:
    """The outputs of the network for the validation rows of an epoch, and the targets."""

    def __init__(self) -> None:
        self._answers: list[Tensor] = []
        self._targets: list[Tensor] = []

    def add(self, answers: Tensor, targets: Tensor) -> None:
        """Add a batch."""
        self._answers.append(answers.detach().cpu())
        self._targets.append(targets.cpu())

    def measured(self, metrics: Sequence[Metric], outputs: Normalisation) -> dict[str, float]:
        """Every metric by the name of its column; one that is not a finite number is refused by name."""
        found = {}
        for metric in metrics:
            answers, targets = torch.cat(self._answers), torch.cat(self._targets)
            if outputs.mean:
                answers, targets = outputs.undo(answers), outputs.undo(targets)
            value = _number(metric, metric.function(answers, targets))
            if not math.isfinite(value):
                raise UsageError(f"the metric {metric.name} gives {value}; it must be a finite number")
            found[metric.column] = value
        return found


def _number(metric: Metric, given: object) -> float:
    if isinstance(given, float | int) or (isinstance(given, Tensor) and given.numel() == 1):
        return float(given)
    shape = f" of shape {tuple(given.shape)}" if isinstance(given, Tensor) else ""
    raise UsageError(f"the metric {metric.name} gives a {type(given).__name__}{shape}, not one number")


@torch.no_grad()
def measure(
    network: nn.Module,
    feed: Feed | None,
    loss: LossFunction,
    members: Team,
    *,
    answers: Answers | None = None,
    scoring: Scoring | None = None,
) -> tuple[float, float]:
    """Mean loss and score over all rows of all processes, in evaluation mode; ``feed`` is this process's share.

    ``answers`` collects the outputs of the network, for metrics. Without ``scoring`` rows are right or wrong.
    """
    network.eval()
    total, correct, rows = 0.0, 0.0, 0.0
    for x, y in () if feed is None else feed.in_order(feed.comfortable):
        scores = network(x)
        total += float(loss(scores, y)) * len(y)
        correct += (scoring or scoring_of(y)).total(scores, y)
        rows += len(y)
        if answers is not None:
            answers.add(scores, y)
    total, correct, rows = members.sum(torch.tensor([total, correct, rows], dtype=torch.float64)).tolist()
    return total / rows, correct / rows


_ALWAYS = ("train_loss", "train_accuracy", "train_r2", "validation_loss", "validation_accuracy", "validation_r2")


def with_monitors(settings: Settings, kind: Kind, *, validated: bool) -> Settings:
    """The settings, once their monitored columns are checked.

    Metrics need validation rows, and the name of a column must imply which way is better. A regression has no accuracy:
    its best epoch is the one with the highest R².
    """
    if settings.metrics and not validated:
        raise UsageError(f"the metric {settings.metrics[0].name} is measured on validation rows: give validation=0.1")
    if kind is Kind.VALUES and isinstance(settings.stop, KeepBest) and settings.stop.monitor == "validation_accuracy":
        settings = dataclasses.replace(settings, stop=KeepBest("validation_r2"))
    for watched in (settings.schedule.monitor, None if settings.stop is None else settings.stop.monitor):
        if watched is not None and watched not in _ALWAYS:
            higher_is_better(watched)
        wrong = "accuracy" if kind is Kind.VALUES else "r2"
        if watched is not None and watched.endswith(f"_{wrong}"):
            right = "_r2" if kind is Kind.VALUES else "_accuracy"
            raise UsageError(f"{watched} is not measured in {kind.value}; watch validation_loss or validation{right}")
    return settings
