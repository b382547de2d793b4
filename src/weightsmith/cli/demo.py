"""``weightsmith demo``: the whole chain on embedded data, from an untrained network to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._chain_report import as_dict, chain_progress, show_chain
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli.terminal import out, print_json, say_note

if TYPE_CHECKING:
    from weightsmith.chain.results import ChainRun
    from weightsmith.core.statistics import Comparison

__all__ = ["demo"]


def demo(
    data: Annotated[
        Literal["digits", "fashion-mnist"],
        typer.Option(help="digits is embedded; fashion-mnist trains a CNN, needs the data and the extra prune."),
    ] = "digits",
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder for the files (demo, or demo-DATA).")] = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train a network, grade it, reduce it twice, convert it with and without the L4 adjustment, and report."""
    from weightsmith.chain.pipeline import pipeline
    from weightsmith.chain.recipe import example
    from weightsmith.core.storage import write_atomic

    folder = out_folder or Path("demo" if data == "digits" else f"demo-{data}")
    text = example(data)
    try:
        with warnings_as_notes(shown=False), chain_progress("demo", quiet) as progress:
            chain = pipeline(text, folder, progress=progress)
    except KeyboardInterrupt:
        say_note(f"the stages done are kept in {folder}: the same command goes on")
        raise
    recipe = write_atomic(folder / "recipe.toml", text)
    if as_json:
        print_json(as_dict(chain))
        return
    out().print(f"[bold green]{escape(_TITLE[data])}[/bold green]\n")
    show_chain(chain, notes=False)  # they are in the report
    _say_findings(chain)
    _say_next(chain, recipe)


_TITLE = {
    "digits": "One chain on 1,797 handwritten digits: train, grade, reduce, spike, report",
    "fashion-mnist": "One chain on Fashion-MNIST: train, grade, reduce, spike, report",
}


def _say_findings(chain: ChainRun) -> None:
    """The findings in sentences."""
    from weightsmith.chain.reading.results import read_record
    from weightsmith.reducing.results import ReductionRecord
    from weightsmith.spiking.results import SpikeRecord

    out().print()
    for stage in chain.record.stages:
        record = read_record(chain.folder / stage.folder / "record.json")
        if isinstance(record, ReductionRecord):
            share = record.reduced.parameters / record.whole.parameters
            text = (
                f"{stage.name} keeps {share:.0%} of the parameters; its accuracy differs by "
                f"{_points(record.measured.cost)} from the whole network's"
            )
        elif isinstance(record, SpikeRecord) and record.cost.ratio is not None:
            text = (
                f"{stage.name} differs after {record.steps} steps by {_points(record.decisions.cost)} from the network "
                f"it was made from, at {record.cost.ratio:.2g} times its energy"
            )
        else:
            continue
        out().print(f"• {escape(text)}")


def _points(cost: Comparison) -> str:
    """``-1.4 points (-2.9 to +0.1, paired)``."""
    between = cost.interval
    span = "" if between is None else f" ({100 * between.low:+.1f} to {100 * between.high:+.1f}, paired)"
    return f"{100 * cost.difference:+.1f} points{span}"


def _say_next(chain: ChainRun, recipe: Path) -> None:
    folder, data = escape(str(chain.folder)), escape(chain.record.recipe["data"])
    out().print(f"\n[bold]{escape(str(chain.page))}[/bold] shows all of it: open it in a browser. Try next:")
    for line in (
        f"weightsmith log {folder}",
        f"weightsmith diff {folder}/train {folder}/by-angles --data {data}",
        f"weightsmith tailor {folder}/train --data {data} --params 30% --energy 50% --out runs/tailored",
        f"weightsmith pipeline {escape(str(recipe))} --out runs/mine   (edit it first)",
    ):
        out().print(f"  {line}")
