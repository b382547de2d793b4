"""``weightsmith data``: list the data sets, describe them, and download them on request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from weightsmith.cli._row_shares import takes_shares
from weightsmith.cli.terminal import count_text, help_without_command, out, print_json, progress_bar, table

if TYPE_CHECKING:
    from weightsmith.data import Data, Known, Split

__all__ = ["app", "fetch", "info", "list_sets"]

app = typer.Typer(help="Data sets: list, describe, fetch.", invoke_without_command=True)
app.callback()(help_without_command)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_sets(as_json: Json = False) -> None:
    """List the data sets by name and whether they were found."""
    from weightsmith.data import known

    sets = known()
    if as_json:
        print_json([one.to_dict() for one in sets])
        return
    rows = table(
        "name", "input", "classes", "train", "test", "here", "what it is", numbers=("classes", "train", "test")
    )
    for one in sets:
        rows.add_row(
            one.name,
            "×".join(map(str, one.shape)),
            str(len(one.classes) or ""),
            *(count_text(one.sizes[split]) if split in one.sizes else "" for split in ("train", "test")),
            "yes" if one.found else "no" if one.shape else "",
            escape(one.description),
        )
    out().print(rows)


@app.command("info")
@partial(takes_shares, of_data="name")
def info(
    name: Annotated[str, typer.Argument(help="A data set by name, folder:PATH, table:PATH, parquet:PATH or a path.")],
    as_json: Json = False,
) -> None:
    """Describe data: shape, classes, sizes, normalisation; for a known set also its files and where they were found."""
    from weightsmith.data import known

    one = next((each for each in known() if each.name == name), None)
    if one is None:
        _show_own(name, as_json)
        return
    if as_json:
        print_json(one.to_dict())
        return
    console = out()
    console.print(f"[bold]{one.name}[/bold]  {escape(one.description)}")
    console.print(f"input          {' × '.join(map(str, one.shape))}")
    console.print(f"sizes          {', '.join(f'{split} {count_text(size)}' for split, size in one.sizes.items())}")
    console.print(f"classes        {len(one.classes)}: {escape(', '.join(one.classes))}")
    console.print(f"normalisation  {one.normalisation}")
    if one.files:
        console.print(f"files          {escape(', '.join(one.files))}")
    console.print(f"found          {escape(', '.join(one.found)) or _missing(one)}")


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="A data set by name.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Download a data set into the cache: resumable, pinned by SHA-256."""
    from weightsmith.data import fetch_data

    with progress_bar(f"fetch {name}", quiet, unit="bytes") as progress:
        callback = None if progress is None else lambda _file, done, total: progress(done, total or max(done, 1))
        folder = fetch_data(name, progress=callback)
    out().print(f"{name} is in {escape(str(folder))}")


def _show_own(name: str, as_json: bool) -> None:
    """Read and describe the user's own data, with notes on what was guessed and what was left out."""
    from weightsmith.data.datasets import load_all
    from weightsmith.data.targets import Kind

    data = load_all(name)
    sizes = {split: len(part) for split, part in data.splits.items()}
    what = {Kind.CLASSES: "classes", Kind.LABELS: "labels", Kind.VALUES: "values"}[data.kind]
    rows = {} if data.kind is Kind.VALUES else {split: _rows_of(part, data) for split, part in data.splits.items()}
    if as_json:
        print_json(
            {
                "name": data.name,
                "shape": list(data.input_shape),
                "task": data.kind.value,
                "classes": list(data.classes),
                "sizes": sizes,
                "rows_of_classes": rows,
                "normalisation": str(data.normalisation),
                "notes": list(data.notes),
            }
        )
        return
    console = out()
    console.print(f"[bold]{escape(data.name)}[/bold]")
    console.print(f"input          {' × '.join(map(str, data.input_shape))}")
    console.print(f"sizes          {', '.join(f'{split} {count_text(size)}' for split, size in sizes.items())}")
    console.print(f"{what:<14} {len(data.classes)}: {escape(', '.join(data.classes))}")
    each = "label" if data.kind is Kind.LABELS else "class"
    for split, counts in rows.items():
        console.print(f"{split:<14} {', '.join(map(count_text, counts))} of each {each}")
    console.print(f"normalisation  {data.normalisation}")
    for note in data.notes:
        console.print(f"note           {escape(note)}")


def _rows_of(part: Split, data: Data) -> list[int]:
    """The rows of each class, or with each label."""
    counts = part.y.sum(0) if part.y.ndim == 2 else part.y.bincount(minlength=len(data.classes))
    return [int(count) for count in counts]


def _missing(one: Known) -> str:
    if one.download_bytes is None:
        return "nowhere: give a path of your own"
    return f"nowhere; weightsmith data fetch {one.name} downloads {one.download_bytes / 1e6:,.0f} MB"
