"""What torch itself computes where its meaning or default differs from Keras's; same inputs as ``keras_layers``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import lr_scheduler

from benchmarks.peers.inputs import weights

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("numpy", "torch")

GRID = [step / 2 for step in range(-8, 9)]
STEPS = [0, 1, 5, 10, 11, 20, 50, 99]
FLAT = [1.0] * 12
SLOW = [1.0 - 3e-5 * epoch for epoch in range(12)]
SMALL = [0.1 - 4e-5 * epoch for epoch in range(12)]


def vectors() -> dict[str, Any]:
    """All of it, as JSON-ready values."""
    return {
        "activations": _activations(),
        "batch_norm": _batch_norm(),
        "clipping": _clipping(),
        "dropout": _dropout(),
        "initialisers": _initialisers(),
        "plateau": _plateau(),
        "schedules": _schedules(),
    }


def _activations() -> dict[str, Any]:
    x = torch.tensor(GRID, dtype=torch.float64)
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "elu": F.elu,
        "leaky_relu": F.leaky_relu,
        "relu": F.relu,
        "selu": F.selu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
    }
    return {**{name: function(x).tolist() for name, function in functions.items()}, "x": GRID}


def _initialisers() -> dict[str, Any]:
    """The defaults of Linear and Conv2d, drawn once; both are uniform within 1/sqrt(fan in), bias included."""
    made: dict[str, Callable[[], nn.Linear | nn.Conv2d]] = {
        "conv_64_128_3x3": lambda: nn.Conv2d(64, 128, 3, dtype=torch.float64),
        "linear_784_300": lambda: nn.Linear(784, 300, dtype=torch.float64),
    }
    result = {}
    for name, build in made.items():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            layer = build()
        parts = {"bias": layer.bias, "weight": layer.weight}
        result[name] = {part: _spread(values) for part, values in parts.items() if values is not None}
    return result


def _spread(values: Tensor) -> dict[str, float]:
    return {"largest": float(values.abs().max()), "std": float(values.std(correction=0))}


def _batch_norm() -> dict[str, Any]:
    constant = torch.tensor([[3.0], [7.0]], dtype=torch.float64).expand(10, 2, 1)
    varying = torch.from_numpy(weights(10, 6, 1, salt=11) + 5)
    layer = nn.BatchNorm1d(1, dtype=torch.float64)
    frozen = nn.BatchNorm1d(1, dtype=torch.float64).requires_grad_(False)
    moving = _moving(layer, constant)
    with torch.no_grad():
        inference = layer.eval()(torch.ones(1, 1, dtype=torch.float64))
    return {
        "constant_batches": moving,
        "epsilon": layer.eps,
        "frozen": _moving(frozen, constant),
        "inference_at_1": float(inference),
        "momentum": layer.momentum,
        "varying_batches": {
            "batches": varying[:, :, 0].tolist(),
            **_moving(nn.BatchNorm1d(1, dtype=torch.float64), varying),
        },
    }


def _moving(layer: nn.BatchNorm1d, batches: Tensor) -> dict[str, Any]:
    means, variances = [], []
    for batch in batches:
        layer(batch)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        means.append(float(layer.running_mean))
        variances.append(float(layer.running_var))
    return {"running_mean": means, "running_var": variances}


def _dropout() -> dict[str, Any]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ones, zeros = torch.ones(1000, dtype=torch.float64), torch.zeros(1000, dtype=torch.float64)
        return {
            "alpha_dropout_of_ones": _distinct(F.alpha_dropout(ones, 0.2, training=True)),
            "alpha_dropout_of_zeros": _distinct(F.alpha_dropout(zeros, 0.2, training=True)),
            "dropout_of_ones": _distinct(F.dropout(ones, 0.2)),
            "dropout_of_ones_inference": _distinct(F.dropout(ones, 0.2, training=False)),
            "rate": 0.2,
        }


def _distinct(values: Tensor) -> list[float]:
    return sorted(set(values.tolist()))


def _clipping() -> dict[str, Any]:
    gradients = [[0.9, 100.0], [3.0]]

    def parameters(chosen: list[list[float]]) -> list[nn.Parameter]:
        made = [nn.Parameter(torch.zeros(len(values), dtype=torch.float64)) for values in chosen]
        for parameter, values in zip(made, chosen, strict=True):
            parameter.grad = torch.tensor(values, dtype=torch.float64)
        return made

    def clipped(chosen: list[list[float]], clip: Callable[[list[nn.Parameter]], object]) -> list[list[float]]:
        made = parameters(chosen)
        clip(made)
        return [parameter.grad.tolist() for parameter in made if parameter.grad is not None]

    return {
        "clip_grad_norm_": clipped(gradients, lambda p: nn.utils.clip_grad_norm_(p, 1.0)),
        "clip_grad_norm_of_first": clipped(gradients[:1], lambda p: nn.utils.clip_grad_norm_(p, 1.0)),
        "clip_grad_value_": clipped(gradients, lambda p: nn.utils.clip_grad_value_(p, 1.0)),
        "gradients": gradients,
        "limit": 1.0,
    }


def _optimiser(rate: float) -> torch.optim.SGD:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)


def _plateau() -> dict[str, Any]:
    def epochs_of_cuts(losses: list[float], **options: Any) -> list[int]:
        optimiser = _optimiser(1.0)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimiser, **options)
        cuts = []
        for epoch, loss in enumerate(losses, start=1):
            before = optimiser.param_groups[0]["lr"]
            scheduler.step(loss)
            if optimiser.param_groups[0]["lr"] < before:
                cuts.append(epoch)
        return cuts

    return {
        "cuts_after_epoch": {
            "flat_patience_2": epochs_of_cuts(FLAT, patience=2),
            "flat_patience_2_cooldown_2": epochs_of_cuts(FLAT, patience=2, cooldown=2),
            "slow_patience_2": epochs_of_cuts(SLOW, patience=2),
            "small_patience_1": epochs_of_cuts(SMALL, patience=1),
            "small_patience_1_absolute": epochs_of_cuts(SMALL, patience=1, threshold_mode="abs"),
        },
        "flat": FLAT,
        "slow": SLOW,
        "small": SMALL,
    }


def _schedules() -> dict[str, Any]:
    def rates(build: Callable[[torch.optim.SGD], lr_scheduler.LRScheduler]) -> list[float]:
        optimiser = _optimiser(0.1)
        scheduler = build(optimiser)
        trace = []
        for _ in range(max(STEPS) + 1):
            trace.append(float(optimiser.param_groups[0]["lr"]))
            optimiser.step()
            scheduler.step()
        return [trace[step] for step in STEPS]

    return {
        "rates": {
            "cosine_100": rates(lambda o: lr_scheduler.CosineAnnealingLR(o, 100)),
            "exponential_0.1_per_20": rates(lambda o: lr_scheduler.ExponentialLR(o, 0.1 ** (1 / 20))),
            "multistep_10_20": rates(lambda o: lr_scheduler.MultiStepLR(o, [10, 20])),
            "one_cycle_100": rates(lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=101)),
        },
        "steps": STEPS,
    }
