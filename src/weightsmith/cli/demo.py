"""``weightsmith demo``: train a network, take it apart, tailor it to limits, and see what that cost on one page."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._chain_report import as_dict, chain_progress, show_chain
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli.terminal import out, print_json, say_note

if TYPE_CHECKING:
    from weightsmith.chain.results import ChainRun
    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.core.progress import ProgressCallback
    from weightsmith.core.statistics import Comparison

__all__ = ["demo"]

_LIMITS: dict[str, dict[str, Any]] = {
    "digits": {"params": "25%", "energy": "2%", "accuracy": -3},
    "fashion-mnist": {"params": "50%", "energy": "3%", "accuracy": -2},
    "cifar10": {"params": "50%", "energy": "3%", "accuracy": -2},
}
_TAILORED = "tailored"


def demo(
    data: Annotated[
        Literal["digits", "fashion-mnist", "cifar10"],
        typer.Option(help="digits is embedded; the others train a CNN, need the data and the extra prune."),
    ] = "digits",
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder for the files (demo, or demo-DATA).")] = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train a network, grade it, cut it, convert it to few steps, tailor it to limits, and report."""
    from weightsmith.chain.recipe import example
    from weightsmith.core.storage import write_atomic

    folder = out_folder or Path("demo" if data == "digits" else f"demo-{data}")
    text = example(data)
    try:
        with warnings_as_notes(shown=False), chain_progress("demo", quiet) as progress:
            chain, tailored = _run(text, folder, _LIMITS[data], progress)
    except KeyboardInterrupt:
        say_note(f"the stages done are kept in {folder}: the same command goes on")
        raise
    recipe = write_atomic(folder / "recipe.toml", text)
    if as_json:
        print_json(as_dict(chain) | {"tailored": tailored.record.to_dict()})
        return
    out().print(f"[bold green]{escape(chain.record.recipe['title'])}[/bold green]\n")
    show_chain(chain, notes=False)  # they are in the report
    _say_findings(chain, tailored)
    _say_next(chain, recipe, data)


def _run(
    text: str, folder: Path, limits: dict[str, Any], progress: ProgressCallback | None
) -> tuple[ChainRun, Tailored]:
    """The chain of the recipe, its network tailored to the limits, and a page of all of it."""
    from weightsmith.chain.pipeline import pipeline
    from weightsmith.chain.recipe import Recipe
    from weightsmith.chain.report import report
    from weightsmith.chain.tailor.tailoring import tailor

    recipe = Recipe.parse(text)
    chain = pipeline(dataclasses.replace(recipe, report=False), folder, progress=progress)
    tailored = tailor(chain.place("train"), recipe.data, **limits, out=folder / _TAILORED, progress=progress)
    page = report([folder, folder / _TAILORED], folder / "report.html", title=recipe.title)
    return dataclasses.replace(chain, page=page), tailored


def _say_findings(chain: ChainRun, tailored: Tailored) -> None:
    """The findings in sentences, each accuracy with its rows."""
    from weightsmith.chain.reading.results import read_record
    from weightsmith.reducing.results import ReductionRecord
    from weightsmith.reporting.describe import describe
    from weightsmith.spiking.results import SpikeRecord

    out().print()
    for stage in chain.record.stages:
        record = read_record(chain.folder / stage.folder / "record.json")
        if isinstance(record, ReductionRecord):
            share = record.reduced.parameters / record.whole.parameters
            text = (
                f"{stage.name} keeps {share:.0%} of the parameters; its accuracy differs by "
                f"{_points(record.measured.cost)} from the whole network's, nothing having been trained"
            )
        elif isinstance(record, SpikeRecord) and record.cost.ratio is not None:
            steps = f"{record.steps} step{'s' * (record.steps != 1)}"
            text = (
                f"{stage.name} ({record.settings['neuron']}) differs after {steps} by {_points(record.decisions.cost)} "
                f"from the network it was made from, at {record.cost.ratio:.2g} times its energy"
            )
        else:
            continue
        out().print(f"• {escape(text)}")
    out().print(f"• [bold]{_TAILORED}[/bold]: {escape(describe(tailored, _TAILORED).lead)}")


def _points(cost: Comparison) -> str:
    """``-1.4 points (-2.9 to +0.1, paired, 360 rows)``."""
    between = cost.interval
    span = "" if between is None else f"{100 * between.low:+.1f} to {100 * between.high:+.1f}, paired, "
    return f"{100 * cost.difference:+.1f} points ({span}{cost.n:,} rows)"


def _say_next(chain: ChainRun, recipe: Path, data: str) -> None:
    folder = escape(str(chain.folder))
    out().print(f"\n[bold]{escape(str(chain.page))}[/bold] shows all of it: open it in a browser. Try next:")
    for line in (
        f"weightsmith tailor {folder}/train --data {data} --bytes 10% --accuracy -3 --out runs/tailored",
        f"weightsmith tailor {folder}/train --data {data} --energy 20% --spiking --out runs/spiking",
        f"weightsmith diff {folder}/train {folder}/{_TAILORED} --data {data}",
        f"weightsmith pipeline {escape(str(recipe))} --out runs/mine   (edit it first)",
    ):
        out().print(f"  {line}")
