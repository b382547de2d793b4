"""``weightsmith angles NETWORK --data NAME``: units of a network with nearly the same or opposite activations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.cli import _shared_options as given
from weightsmith.cli._figure_files import check_writable, hold, is_stdout, write_csv, write_figures
from weightsmith.cli._spike_records import data_of
from weightsmith.cli._verb_options import Options, takes_options_of
from weightsmith.cli.reduce import ACTIVATIONS, loaded
from weightsmith.cli.terminal import print_json, progress_bar, show
from weightsmith.core.csv_text import csv_text
from weightsmith.reducing import inspecting as verb

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles

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
    options: Options,
    data: given.DataOrRecord = None,
    network: given.WhatNetwork = None,
    normalise: given.HowNormalised = None,
    data_path: given.DataPath = None,
    out_folder: given.Out = None,
    csv: given.Csv = None,
    figures: given.Figures = None,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """List the closest pairs of units in every layer, and the units that others could replace."""
    from weightsmith.data.datasets import load_all
    from weightsmith.reporting.describe import describe

    check_writable(csv, figures, out_folder, as_json=as_json)
    hold(out_folder)
    known = load_all(data_of(file, data, quiet, what_for=ACTIVATIONS), path=data_path)
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
