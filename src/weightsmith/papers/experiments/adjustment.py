"""Where the L4 adjustment belongs: first layer or all, which thresholds, norms or inputs (L4 norm, sections 3.3, 4)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from weightsmith.data.datasets import Data

__all__ = ["EXPERIMENT", "measure", "trained_vgg"]

_VARIANTS = {"first layer": "layers=1", "all layers": "layers=4", "first layer, by inputs": "layers=1,by=input"}


def measure(
    *,
    seed: int,
    data: str,
    path: str | Path | None,
    variant: str,
    rows: int,
    epochs: int,
    leak: float,
    steps: int,
    images: int,
    judged: int,
    factors: Sequence[float],
    smoothings: Sequence[float],
) -> dict[str, Any]:
    """A small VGG converted with a leak: thresholds and smoothing chosen on training rows, then tested.

    Accuracies of its conversion (``baseline``), adjusted at its own best thresholds (``adjusted``) and
    at those of the baseline (``kept``).
    """
    source = training_data(data, path, rows)
    assert source.train is not None
    network = trained_vgg(seed, data, path, rows, epochs)
    choosing = dataclasses.replace(source, test=source.train.take(range(images)), validation=None)
    run = functools.partial(_right, network, leak=leak, steps=steps, seed=seed)
    baseline = max(factors, key=lambda factor: run(choosing, factor, None, rows=images))
    adjusted = {
        (factor, smoothing): run(choosing, factor, f"l4:{smoothing},{_VARIANTS[variant]}", rows=images)
        for factor in factors
        for smoothing in smoothings
    }
    factor, smoothing = max(adjusted, key=lambda chosen: adjusted[chosen])
    same = max(smoothings, key=lambda each: adjusted[baseline, each])
    return {
        "baseline": run(source, baseline, None, rows=judged),
        "adjusted": run(source, factor, f"l4:{smoothing},{_VARIANTS[variant]}", rows=judged),
        "kept": run(source, baseline, f"l4:{same},{_VARIANTS[variant]}", rows=judged),
        "factor": baseline,
        "adjusted_factor": factor,
        "smoothing": smoothing,
    }


@functools.lru_cache(maxsize=8)
def trained_vgg(seed: int, data: str, path: str | Path | None, rows: int, epochs: int) -> nn.Module:
    """A small VGG as the paper builds its networks: no bias, no batch norm, inputs between −1 and 1."""
    from weightsmith.training.loop import train

    return train(
        "vgg:5,widths=[8,16,16],classifier=[64],dropout=0,classifier_dropout=0",
        training_data(data, path, rows),
        optimiser="adam",
        schedule="one-cycle:0.003",
        batch=64,
        epochs=epochs,
        stop=None,
        normalise="0.5/0.5",
        diagnose=False,
        seed=seed,
    ).network


def _right(
    network: nn.Module, data: Data, factor: float, adjust: str | None, *, leak: float, steps: int, seed: int, rows: int
) -> float:
    """The test accuracy of the spiking network."""
    from weightsmith.spiking.spike import spike

    made = spike(
        network,
        data,
        neuron=f"lif:{leak}",
        encode="poisson",
        balance=f"max-current:images=64,steps=50,factor={factor}",
        adjust=adjust if adjust is None else f"{adjust},images=64",
        steps=steps,
        test_rows=rows,
        watch=0,
        seed=seed,
    )
    return made.record.decisions.spiking.value


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Paired over the seeds, each with its own network."""

    def column(name: str, variant: str) -> Any:
        return values(table, name, variant=variant)

    first = column("adjusted", "first layer")
    gain = paired(first, column("baseline", "first layer"))
    deeper = paired(first, column("adjusted", "all layers"))
    inputs = paired(column("adjusted", "first layer, by inputs"), first)
    own = paired(first, column("kept", "first layer"))
    moved = sum(row["factor"] != row["adjusted_factor"] for row in table.rows if row["variant"] == "first layer")
    return [
        by_interval("helps", gain, "adjusted against not, each at its best thresholds"),
        by_interval("first-layer", deeper, "first layer alone against all layers"),
        by_interval(
            "threshold",
            own,
            f"the best factor is another one in {moved} of {len(first)} networks; accuracy at its own best thresholds "
            "against those of the baseline",
        ),
        by_interval(
            "inputs",
            inputs,
            f"spread caused by the inputs instead of the L4 norm: {worded(inputs)}",
            claimed=-1,
            least=-0.01,
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Accuracy of the adjusted networks by variant."""
    return draw_lines(
        table,
        x="variant",
        y="adjusted",
        line="variant",
        names=("adjusted", "test accuracy, %"),
        scale=100,
        joined=False,
    )


EXPERIMENT = Experiment(
    name="adjustment",
    document="L4 norm",
    says="The adjustment scales the weights of the first layer by their L4 norms, because only its input is Poisson, "
    "and thresholds are then searched anew.",
    claims=(
        Claim(
            "helps",
            "abstract",
            "The adjustment improves the accuracy of a converted leaky network.",
            "above the baseline beyond the interval over networks",
        ),
        Claim(
            "first-layer",
            "section 3.3",
            "The adjustment is more effective at the first layer than at others.",
            "first layer alone above all layers, beyond the interval over networks",
        ),
        Claim(
            "threshold",
            "section 4.3",
            "The best threshold is another one after the adjustment.",
            "accuracy with thresholds chosen anew above that with the baseline's, beyond the interval",
        ),
        Claim(
            "inputs",
            "sections 3.2 and 4.2",
            "The L4 norm of the weights can stand in for the spread that the inputs cause.",
            "the input-dependent spread gains less than a point, beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(
        grid(variant=tuple(_VARIANTS)),
        seeds=(0, 1, 2, 3, 4),
        data="fashion-mnist",
        all={
            "rows": 10_000,
            "epochs": 3,
            "leak": 0.9,
            "steps": 75,
            "images": 200,
            "judged": 1_000,
            "factors": (0.2, 0.3, 0.5, 0.7),
            "smoothings": (1.0, 4.0),
        },
    ),
    quick=Settings(
        grid(variant=tuple(_VARIANTS)),
        seeds=(0, 1),
        data="digits",
        all={
            "rows": 400,
            "epochs": 2,
            "leak": 0.9,
            "steps": 4,
            "images": 8,
            "judged": 16,
            "factors": (0.3,),
            "smoothings": (1.0,),
        },
    ),
    judge=_judge,
    shows=("baseline", "adjusted", "kept", "factor", "adjusted_factor", "smoothing"),
    draw=_draw,
    how="Leak 0.9, soft reset; mean over networks with standard deviation.",
    minutes=10.0,
)
