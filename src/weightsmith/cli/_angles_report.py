"""The angles of a network's units in the terminal: an overview of its layers, and the nearest pairs of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from weightsmith.cli._reduction_report import files_line, gathered, named_line, named_lines
from weightsmith.cli.terminal import count_text, out, table

if TYPE_CHECKING:
    from weightsmith.reducing.inspecting import AnglesRecord, SiteAngles

__all__ = ["show_angles"]

_NAMED = 8  # units or groups that a line names


def show_angles(record: AnglesRecord, source: str, data: str, written: Sequence[Path]) -> None:
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
        for place, pair in enumerate(site.pairs):
            below = place < near
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
    """What would act on these angles."""
    angle = record.settings["angle"]
    if any(site.left < site.units for site in record.sites):
        return f"weightsmith reduce … --by angles:{angle:g}: takes out what stands beside another"
    if any(site.combined for site in record.sites):
        return f"weightsmith reduce … --by groups:{angle:g}: none is near to one other, some are to several together"
    return f"a larger --angle: no unit has another within {angle:g}°, nor within it of all others together"
