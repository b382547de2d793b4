"""``weightsmith demo``: the whole chain and a tailored network in about a minute, on embedded or on real data."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weightsmith.cli import _shared_options as given
from weightsmith.cli._stages import chain_progress
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli.terminal import print_json, say_note, show

if TYPE_CHECKING:
    from weightsmith.chain.results import ChainRun
    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.core.progress import ProgressCallback

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
        typer.Option(help="digits is embedded; the others train a CNN and need the data and the extra prune."),
    ] = "digits",
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder for the files (demo, or demo-DATA).")] = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Train a network, grade it, reduce it, convert it to a spiking one, tailor it to limits, and report."""
    from weightsmith.chain.recipe import example
    from weightsmith.chain.section import as_dict
    from weightsmith.core.storage import write_atomic
    from weightsmith.reporting.describe import describe
    from weightsmith.reporting.parts import Notes, Prose

    folder = out_folder or Path("demo" if data == "digits" else f"demo-{data}")
    text = example(data)
    try:
        with warnings_as_notes(shown=False), chain_progress("demo", quiet) as progress:
            chain, tailored = _run(text, folder, _LIMITS[data], progress)
    except KeyboardInterrupt:
        say_note(f"finished stages are kept in {folder}: the same command resumes")
        raise
    recipe = write_atomic(folder / "recipe.toml", text)
    if as_json:
        print_json(as_dict(chain) | {"tailored": tailored.record.to_dict()})
        return
    description = describe(chain, chain.record.recipe["title"])
    kept = tuple(part for part in description.parts if not isinstance(part, Notes))  # they are in the report
    found = Prose(f"{_TAILORED}: {describe(tailored, _TAILORED).lead}")
    following = (*description.try_next, *_next(chain, recipe, data))
    show(dataclasses.replace(description, parts=(*kept, found), try_next=following))


def _run(
    text: str, folder: Path, limits: dict[str, Any], progress: ProgressCallback | None
) -> tuple[ChainRun, Tailored]:
    """Run the recipe, tailor its network to the limits, and write a page on both."""
    from weightsmith.chain.pipeline import pipeline
    from weightsmith.chain.recipe import Recipe
    from weightsmith.chain.report import report
    from weightsmith.chain.tailor.tailoring import tailor

    recipe = Recipe.parse(text)
    chain = pipeline(dataclasses.replace(recipe, report=False), folder, progress=progress)
    tailored = tailor(chain.place("train"), recipe.data, **limits, out=folder / _TAILORED, progress=progress)
    page = report([folder, folder / _TAILORED], folder / "report.html", title=recipe.title)
    return dataclasses.replace(chain, page=page), tailored


def _next(chain: ChainRun, recipe: Path, data: str) -> tuple[str, ...]:
    folder = chain.folder
    return (
        f"weightsmith tailor {folder}/train --data {data} --bytes 10% --accuracy -3 --out runs/tailored",
        f"weightsmith tailor {folder}/train --data {data} --energy 20% --spiking --out runs/spiking",
        f"weightsmith diff {folder}/train {folder}/{_TAILORED} --data {data}",
        f"weightsmith pipeline {recipe} --out runs/mine   (edit it first)",
    )
