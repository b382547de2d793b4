"""One step: gradient, sum over the processes, penalties, clipping, optimiser, projections; in this order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.data.targets import scoring_of
from weightsmith.training.distributed import Team
from weightsmith.training.engines.choice import AutogradEngine, engine_for
from weightsmith.training.engines.flat import Flat
from weightsmith.training.feeding import Weighted
from weightsmith.training.penalties import weights_of
from weightsmith.training.plan import TrainingPlan

__all__ = ["NotFinite", "Step", "Stepper"]


class NotFinite(Exception):
    """The loss of a batch is NaN or infinite; the weights were not updated."""


class Step(NamedTuple):
    """The result of a step over all processes: the mean loss, the sum of the rows' scores, the number of rows."""

    loss: float
    correct: float
    rows: int


class Stepper:
    """Owns the parameters of a plan's network (until ``flat.release``) and updates them batch by batch."""

    def __init__(self, plan: TrainingPlan, members: Team) -> None:
        settings = plan.settings
        self._team, self._clip, self._gain = members, settings.clip, settings.optimiser.gain
        self.flat = Flat(plan.network)
        self._engine = engine_for(plan.network, plan.loss, self.flat)
        self._autograd = AutogradEngine(plan.network, plan.loss, self.flat)
        self.penalisers = tuple(penalty.on(weights_of(plan.network)) for penalty in settings.penalties)
        self.optimiser = settings.optimiser.build(self.flat.parameter, settings.schedule.at(0, plan.span))
        self._scoring = scoring_of(plan.train.y)
        self.clipped = 0
        self._factors: Tensor | None = None

    def scale(self, rates: Mapping[str, float]) -> None:
        """Multiply the update, and so the rate, of each named layer by a factor; of other layers by 1."""
        for layer, factor in rates.items():
            if not any(name == layer or name.startswith(f"{layer}.") for name in self.flat.names):
                raise UnknownName("layer with trainable parameters", layer, self.flat.names)
            if not 0 <= factor < math.inf:
                raise UsageError(f"rates: the factor of {layer} is {factor}; it must be a finite number ≥ 0")
        if not rates or set(rates.values()) == {1.0}:
            self._factors = None
            return
        self._factors = self.flat.spread(
            [
                math.prod(f for layer, f in rates.items() if name == layer or name.startswith(f"{layer}."))
                for name in self.flat.names
            ]
        )

    def start_epoch(self) -> None:
        """Reset the state that checkpoints do not hold, and count clipped steps from 0."""
        self.clipped = 0
        for penaliser in self.penalisers:
            penaliser.start_epoch()

    def __call__(self, x: Tensor, y: Tensor | Weighted, rows: int, rate: float, *, watched: bool = False) -> Step:
        """Take a step of that ``rate`` on this process's share of a batch of ``rows``.

        With ``watched`` the step uses autograd, so that hooks see the gradients.
        """
        step = self._gradient(x, y, rows, watched)
        if not math.isfinite(step.loss):
            raise NotFinite
        for penaliser in self.penalisers:
            penaliser.add_gradient()
        if self._clip is not None:
            self.clipped += self._clip(self.flat.gradient, self.flat.gradients)
        self.optimiser.param_groups[0]["lr"] = rate
        before = None if self._factors is None else self.flat.parameter.detach().clone()
        self.optimiser.step()
        if before is not None and self._factors is not None:
            torch.lerp(before, self.flat.parameter.data, self._factors, out=self.flat.parameter.data)
        for penaliser in self.penalisers:
            penaliser.after_step(rate * self._gain)
        return step

    def _gradient(self, x: Tensor, y: Tensor | Weighted, rows: int, watched: bool) -> Step:
        """The gradient of the mean loss over the whole batch, in the flat vector."""
        share = len(x)
        targets, weights = y if isinstance(y, Weighted) else (y, None)
        if share:
            loss, scores = (self._autograd if watched else self._engine)(x, targets, weights)
            own = Step(float(loss), self._scoring.total(scores, targets), share)
        else:  # the last batch may have fewer rows than there are processes
            self.flat.gradient.zero_()
            own = Step(0.0, 0.0, 0)
        if self._team.size == 1:
            return own
        self._team.sum(self.flat.gradient.mul_(share / rows))
        both = self._team.sum(torch.tensor([own.loss * share, own.correct], dtype=torch.float64))
        return Step(float(both[0]) / rows, float(both[1]), rows)
