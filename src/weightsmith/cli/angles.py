"""``weightsmith angles NETWORK --data NAME``: units of a network with nearly the same or opposite activations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, is_stdout, write_csv, write_figures
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import (
    count_text,
    files_line,
    named_line,
    named_lines,
    out,
    print_json,
    progress_bar,
    table,
)
from weightsmith.core.csv_text import csv_text
from weightsmith.reducing import inspecting as verb
from weightsmith.reporting.sections._wording import gathered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.reducing.inspecting import AnglesRecord, SiteAngles, UnitAngles

__all__ = ["angles"]


@takes_options_of(
    verb.angles,
    examples=(
        "weightsmith angles runs/net --data digits --angle 20 --out runs/angles",
        "weightsmith angles runs/net --data digits --layers 'dense*' --figures figures",
    ),
)
def angles(
    file: given.NetworkFile,
    data: given.DataOption,
    options: Options,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    csv: given.Csv = None,
    figures: given.Figures = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """List the nearest pairs of units of every layer, and the units that others could stand in for."""
    from weightsmith.data.datasets import load_all

    check_writable(csv, figures, out_folder, as_json=as_json)
    known = load_all(data, path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    with progress_bar("angles", quiet) as progress:
        found = verb.angles(module, known, **options, progress=progress)
    written = [] if csv is None else write_csv(csv, _as_csv(found.record))
    if figures is not None:
        written += _draw(figures, found)
    if out_folder is not None:
        from weightsmith.chain.reading._stored_angles import write_angles

        written += write_angles(out_folder, found)
    if as_json:
        print_json({**found.record.to_dict(), "files": [str(path) for path in written]})
        return
    if not is_stdout(csv):
        _show_angles(found.record, str(file), known.name, written)


def _as_csv(record: AnglesRecord) -> str:
    rows = (
        (site.name, pair.a, pair.b, pair.degrees, pair.kind, index < site.similar + site.complementary)
        for site in record.sites
        for index, pair in enumerate(site.pairs)
    )
    return csv_text(("layer", "a", "b", "degrees", "kind", "below"), rows)


def _draw(target: Path, found: UnitAngles) -> list[Path]:
    from weightsmith.reporting.figures.angles import draw_angles, draw_dendrogram

    threshold = found.record.settings["angle"]
    figures: dict[str, Callable[[], Figure]] = {}

    def draw(how: Callable[..., Figure], site: str) -> Figure:
        return how(found.degrees(site), layer=site, threshold=threshold)

    for number, site in enumerate(found.record.sites, 1):
        plain = re.sub(r"[^\w.-]+", "_", site.name)[:80]
        name = f"{number:03d}-{plain}"
        figures[f"{name}-angles"] = functools.partial(draw, draw_angles, site.name)
        if site.units > 1:
            figures[f"{name}-tree"] = functools.partial(draw, draw_dendrogram, site.name)
    return write_figures(target, figures)


# Print the angles: an overview of the layers, and the nearest pairs of each.


_NAMED = 8  # units or groups that a line names


def _show_angles(record: AnglesRecord, source: str, data: str, written: Sequence[Path]) -> None:
    """Print all sites in one table, then the nearest pairs of each."""
    console, settings = out(), record.settings
    console.print(f"[bold]{escape(source)}[/bold]  {escape(record.network)} on {escape(data)}")
    degrees = f"{settings['angle']:g}°"
    console.print(
        f"angles of activations over the training rows, similar below {degrees}, complementary above "
        f"{180 - settings['angle']:g}°"
    )
    console.print(_overview(record.sites))
    console.print(f"[dim]{_legend(degrees)}[/dim]")
    for site in record.sites:
        _show_site(site, degrees)
    notes = gathered((note, site.name) for site in record.sites for note in site.notes)
    obstacles = gathered((reason, name) for name, reason in record.obstacles.items())
    for line in (*named_lines("note", notes), *named_lines("never cut", obstacles)):
        console.print(line)
    console.print(named_line("try next", escape(_next(record))))
    if written:
        console.print(files_line(written))


def _overview(sites: Sequence[SiteAngles]) -> Table:
    heads = ("units", "from", "similar", "compl.", "const.", "short", "joint", "left")
    rows = table("layer", *heads, "nearest", numbers=(*heads, "nearest"))
    rows.padding = (0, 1, 0, 0)
    for site in sites:
        counts = (site.similar, site.complementary, len(site.constant), len(site.short), len(site.combined), site.left)
        near = f"{site.pairs[0].degrees:.1f}°" if site.pairs else "–"
        rows.add_row(escape(site.name), str(site.units), site.centre, *map(count_text, counts), near)
    return rows


def _legend(degrees: str) -> str:
    return (
        f"from: what activations are measured from · similar, compl.: pairs within {degrees} of 0° and 180° · const., "
        f"short: units · joint: units within {degrees} of the others together · "
        f"left: units that angles:{degrees[:-1]} leaves"
    )


def _show_site(site: SiteAngles, degrees: str) -> None:
    console = out()
    about = [
        f"{site.units} units",
        *([site.activation] if site.activation else []),
        f"{count_text(site.entries)} values each",
    ]
    console.print(f"\n[bold]{escape(site.name)}[/bold]  {', '.join(about)}")
    if site.pairs:
        rows = table("units", "angle", "kind", "", numbers=("angle",))
        near = site.similar + site.complementary
        for index, pair in enumerate(site.pairs):
            below = index < near
            style = "" if below else "dim"
            rows.add_row(
                f"{pair.a}, {pair.b}", f"{pair.degrees:.2f}°", pair.kind, "" if below else "beyond", style=style
            )
        console.print(rows)
        if near > len(site.pairs):
            console.print(f"[dim]and {near - len(site.pairs):,} more within {degrees} (--top {near})[/dim]")
    groups = ["+".join(map(str, group)) for group in site.groups]
    for name, items in (
        ("groups", groups),
        ("joint", site.combined),
        ("constant", site.constant),
        ("short", site.short),
    ):
        if items:
            more = f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
            console.print(named_line(name, f"{len(items)}: {', '.join(map(str, items[:_NAMED]))}{more}"))


def _next(record: AnglesRecord) -> str:
    """A command that acts on these angles."""
    angle = record.settings["angle"]
    if any(site.left < site.units for site in record.sites):
        return f"weightsmith reduce … --by angles:{angle:g}: takes out what stands beside another"
    if any(site.combined for site in record.sites):
        return f"weightsmith reduce … --by groups:{angle:g}: none is near to one other, some are to several together"
    return f"a larger --angle: no unit has another within {angle:g}°, nor within it of all others together"
