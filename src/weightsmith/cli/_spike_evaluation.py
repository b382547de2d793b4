"""A spiking network file on data: how right it is after how many steps, and how much it fires."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape

from weightsmith.cli._spike_options import Numbers, say_if_compiling
from weightsmith.cli._spike_report import accuracy_text, significant
from weightsmith.cli._spike_rows import accuracy_rows, shown_steps
from weightsmith.cli.terminal import count_text, out, progress_bar, say_note, table
from weightsmith.core.seeds import stream

if TYPE_CHECKING:
    from weightsmith.data import Data
    from weightsmith.spiking.network import SpikingNetwork
    from weightsmith.spiking.simulation.responses import Responses

__all__ = ["run_spiking", "show_spiking"]


def run_spiking(
    file: Path,
    known: Data,
    *,
    split: str | None,
    steps: int,
    images: int | None,
    seed: int,
    precision: Numbers,
    quiet: bool,
) -> dict[str, Any]:
    """The spiking network in ``file`` on one split of ``known``; the same rows and spikes as at its conversion."""
    import torch

    from weightsmith.networks.evaluation import labels_for
    from weightsmith.spiking.files import load_spiking
    from weightsmith.spiking.simulation.simulate import simulate

    network = load_spiking(file)
    chosen = split or (next(iter(known.splits)) if len(known.splits) == 1 else "test")
    part = known.split(chosen)
    rows = np.arange(len(part))
    if images is not None and images < len(part):
        rows = np.sort(stream(seed, "judging rows").choice(len(part), images, replace=False))
    x, y = part.x[torch.from_numpy(rows)], part.y[torch.from_numpy(rows)]
    labels = labels_for(network.card, known, y, network.classes)[1]
    if not quiet:
        for note in (*network.card.notes, *known.notes):
            say_note(note)
    say_if_compiling(quiet)
    with progress_bar("evaluate", quiet) as progress:
        responses = simulate(network, x, steps, seed=seed, precision=precision, progress=progress)
    return {
        "file": str(file),
        "data": known.name,
        "split": chosen,
        "images": len(rows),
        "neuron": str(network.neuron),
        "encode": str(network.encode),
        "precision": precision,
        "seed": seed,
        "steps": _steps(responses, labels.numpy()),
        "layers": _layers(network, responses),
    }


def show_spiking(report: dict[str, Any]) -> None:
    """Print what :func:`run_spiking` found."""
    console = out()
    where = f"{escape(report['data'])} ({report['split']}, {count_text(report['images'])} images)"
    console.print(f"[bold]{escape(report['file'])}[/bold] on {where}")
    console.print(escape(" · ".join([report["neuron"], report["encode"], f"seed {report['seed']}"])))
    heads = ("steps", "accuracy", "undecided")
    rows = table(*heads, numbers=heads)
    for steps in shown_steps(len(report["steps"])):
        row = report["steps"][steps - 1]
        rows.add_row(str(steps), accuracy_text(row), count_text(row["undecided"]))
    console.print(rows)
    layers = table("layer", "neurons", "rate", "spikes", numbers=("neurons", "rate", "spikes"))
    for row in report["layers"]:
        layers.add_row(
            escape(row["layer"]), count_text(row["neurons"]), *map(significant, (row["rate"], row["spikes"]))
        )
    console.print(layers)
    console.print("[dim]95 % Wilson intervals · rate: spikes per neuron and step · spikes per image[/dim]")


def _steps(responses: Responses, labels: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    from weightsmith.spiking.simulation.responses import UNDECIDED

    correct = responses.correct(labels).sum(axis=0, dtype=np.int64)
    undecided = (responses.answers == UNDECIDED).sum(axis=0, dtype=np.int64)
    return accuracy_rows(correct, undecided, responses.images)


def _layers(network: SpikingNetwork, responses: Responses) -> list[dict[str, Any]]:
    rates, spikes = responses.rates(), responses.spikes()
    return [
        {
            "layer": node.layer or node.name,
            "population": node.name,
            "neurons": responses.units[node.name],
            "rate": rates[node.name],
            "spikes": spikes[node.name] / responses.images,
        }
        for node in network.populations
    ]
