"""``weightsmith demo``: the whole chain on embedded data, from an untrained network to a report."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weightsmith.chain.pipeline import pipeline
from weightsmith.cli import _shared_options as given
from weightsmith.cli._stages import chain_progress
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli.terminal import print_json, say_note, show

if TYPE_CHECKING:
    from weightsmith.chain.results import ChainRun

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
    from weightsmith.chain.recipe import example
    from weightsmith.chain.section import as_dict
    from weightsmith.core.storage import write_atomic
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.parts import Notes

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
    description = describe(chain, _TITLE[data])
    kept = tuple(part for part in description.parts if not isinstance(part, Notes))  # they are in the report
    following = (*description.try_next, *_next(chain, recipe))
    show(dataclasses.replace(description, parts=kept, try_next=following))


_TITLE = {
    "digits": "One chain on 1,797 handwritten digits: train, grade, reduce, spike, report",
    "fashion-mnist": "One chain on Fashion-MNIST: train, grade, reduce, spike, report",
}


def _next(chain: ChainRun, recipe: Path) -> tuple[str, ...]:
    folder, data = chain.folder, chain.record.recipe["data"]
    return (
        f"weightsmith log {folder}",
        f"weightsmith diff {folder}/train {folder}/by-angles --data {data}",
        f"weightsmith tailor {folder}/train --data {data} --params 30% --energy 50% --out runs/tailored",
        f"weightsmith pipeline {recipe} --out runs/mine   (edit it first)",
    )
