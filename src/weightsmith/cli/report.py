"""``weightsmith report RUN… --out report.html``: one page of any number of results, made from their records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_targets, hold
from weightsmith.cli.terminal import Attention, out, print_json, say_note, table
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.storage import reading, write_atomic

__all__ = ["report"]

_HEAD, _GENERATOR = (
    4096,
    b'<meta name="generator" content="weightsmith ',
)  # leading bytes of a page that name its generator


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            readable=False,
            help="Result folders (what --out of a command wrote), their record.json, or folders of such folders.",
        ),
    ],
    page: Annotated[Path, typer.Option("--out", help="The page, one self-contained file.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    as_json: given.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write a page of results: what was done, the accuracy, size and cost of the networks, and every result.

    Results are ordered and related by the digests of their networks. Only records are read. Exit code 1 if some of
    them cannot be read: the page then shows the others and lists what was left out.
    """
    from weightsmith.chain.reading.results import KINDS
    from weightsmith.chain.report import gather, report_page

    check_targets({"--out": page}, {})
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {page}: the report is an HTML page; give it a name that ends in .html")
    _check_ours(page)
    hold(file=page)
    refused: list[FileRefused] = []
    results = gather(runs, refused)
    write_atomic(page, report_page(results, title, [str(error) for error in refused]))
    size = page.stat().st_size
    if as_json:
        entries = [
            {"name": each.name, "kind": KINDS[type(each.record)], "digest": each.record.digest()} for each in results
        ]
        left_out = [str(error) for error in refused]
        print_json({"file": str(page), "bytes": size, "results": entries, "left_out": left_out})
    elif not quiet:
        rows = table("result", "what it is")
        for each in results:
            rows.add_row(escape(each.name), KINDS[type(each.record)])
        out().print(rows)
        count = f"{len(results)} result{'' if len(results) == 1 else 's'}"
        out().print(f"[bold]{escape(str(page))}[/bold]  {count}, {size / 1e6:.1f} MB; open it in a browser")
    for error in refused[1:] if not quiet else ():
        say_note(f"left out: {error}")
    if refused:
        more = f" (and {len(refused) - 1} more)" if refused[1:] else ""
        raise Attention(f"left out of the page: {refused[0]}{more}")


def _check_ours(page: Path) -> None:
    """Refuse to overwrite a page that weightsmith did not write."""
    if not page.exists():
        return
    with reading(page), page.open("rb") as file:
        head = file.read(_HEAD)
    if head and _GENERATOR not in head:
        raise UsageError(
            f"--out {page} is not a page of weightsmith and would be overwritten: give another name, or remove it"
        )
