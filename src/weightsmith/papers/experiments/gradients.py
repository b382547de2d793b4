"""Vanishing and exploding gradients by depth, activation, initial weights and batch norm (slides, eqs. 5 to 9)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, by_parts, paired
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import ACTIVATIONS, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "measure"]

_WIDTH = 50
_DEEP = 20
_SATURATING = ("sigmoid", "tanh")


def measure(
    *, seed: int, data: str, path: str | Path | None, activation: str, depth: int, weights: float, batch_norm: bool
) -> dict[str, Any]:
    """log₁₀ of the first layer's sensitivity over the output's, before any training.

    ``weights`` scales the initial weights that match the activation.
    """
    import torch

    from weightsmith.networks.models.mlp import Mlp
    from weightsmith.training.diagnosis.diagnose import diagnose

    known = training_data(data, path)
    assert known.train is not None
    shape, classes = tuple(known.train.x.shape[1:]), int(known.train.y.max()) + 1
    made = Mlp(
        (_WIDTH,) * depth,
        activation=activation,
        batch_norm="before" if batch_norm else None,
        input_shape=shape,
        classes=classes,
    )
    network = made.build(seed=seed)
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.weight *= weights
    found = diagnose(network, known, batches=1, seed=seed)
    first, last = found.layers[0].sensitivity[0], found.layers[-1].sensitivity[0]
    ratio = math.log10(first / last) if first and last else None
    return {
        "log_ratio": ratio,
        "per_layer": None if ratio is None else 10 ** (ratio / depth),
        "health": found.health.value,
    }


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Over seeds, pair by pair."""

    def of(activation: str, depth: int = _DEEP, weights: float = 1.0, batch_norm: bool = False) -> Any:
        # A gradient that is exactly 0 counts as the smallest number of its type.
        return values(
            table, "log_ratio", -45.0, activation=activation, depth=depth, weights=weights, batch_norm=batch_norm
        )

    judged = functools.partial(by_interval, unit="decades", scale=1.0)
    sigmoid = of("sigmoid")
    deeper = paired(sigmoid, of("sigmoid", 2))
    exploding = paired(of("relu", weights=3.0), of("relu"))
    healthy = {name: of(name) for name in ACTIVATIONS if name not in _SATURATING}
    gains = {name: paired(found, sigmoid) for name, found in healthy.items()}
    normed = paired(of("sigmoid", batch_norm=True), sigmoid)
    spread = [
        np.ptp([of("tanh", weights=w, batch_norm=norm) for w in (0.3, 1.0, 3.0)], axis=0) for norm in (True, False)
    ]
    calmer = paired(*spread)
    least = min(gains.values(), key=lambda found: found.difference)
    return [
        judged(
            "vanish",
            deeper,
            f"with sigmoids the sensitivity of the first of {_DEEP} layers is 10^{sigmoid.mean():.0f} of the output's",
            claimed=-1,
        ),
        judged(
            "explode",
            exploding,
            "weights three times as large as they should be let it grow instead, ReLU's derivative being 1",
            claimed=1,
        ),
        by_parts(
            "nonsaturating",
            [found.interval is not None and found.interval.low > 0 for found in gains.values()],
            "all four keep the gradient of 20 layers within "
            f"{max(abs(found.mean()) for found in healthy.values()):.1f} decades of the output's",
            ours=f"{least.difference:+.1f} decades over sigmoid at the least",
            n=len(healthy) * len(sigmoid),
            p=max((found.p for found in gains.values() if found.p is not None), default=None),
        ),
        judged("norm", normed, "batch norm before the sigmoids takes most of the loss away"),
        judged(
            "initial",
            calmer,
            "over initial weights 0.3 to 3 times the matching ones the gradient of a tanh network moves by "
            f"{spread[0].mean():.1f} decades with batch norm and {spread[1].mean():.1f} without",
            claimed=-1,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Log ratio against depth for each activation, with and without batch norm."""
    return draw_lines(
        table,
        x="depth",
        y="log_ratio",
        line="activation",
        panel="batch_norm",
        names=("hidden layers", "log₁₀ of first layer's sensitivity / output's"),
        keep=lambda row: row["weights"] == 1,
    )


EXPERIMENT = Experiment(
    name="gradients",
    document="training",
    says="The sensitivity of a layer is that of the layer above times its weights times the activation's "
    "derivatives. Small "
    "derivatives make it vanish towards the input, large ones make it explode; activations that do not saturate and "
    "batch "
    "norm are named as remedies.",
    claims=(
        Claim(
            "vanish",
            "eqs. 8 to 10",
            "With small derivatives (sigmoid) the sensitivity becomes smaller and smaller towards the lower layers.",
            "20 sigmoid layers against 2: log ratio lower beyond the interval",
        ),
        Claim(
            "explode",
            "eqs. 8 to 10",
            "With large factors it becomes larger and larger.",
            "ReLU, weights times 3 against matching ones: log ratio higher beyond the interval",
        ),
        Claim(
            "nonsaturating",
            "eqs. 11 to 14",
            "Activations that do not saturate handle it at the beginning of training.",
            "SELU, ELU, leaky ReLU and ReLU each above sigmoid at 20 layers",
        ),
        Claim(
            "norm",
            "batch norm, pros",
            "Batch norm significantly alleviates vanishing gradients.",
            "20 sigmoid layers with against without batch norm",
        ),
        Claim(
            "initial",
            "batch norm, pros",
            "Batch norm makes networks much less sensitive to initial weights.",
            "spread of the log ratio over three scales of the weights, with against without",
        ),
    ),
    measure=measure,
    full=Settings(
        (
            *grid(activation=ACTIVATIONS, depth=(2, 5, _DEEP), weights=(1.0,), batch_norm=(False, True)),
            *grid(activation=("tanh", "relu"), depth=(_DEEP,), weights=(0.3, 3.0), batch_norm=(False, True)),
        ),
        seeds=tuple(range(5)),
        data="fashion-mnist",
    ),
    quick=Settings(
        (
            *grid(activation=ACTIVATIONS, depth=(2, _DEEP), weights=(1.0,), batch_norm=(False, True)),
            *grid(activation=("tanh", "relu"), depth=(_DEEP,), weights=(0.3, 3.0), batch_norm=(False, True)),
        ),
        data="digits",
    ),
    judge=_judge,
    shows=("log_ratio", "per_layer"),
    draw=_draw,
    how="Above 0 the gradient grows towards the input, below 0 it shrinks; each unit is a factor of ten.",
    minutes=1.0,
)
