"""``weightsmith pipeline recipe.toml --out DIR``: run a whole chain, from data to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._chain_report import as_dict, chain_progress, show_chain
from weightsmith.cli._training_options import warnings_as_notes
from weightsmith.cli.terminal import out, print_json, say_note

__all__ = ["pipeline"]


def pipeline(
    file: Annotated[
        Path, typer.Argument(metavar="RECIPE", readable=False, help="A recipe in TOML (weightsmith recipe new).")
    ],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for all results; the same command goes on in it.")],
    allow_code: given.AllowCode = False,
    threads: given.Threads = 1,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Carry out a recipe: train, grade, reduce, spike, with every result in a folder of its own and one page of all.

    The recipe is checked before anything runs. Killed or interrupted, the same command goes on.
    """
    from weightsmith.chain.pipeline import pipeline as run

    try:
        with warnings_as_notes(), chain_progress("pipeline", quiet) as progress:
            chain = run(file, out_folder, allow_code=allow_code, threads=threads, progress=progress)
    except KeyboardInterrupt:
        say_note(f"the stages done are kept in {out_folder}: the same command goes on")
        raise
    if as_json:
        print_json(as_dict(chain))
        return
    show_chain(chain)
    if chain.page is not None:
        out().print(f"[bold]{escape(str(chain.page))}[/bold] shows all of it: open it in a browser")
