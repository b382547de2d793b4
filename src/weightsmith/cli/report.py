"""``weightsmith report RUN… --out report.html``: one page of any number of results, made from their records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weightsmith.cli import _training_options as given
from weightsmith.cli.grade import check_targets
from weightsmith.cli.terminal import out, print_json, table
from weightsmith.core.errors import UsageError

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            readable=False,
            help="Result folders (what --out of a command wrote), their record.json, or folders of such folders.",
        ),
    ],
    page: Annotated[Path, typer.Option("--out", help="The page, one file that needs nothing else.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(help="What stands at the top of the page.")] = None,
    as_json: given.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write a page of results: what was done, how right, large and costly the networks are, and every result.

    Results are put in order, and into relation, by the digests of their networks. Only records are read.
    """
    from weightsmith.chain.reading import KINDS
    from weightsmith.chain.report import gather, report_page
    from weightsmith.core.storage import write_atomic

    check_targets({"--out": page}, {})
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {page}: the report is a page; give it a name that ends in .html")
    results = gather(runs)
    write_atomic(page, report_page(results, title))
    size = page.stat().st_size
    if as_json:
        told = [
            {"name": each.name, "kind": KINDS[type(each.record)], "digest": each.record.digest()} for each in results
        ]
        print_json({"file": str(page), "bytes": size, "results": told})
    elif not quiet:
        rows = table("result", "what it is")
        for each in results:
            rows.add_row(escape(each.name), KINDS[type(each.record)])
        out().print(rows)
        count = f"{len(results)} result{'' if len(results) == 1 else 's'}"
        out().print(f"[bold]{escape(str(page))}[/bold]  {count}, {size / 1e6:.1f} MB; open it in a browser")
