"""The gradient diagnosis by itself: a few steps on a copy, and a verdict on every layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError
from weightsmith.core.seeds import pinned_threads, subseed, torch_stream
from weightsmith.networks.architecture import Architecture
from weightsmith.networks.dropout import reseed_dropout
from weightsmith.training.distributed import Team
from weightsmith.training.freezing import train_mode
from weightsmith.training.gradients import GradientDiagnosis
from weightsmith.training.losses import CrossEntropy, Loss
from weightsmith.training.optimisers import Sgd
from weightsmith.training.plan import make_plan
from weightsmith.training.probe import Probe
from weightsmith.training.settings import Settings
from weightsmith.training.stepping import NotFinite, Stepper

__all__ = ["diagnose"]


def diagnose(
    network: nn.Module | Architecture | str | Path,
    data: Any,
    *,
    loss: Loss | str | Callable[[Tensor, Tensor], Tensor] = CrossEntropy(),  # noqa: B008 (frozen)
    batch: int = 64,
    batches: int = 4,
    rate: float = 0.01,
    seed: int = 0,
) -> GradientDiagnosis:
    """Whether the gradients of ``network`` vanish or explode on the training split of ``data``.

    A copy takes ``batches`` steps of plain gradient descent at ``rate``, every one of them measured; the network itself
    is not touched. Data may have any form that training takes, and are normalised as in training: by the network's
    card, else by the data set's own normalisation.

    >>> from weightsmith.networks.mlp import Mlp
    >>> deep = Mlp([16] * 19, input_shape=(4,), classes=3, activation="sigmoid").build()
    >>> rows = torch.linspace(-1, 1, 256).reshape(64, 4)
    >>> found = diagnose(deep, (rows, torch.arange(64) % 3))
    >>> found.health.value, found.layers[0].name, found.layers[0].health.value, found.layers[-1].health.value
    ('vanishing', 'dense1', 'vanishing', 'healthy')
    """
    if batches < 1:
        raise UsageError(f"batches must be at least 1, not {batches}")
    settings = Settings.read(optimiser=Sgd(), schedule=rate, loss=loss, batch=batch, epochs=1, seed=seed)
    plan = make_plan(network, data, settings)
    # Dropout layers of torch's own draw from the global generator: it is put back afterwards.
    with pinned_threads(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(subseed(seed, "torch"))
        reseed_dropout(plan.network, torch_stream(seed, "dropout"))
        train_mode(plan.network)
        probe, stepper = Probe(plan.network), Stepper(plan, Team())
        order = torch.randperm(len(plan.train), generator=torch_stream(seed, "order"))
        for number in range(batches):
            rows = order[torch.arange(number * batch, number * batch + min(batch, len(order))) % len(order)]
            x = plan.layout.arrange(plan.normalisation.apply(plan.train.x[rows]))
            try:
                with probe.step(number):
                    stepper(x, plan.train.y[rows], len(rows), rate, watched=True)
            except NotFinite:  # the probe has seen it
                break
        return probe.diagnosis()
