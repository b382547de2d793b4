"""``weightsmith demo``: the house shown on embedded data, from an untrained network to a file that evaluates itself.

The fit below is the plainest loop there is; the ``training`` room takes its place when it is built.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from weightsmith.cli import evaluate, inspect, log
from weightsmith.cli.terminal import out

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.data import Data

__all__ = ["demo"]

_EPOCHS, _BATCH, _RATE, _DECAY = 40, 32, 0.1, 1e-4


def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and order.")] = 0,
) -> None:
    """Fit a small network to embedded digits, save it, read it back, inspect, evaluate and trace it."""
    import weightsmith as ws
    from weightsmith.core.records import Lineage
    from weightsmith.core.seeds import pinned_threads
    from weightsmith.core.storage import write_atomic
    from weightsmith.networks import build, weights_digest

    data = ws.data.load("digits")
    network = build("mlp:64,32", input_shape=data.input_shape, classes=len(data.classes), seed=seed)
    untrained = weights_digest(network)
    start = time.perf_counter()
    with pinned_threads(1):
        _fit(network, data, seed)
    seconds = time.perf_counter() - start
    _say(f"1. A network for {data.name} ({len(data.split('train'))} images), fitted in {seconds:.1f} s")
    path = ws.save(
        network,
        out_folder / "network.safetensors",
        input_shape=data.input_shape,
        normalisation=data.normalisation,
        classes=data.classes,
        lineage=Lineage(f"initialised (seed {seed})").then(f"fitted to {data.name}, {_EPOCHS} epochs", untrained),
    )
    _say(f"2. What is in the file:  weightsmith inspect {path}")
    inspect.inspect(path)
    _say(f"3. How good it is:  weightsmith evaluate {path} --data digits")
    result = ws.evaluate(ws.load(path), data)
    evaluate.show(result, str(path))
    write_atomic(out_folder / "evaluation.json", result.to_json(indent=2) + "\n")
    _say(f"4. Where it came from:  weightsmith log {path}")
    log.log(path)
    _say("Next: weightsmith data list · weightsmith networks list · weightsmith inspect on a file of yours")


def _say(line: str) -> None:
    out().print(f"\n[bold green]{escape(line)}[/bold green]")


def _fit(network: nn.Module, data: Data, seed: int) -> None:
    import torch

    from weightsmith.core.seeds import torch_stream

    part = data.split("train")
    inputs, order = data.normalisation.apply(part.x), torch_stream(seed, "order")
    optimiser = torch.optim.SGD(network.parameters(), lr=_RATE, momentum=0.9, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _EPOCHS)
    network.train()
    for _ in range(_EPOCHS):
        shuffled = torch.randperm(len(part), generator=order)
        for first in range(0, len(part), _BATCH):
            rows = shuffled[first : first + _BATCH]
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(inputs[rows]), part.y[rows])
            torch.autograd.backward(loss)
            optimiser.step()
        schedule.step()
    network.eval()
