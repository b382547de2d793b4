"""Accuracy against energy of the chain: a network, its reductions, and the spiking networks made of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, combined, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

__all__ = ["EXPERIMENT", "measure"]

_RIVALS: dict[Literal["float32", "int8"], str] = {"float32": "float32", "int8": "int8, zeros skipped"}


def measure(
    *, seed: int, data: str, path: str | Path | None, keep: float, rows: int, epochs: int, steps: int, judged: int
) -> dict[str, Any]:
    """The network cut to ``keep`` of its parameters (1: whole), as it is and as a spiking network of ``steps`` steps.

    Energies are microjoules of arithmetic for an image in 45 nm, updates of neurons included: at the prices of
    floating-point numbers, and at those of 8-bit ones, where the original network may skip its zeros.
    """
    from weightsmith.reducing.reduce import reduce
    from weightsmith.spiking.energy.prices import Prices
    from weightsmith.spiking.spike import spike

    source = training_data(data, path, rows)
    network = _trained(seed, data, path, rows, epochs)
    if keep < 1:
        network = reduce(
            network, source, by="error", target=f"params:{keep}", rows=1000, test_rows=200, random=0, latency=False
        ).network
    record = spike(network, source, steps=steps, test_rows=judged, watch=0, seed=seed).record
    rivals = {rival.name: rival.energy / 1e6 for rival in record.cost.rivals}
    found: dict[str, Any] = {
        "accuracy": record.decisions.network.value,
        "spiking_accuracy": record.decisions.spiking.value,
    }
    for numbers, rival in _RIVALS.items():
        found[f"energy_{numbers}"] = rivals[rival]
        found[f"spiking_{numbers}"] = float(record.cost.at(Prices(numbers=numbers)).curve[-1]) / 1e6
    return found


@functools.lru_cache(maxsize=2)
def _trained(seed: int, data: str, path: str | Path | None, rows: int, epochs: int) -> nn.Module:
    from weightsmith.training.loop import train

    return train(
        "mlp:200,100",
        training_data(data, path, rows),
        optimiser="adam",
        schedule="one-cycle:0.005",
        batch=64,
        epochs=epochs,
        stop=None,
        diagnose=False,
        seed=seed,
    ).network


def _judge(table: SweepTable) -> Sequence[Finding]:
    """Energies as decades (log10 of their ratio), paired over seeds, at every size; accuracies in points."""
    sizes = list(dict.fromkeys(row["keep"] for row in table.rows))

    def column(name: str, keep: float) -> Any:
        return values(table, name, keep=keep)

    def cheaper(claim: str, numbers: str, about: str) -> Finding:
        tests = {
            keep: paired(np.log10(column(f"spiking_{numbers}", keep)), np.log10(column(f"energy_{numbers}", keep)))
            for keep in sizes
        }
        words = ", ".join(f"{100 * keep:g} %: {10**found.difference:.2f} times" for keep, found in tests.items())
        parts = [by_interval(claim, found, "", claimed=-1, unit="decades", scale=1.0) for found in tests.values()]
        return combined(claim, parts, f"{about}, by the share of parameters kept: {words}", ours=parts[0].ours)

    small, whole = min(sizes), max(sizes)
    energy = paired(np.log10(column("spiking_float32", small)), np.log10(column("spiking_float32", whole)))
    loss = paired(column("spiking_accuracy", small), column("spiking_accuracy", whole))
    return [
        cheaper("float", "float32", "energy of the spiking network over that of the network in float32"),
        cheaper("int8", "int8", "the same at the prices of 8-bit numbers, zeros skipped"),
        combined(
            "cut-first",
            [
                by_interval("cut-first", energy, "", claimed=-1, unit="decades", scale=1.0),
                by_interval("cut-first", loss, "", least=-0.01),
            ],
            f"{100 * small:g} % of the parameters kept, then spiking, against spiking as a whole: "
            f"{10**energy.difference:.2f} times the energy, {worded(loss)}",
            ours=f"{10**energy.difference:.2f} times, {worded(loss)}",
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Accuracy against energy of the spiking networks, by the share of parameters kept."""
    return draw_lines(
        table,
        x="spiking_float32",
        y="spiking_accuracy",
        line="keep",
        names=("energy of the spiking network, µJ", "test accuracy, %"),
        scale=100,
        joined=False,
    )


EXPERIMENT = Experiment(
    name="chain-energy",
    document="links",
    says="Spiking networks are explored for their energy, and a smaller network needs less of it. Here a network is "
    "cut, made spiking, and each step is priced.",
    claims=(
        Claim(
            "float",
            "L4 norm, abstract",
            "A spiking network takes less energy than the network it came from, in float32.",
            "log ratio of the energies below 0, beyond the interval over seeds, at every size",
        ),
        Claim(
            "int8",
            "our question",
            "It takes less than the same network with 8-bit numbers that skips its zeros.",
            "the same at the prices of 8-bit numbers",
        ),
        Claim(
            "cut-first",
            "the chain",
            "Cutting a network before it is made spiking saves energy at less than a point of accuracy.",
            "log ratio below 0 and loss of accuracy below a point, both beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(
        grid(keep=(1.0, 0.6, 0.3)),
        seeds=(0, 1, 2, 3, 4),
        data="fashion-mnist",
        all={"rows": 20_000, "epochs": 5, "steps": 16, "judged": 5_000},
    ),
    quick=Settings(
        grid(keep=(1.0, 0.3)),
        seeds=(0, 1),
        data="digits",
        all={"rows": 400, "epochs": 2, "steps": 8, "judged": 100},
    ),
    judge=_judge,
    shows=("accuracy", "spiking_accuracy", "energy_float32", "spiking_float32", "energy_int8", "spiking_int8"),
    draw=_draw,
    how="Each point is a network of one seed; microjoules of arithmetic for an image, at floating-point prices.",
    notes=("an MLP 784-200-100-10 with constant input and 16 steps; memory is not counted",),
    minutes=3.0,
)
