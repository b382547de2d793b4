"""``weightsmith demo``: the house shown on embedded data, from an untrained network to a file that evaluates itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weightsmith.cli import evaluate, inspect, log
from weightsmith.cli.terminal import out
from weightsmith.cli.training_report import epoch_table

__all__ = ["demo"]

_NETWORK, _SCHEDULE, _STOP, _EPOCHS, _VALIDATION = "mlp:64,32", "cosine:0.1", "early:10", 30, 0.1


def demo(
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for the files.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and order.")] = 0,
) -> None:
    """Train a small network on embedded digits, save it, read it back, inspect, evaluate and trace it."""
    import weightsmith as ws
    from weightsmith.core.storage import write_atomic
    from weightsmith.training.loop import train

    data = ws.data.load("digits")
    start = time.perf_counter()
    # Without out=: a demo begins anew each time, also after another one in the same folder.
    run = train(_NETWORK, data, schedule=_SCHEDULE, stop=_STOP, epochs=_EPOCHS, validation=_VALIDATION, seed=seed)
    seconds = time.perf_counter() - start
    command = f"train digits --network {_NETWORK} --schedule {_SCHEDULE} --stop {_STOP} --epochs {_EPOCHS}"
    _say(f"1. A network for {data.name}, trained in {seconds:.1f} s:  weightsmith {command}")
    out().print(epoch_table(run.history, run.record.best_epoch))
    out().print(escape(run.record.reason))
    if run.gradients is not None:
        out().print(escape(run.gradients.sentence))
    path = ws.save(run.network, out_folder / "network.safetensors")
    write_atomic(out_folder / "record.json", run.record.to_json(indent=1) + "\n")
    _say(f"2. What is in the file:  weightsmith inspect {path}")
    inspect.inspect(path)
    _say(f"3. How good it is:  weightsmith evaluate {path} --data digits")
    result = ws.evaluate(ws.load(path), data)
    evaluate.show(result, str(path))
    write_atomic(out_folder / "evaluation.json", result.to_json(indent=2) + "\n")
    _say(f"4. Where it came from:  weightsmith log {path}")
    log.log(path)
    _say("Next: weightsmith train digits --out runs/first · weightsmith data list · weightsmith networks list")


def _say(line: str) -> None:
    out().print(f"\n[bold green]{escape(line)}[/bold green]")
