"""Diagnose the gradients of a network by a few steps on a copy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import pinned_threads
from weightsmith.networks.models.architecture import Architecture
from weightsmith.training.diagnosis.gradients import GradientDiagnosis
from weightsmith.training.diagnosis.probe import Probe
from weightsmith.training.distributed import Team
from weightsmith.training.drawing import endless, own_random_state
from weightsmith.training.engines.stepping import NotFinite, Stepper
from weightsmith.training.losses import Loss
from weightsmith.training.plan import make_plan
from weightsmith.training.settings import Settings

__all__ = ["diagnose"]


def diagnose(
    network: nn.Module | Architecture | str | Path,
    data: Any,
    *,
    loss: Loss | str | Callable[[Tensor, Tensor], Tensor] = "cross-entropy",
    batch: int = 64,
    batches: int = 4,
    rate: float = 0.01,
    seed: int = 0,
) -> GradientDiagnosis:
    """Whether the gradients of ``network`` vanish or explode on the training split of ``data``.

    A copy takes ``batches`` steps of plain gradient descent at ``rate``, each of them measured; the network itself does
    not change. Data may have any form that training takes, and are normalised as in training: by the network's card,
    else by the data set's own normalisation.

    >>> import torch
    >>> from weightsmith.networks.models.mlp import Mlp
    >>> deep = Mlp([16] * 19, input_shape=(4,), classes=3, activation="sigmoid").build()
    >>> rows = torch.linspace(-1, 1, 256).reshape(64, 4)
    >>> found = diagnose(deep, (rows, torch.arange(64) % 3))
    >>> found.health.value, found.layers[0].name, found.layers[0].health.value, found.layers[-1].health.value
    ('vanishing', 'dense1', 'vanishing', 'healthy')
    """
    if batches < 1:
        raise UsageError(f"batches must be at least 1, not {batches}")
    settings = Settings.read(optimiser="sgd", schedule=rate, loss=loss, batch=batch, epochs=1, seed=seed)
    plan = make_plan(network, data, settings)
    with pinned_threads(), own_random_state(), contextlib.closing(endless(plan)) as feed:
        probe, stepper = Probe(plan.network), Stepper(plan, Team())
        for number, (x, y) in zip(range(batches), feed, strict=False):
            try:
                with probe.step(number):
                    stepper(x, y, len(y), rate, watched=True)
            except NotFinite:  # the probe has recorded it
                break
        return probe.diagnosis()
