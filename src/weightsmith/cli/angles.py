"""``weightsmith angles NETWORK --data NAME``: units of a network with nearly the same or opposite activations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weightsmith.cli import _training_options as given
from weightsmith.cli._figure_files import check_writable, write_figures
from weightsmith.cli.reduce import loaded
from weightsmith.cli.terminal import print_json, progress_bar, show
from weightsmith.core.csv_text import csv_text
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles

__all__ = ["angles"]


def angles(
    file: Annotated[Path, typer.Argument(metavar="NETWORK", readable=False, help="A network file or result folder.")],
    data: Annotated[str, typer.Option(help="A data set by name (weightsmith data list), folder:PATH or table:PATH.")],
    layers: Annotated[
        list[str] | None, typer.Option(help="Only layers whose name fits this pattern, as 'dense*'; may be repeated.")
    ] = None,
    angle: Annotated[
        float, typer.Option(help="Degrees below which units are similar, and from 180° complementary.")
    ] = 15.0,
    centre: Annotated[
        str,
        typer.Option(help="What activations are measured from: auto (by activation), mean, none or a number."),
    ] = "auto",
    short: Annotated[
        float, typer.Option(help="Name units whose vector is shorter than this share of the median; 0: none.")
    ] = 0.1,
    top: Annotated[int, typer.Option(min=0, help="Nearest pairs listed of each layer.")] = 20,
    rows: Annotated[int | None, typer.Option(min=1, help="Training rows that are looked at (all).")] = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for record.json and arrays.npz, which a report is made of.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the listed pairs as CSV.")] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Draw heat map and tree of each layer into this folder, or as FILE.svg, .png, .pdf."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows that --rows draws.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Rows at a time when the network is run.")] = 256,
    threads: given.Threads = 1,
    device: given.Device = "cpu",
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """List the nearest pairs of units of every layer, and the units that others could stand in for."""
    from weightsmith.data.datasets import load_all
    from weightsmith.reducing.criteria.angles import Angles
    from weightsmith.reducing.inspecting import angles as run
    from weightsmith.reporting.describe import describe

    Angles(angle, centre=centre)  # report a wrong option before data are read
    check_writable(csv, figures, out_folder)
    known = load_all(data, path=data_path)
    module = loaded(file, known, network, normalise, quiet)
    with progress_bar("angles", quiet) as progress:
        found = run(
            module,
            known,
            angle=angle,
            centre=centre,
            short=short,
            top=top,
            layers=layers or None,
            rows=rows,
            seed=seed,
            batch=batch,
            threads=threads,
            device=device,
            progress=progress,
        )
    written = [] if csv is None else [write_atomic(csv, _as_csv(found.record))]
    if figures is not None:
        written += _draw(figures, found)
    if out_folder is not None:
        from weightsmith.chain.reading._stored_angles import write_angles

        written += write_angles(out_folder, found)
    if as_json:
        print_json({**found.record.to_dict(), "files": [str(path) for path in written]})
        return
    show(describe(found.record, str(file)), written)


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
