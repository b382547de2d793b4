"""The default optimiser and schedule, if neither is given: a recipe by the kind of network.

The slides (seed 002) advise a schedule in place of a constant rate, and early stopping with the best weights. The
choice is one cycle (Smith & Topin 2018), which includes a warm-up, and

    convolutions with batch norm     Nesterov's momentum: the norm keeps high rates stable
    any other network                AdamW, whose step length does not depend on the scale of the gradient

A network that is already trained (from a file, or with a lineage) continues at a constant, low rate: a cycle would make
it forget. If an optimiser or a schedule is given, nothing else is chosen.

>>> choice = starting(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), Span(steps=100, epochs=10))
>>> str(choice.optimiser), str(choice.schedule), str(choice.stop)
('adamw', 'one-cycle:0.003', 'early:monitor=validation_accuracy')
"""

from __future__ import annotations

import dataclasses

from torch import nn

from weightsmith.data.targets import Kind
from weightsmith.training.optimisers import AdamW, Momentum, Nesterov, Optimiser
from weightsmith.training.schedules import Constant, OneCycle, Schedule, Span
from weightsmith.training.stopping import EarlyStopping, Stop

__all__ = ["StartingChoice", "starting"]

# Peaks of the cycle at batches of 32, chosen on held-back training rows of Fashion-MNIST, CIFAR-10 and
# digits: in few steps only a high rate learns enough, in many it costs a point (Fashion-MNIST, 939 steps).
_PEAK_NORMED, _PEAK_OTHER, _PEAK_BRIEF = 0.05, 0.003, 0.01
_BRIEF = 500  # steps
_SHORT = 20  # steps; a shorter run has no warm-up
_PATIENCE = 5  # epochs at least; half of a longer run, because a cycle is best at its end


@dataclasses.dataclass(frozen=True)
class StartingChoice:
    """The choice, and its reason in a sentence."""

    optimiser: Optimiser
    schedule: Schedule
    stop: Stop | None
    reason: str


def starting(
    network: nn.Module, span: Span, *, trained: bool = False, validation: bool = True, kind: Kind = Kind.CLASSES
) -> StartingChoice:
    """The choice for ``network`` and a run of this length.

    Without ``validation`` rows nothing is monitored, and the weights of the last epoch are kept.
    """
    if trained:
        optimiser = Momentum()
        reason = "the network is already trained, so it continues at a constant, low rate"
        return StartingChoice(optimiser, Constant(optimiser.usual_rate), None, reason)
    monitor = "validation_accuracy" if kind is Kind.CLASSES else "validation_loss"
    stop = EarlyStopping(max(_PATIENCE, span.epochs // 2), monitor=monitor) if validation else None
    modules = list(network.modules())
    convolutions = any(isinstance(module, nn.modules.conv._ConvNd) for module in modules)
    if convolutions and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in modules):
        why = "convolutions with batch norm tolerate high rates with momentum"
        schedule = _cycle(_PEAK_NORMED, span)
        return StartingChoice(Nesterov(), schedule, stop, _sentence(why, schedule, stop))
    why = "AdamW trains networks without batch norm safely at one rate"
    schedule = _cycle(_PEAK_OTHER if span.total > _BRIEF else _PEAK_BRIEF, span)
    return StartingChoice(AdamW(), schedule, stop, _sentence(why, schedule, stop))


def _cycle(peak: float, span: Span) -> OneCycle:
    return OneCycle(peak) if span.total >= _SHORT else OneCycle(peak, warm=0.0)


def _sentence(why: str, schedule: OneCycle, stop: Stop | None) -> str:
    kept = (
        "the best weights on the validation rows are kept" if stop else "no validation rows: the last weights are kept"
    )
    cycle = (
        "rises for a third of the run and falls to almost 0" if schedule.warm else "falls to almost 0 in a short run"
    )
    return f"{why}; the rate of one cycle {cycle}; {kept}"
