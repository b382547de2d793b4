"""One step: gradient, sum over the processes, penalties, clipping, optimiser, projections; in this order."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from weightsmith.training.distributed import Team
from weightsmith.training.engines.choice import AutogradEngine, engine_for
from weightsmith.training.engines.flat import Flat
from weightsmith.training.penalties import weights_of
from weightsmith.training.plan import TrainingPlan

__all__ = ["NotFinite", "Step", "Stepper"]


class NotFinite(Exception):
    """The loss of a batch is NaN or infinite; the weights have not been touched by it."""


class Step(NamedTuple):
    """The result of a step over all processes: the mean loss, the number of correct images, the number of images."""

    loss: float
    correct: int
    rows: int


class Stepper:
    """Owns the parameters of a plan's network (until ``flat.release``) and updates them batch by batch."""

    def __init__(self, plan: TrainingPlan, members: Team) -> None:
        settings = plan.settings
        self._team, self._clip, self._gain = members, settings.clip, settings.optimiser.gain
        self.flat = Flat(plan.network)
        self._engine = engine_for(plan.network, settings.loss, self.flat)
        self._autograd = AutogradEngine(plan.network, settings.loss, self.flat)
        self.penalisers = tuple(penalty.on(weights_of(plan.network)) for penalty in settings.penalties)
        self.optimiser = settings.optimiser.build(self.flat.parameter, settings.schedule.at(0, plan.span))
        self.clipped = 0

    def start_epoch(self) -> None:
        """Reset the state that checkpoints do not hold, and count clipped steps from 0."""
        self.clipped = 0
        for penaliser in self.penalisers:
            penaliser.start_epoch()

    def __call__(self, x: Tensor, y: Tensor, rows: int, rate: float, *, watched: bool = False) -> Step:
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
        self.optimiser.step()
        for penaliser in self.penalisers:
            penaliser.after_step(rate * self._gain)
        return step

    def _gradient(self, x: Tensor, y: Tensor, rows: int, watched: bool) -> Step:
        """The gradient of the mean loss over the whole batch, in the flat vector."""
        share = len(y)
        if share:
            loss, scores = (self._autograd if watched else self._engine)(x, y)
            own = Step(float(loss), int(torch.count_nonzero(scores.argmax(1) == y)), share)
        else:  # the last batch may have fewer rows than there are processes
            self.flat.gradient.zero_()
            own = Step(0.0, 0, 0)
        if self._team.size == 1:
            return own
        self._team.sum(self.flat.gradient.mul_(share / rows))
        both = self._team.sum(torch.tensor([own.loss * share, own.correct], dtype=torch.float64))
        return Step(float(both[0]) / rows, int(both[1]), rows)
