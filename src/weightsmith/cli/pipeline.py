"""``weightsmith pipeline recipe.toml --out DIR``: run a whole chain, from data to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weightsmith.chain import pipeline as verb
from weightsmith.cli import _shared_options as given
from weightsmith.cli._stages import chain_progress
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.terminal import print_json, say_note, show

__all__ = ["pipeline"]


@takes_options_of(verb.pipeline, examples=("weightsmith pipeline recipe.toml --out runs/chain",))
def pipeline(
    file: Annotated[
        Path, typer.Argument(metavar="RECIPE", readable=False, help="a recipe in TOML (weightsmith recipe new)")
    ],
    out_folder: Annotated[Path, typer.Option("--out", help="folder for all results; the same command resumes there")],
    options: Options,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Run a recipe (train, grade, reduce, spike): each result in its own folder, and one page on all of them.

    The recipe is checked before anything runs. If it is killed or interrupted, the same command resumes.
    """
    from weightsmith.chain.section import as_dict
    from weightsmith.reporting.describe import describe

    try:
        with warnings_as_notes(), chain_progress("pipeline", quiet) as progress:
            chain = verb.pipeline(file, out_folder, **options, progress=progress)
    except KeyboardInterrupt:
        say_note(f"finished stages are kept in {out_folder}: the same command resumes")
        raise
    if as_json:
        print_json(as_dict(chain))
        return
    show(describe(chain))
