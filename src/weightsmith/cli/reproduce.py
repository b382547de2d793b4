"""``weightsmith reproduce``: published experiments, run again, with a verdict on every claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import out, print_json, progress_bar, table
from weightsmith.core.seeds import read_seeds

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="the experiment, or all; default: list them")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="seconds instead of minutes, on few rows of the embedded digits")
    ] = False,
    zoo: Annotated[
        bool, typer.Option("--zoo", help="allow heavy-tails to fetch public weights, pinned by their digests")
    ] = False,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="seeds other than the experiment's own: 0,1,2 or 0-9")
    ] = None,
    workers: given.Workers = 1,
    cluster: given.Cluster = None,
    data_path: given.DataPath = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder for the pages; the same command resumes there.")
    ] = Path("runs/reproduce"),
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Run published experiments again: every claim of four documents with our number, its interval and a verdict.

    Writes NAME.md, .csv, .json and .svg, and the pages over all results there, index.md and reproduction.html.
    """
    if name is None:
        _list(as_json)
    else:
        _experiments(
            name,
            quick,
            zoo,
            None if seeds is None else read_seeds(seeds),
            workers,
            cluster,
            data_path,
            out_folder,
            as_json,
            quiet,
        )


def _list(as_json: bool) -> None:
    from weightsmith.papers.reproduction import EXPERIMENTS, experiment

    found = [experiment(each) for each in EXPERIMENTS]
    if as_json:
        print_json(
            [
                {"name": each.name, "document": each.document, "claims": [claim.text for claim in each.claims]}
                for each in found
            ]
        )
        return
    rows = table(
        "name", "document", "claims", "CPU minutes", "what the document says", numbers=("claims", "CPU minutes")
    )
    for each in found:
        rows.add_row(each.name, each.document, str(len(each.claims)), f"{each.minutes:g}", escape(each.says))
    out().print(rows)


def _experiments(
    name: str,
    quick: bool,
    zoo: bool,
    seeds: Sequence[int] | None,
    workers: int,
    cluster: str | None,
    data_path: Path | None,
    folder: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    from weightsmith.papers.index import write_index
    from weightsmith.papers.reproduction import EXPERIMENTS, experiment, section
    from weightsmith.papers.reproduction import reproduce as run
    from weightsmith.reporting.terminal import show

    chosen = [experiment(each) for each in (EXPERIMENTS if name == "all" else [name])]
    if name == "all" and not (quick or zoo):
        chosen = [each for each in chosen if not each.fetches]
    results = []
    for each in chosen:
        plan = each.settings(quick)
        done, total = 0, len(plan.each) * len(plan.seeds if seeds is None else seeds)
        with progress_bar(each.name, quiet, "runs") as progress:

            def on_row(_row: dict[str, Any], progress: Any = progress, total: int = total) -> None:
                nonlocal done
                done += 1
                if progress is not None:
                    progress(done, total)

            made = run(
                each.name,
                quick=quick,
                zoo=zoo,
                seeds=seeds,
                workers=workers,
                cluster=cluster,
                path=data_path,
                out=folder,
                on_row=on_row,
            )
        results.append(made)
        if not as_json:
            show(section(made), out(), [folder / f"{each.name}.md"])
    index = write_index(folder)
    if as_json:
        print_json([made.to_dict() for made in results])
    elif len(chosen) > 1:
        out().print(f"[bold]all claims[/bold]  {escape(str(index))}")
