"""Grades as one HTML page that needs nothing else: no network, no other file, no script to be read.

Names of layers and networks come from files and may hold anything. Jinja escapes all of them, and the page's own policy
allows no script but the one it came with, by its digest, and no address to load anything from.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weightsmith._version import __version__
from weightsmith.core.errors import UsageError
from weightsmith.grading.comparison import GradeComparison, compare
from weightsmith.grading.results import Coverage, Grades, LayerGrade, Measure, VerdictKind
from weightsmith.grading.verdicts import HEAVIEST, LIGHTEST
from weightsmith.reporting._grading_drawings import Drawing, draw_comparison, draw_layer, draw_networks
from weightsmith.reporting._inline import csv_link
from weightsmith.reporting._layer_table import Column, LayerRow, columns_of, mark_of, row_of, text_of
from weightsmith.reporting.figures.labels import layer_label, network_labels

__all__ = ["grading_page"]

_MOST_LETTERS = 2_000_000  # of all spectra together, so that a page of some hundred layers stays below 3 MB
_ASKED_FIRST = (
    VerdictKind.OVER_REGULARISED,
    VerdictKind.WEAKLY_TRAINED,
    VerdictKind.NO_HEAVY_TAIL,
    VerdictKind.CANNOT_SAY,
    VerdictKind.WELL_TRAINED,
    VerdictKind.NOT_JUDGED,
    VerdictKind.CANNOT_BE_FITTED,
)


def grading_page(
    grades: Grades | GradeComparison | Sequence[Grades],
    comparison: GradeComparison | None = None,
    *,
    spectra: int = 60,
) -> str:
    """The page of one network, of several with their comparison, or of a comparison alone.

    Several networks are compared here if no ``comparison`` comes with them. The spectra of up to ``spectra`` layers are
    drawn, first of those whose verdict asks for a look, then of the largest; the page says how many it leaves out.
    Equal grades give equal bytes.
    """
    networks, comparison = _sorted_out(grades, comparison)
    import jinja2
    from markupsafe import Markup

    loader = jinja2.PackageLoader("weightsmith.reporting", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": text_of, "breakable": _breakable}
    script, style = (Markup(loader.get_source(environment, name)[0]) for name in ("page.js", "page.css"))
    page = environment.get_template("grading.html").render(
        title=_title(networks, comparison),
        networks=_network_views(networks, spectra),
        comparison=None if comparison is None else _comparison_view(comparison, networks),
        bands=(HEAVIEST, LIGHTEST),
        version=__version__,
        style=style,
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # A name may hold half a surrogate pair, which no file can.
    return page.lstrip().encode("utf-8", "replace").decode() + "\n"


def _breakable(name: str) -> str:
    """A name that may be broken after a dot, a slash or an underscore, escaped."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([._/])", r"\1<wbr>", str(escape(name))))


class _Spectrum(NamedTuple):
    """One layer of those whose spectra are drawn."""

    anchor: str
    name: str
    verdict: str
    because: str
    symbol: str
    colour: str
    figures: list[Drawing]


class _Group(NamedTuple):
    """What was left out for the same reason."""

    reason: str
    names: list[str]
    parameters: int


class _Chip(NamedTuple):
    """How many layers have a verdict."""

    name: str
    symbol: str
    colour: str
    layers: int


class _Network(NamedTuple):
    """One network as the template reads it."""

    id: str
    name: str
    source: str
    coverage: str
    notes: Sequence[str]
    verdicts: list[_Chip]
    figures: list[Drawing]
    measures: Sequence[Measure]
    columns: list[Column]
    rows: list[LayerRow]
    csv: str
    spectra: list[_Spectrum]
    first: str
    undrawn: str
    left_out: list[_Group]
    settings: list[tuple[str, str]]
    digests: list[tuple[str, str]]
    versions: str


def _sorted_out(
    grades: Grades | GradeComparison | Sequence[Grades], comparison: GradeComparison | None
) -> tuple[list[Grades], GradeComparison | None]:
    if isinstance(grades, GradeComparison):
        return [], grades
    networks = [grades] if isinstance(grades, Grades) else list(grades)
    if not networks:
        raise UsageError("no grades were given: there is no page to write")
    if comparison is not None and len(comparison.names) != len(networks):
        raise UsageError(f"the comparison is of {len(comparison.names)} networks, the grades are of {len(networks)}")
    return networks, compare(networks) if comparison is None and len(networks) > 1 else comparison


def _title(networks: Sequence[Grades], comparison: GradeComparison | None) -> str:
    if len(networks) == 1:
        return f"Grades of {network_labels([networks[0].source])[0]}"
    return f"Grades of {len(comparison.names if comparison is not None else networks)} networks"


def _network_views(networks: Sequence[Grades], most: int) -> list[_Network]:
    """Every network with its share of the spectra, and of the room they may take."""
    labels = network_labels([network.source for network in networks])
    share = max(1, most // max(1, len(networks))) if most > 0 else 0
    room = _MOST_LETTERS // max(1, len(networks))
    return [
        _network_view(network, label, f"n{number}", share, room)
        for number, (network, label) in enumerate(zip(networks, labels, strict=True), 1)
    ]


def _network_view(network: Grades, label: str, own: str, most: int, room: int) -> _Network:
    spectra, first = _spectra(network, own, most, room)
    drawn = {part.anchor for part in spectra}
    columns = columns_of(network.layers)
    anchors = [f"{own}-{number}" for number in range(1, len(network.layers) + 1)]
    origin = network.origin
    return _Network(
        id=own,
        name=label,
        source=network.source,
        coverage=network.coverage.line,
        notes=network.notes,
        verdicts=[_Chip(*mark_of(kind), count) for kind, count in network.verdicts().items()],
        figures=draw_networks([network], own),
        measures=network.measures,
        columns=columns,
        rows=[
            row_of(layer, columns, anchor if anchor in drawn else None)
            for layer, anchor in zip(network.layers, anchors, strict=True)
        ],
        csv=csv_link([layer.row() for layer in network.layers]),
        spectra=spectra,
        first=first,
        undrawn=_undrawn(network, len(spectra)),
        left_out=_left_out(network.coverage),
        settings=[*_settings(network.settings), ("seed", text_of(origin.seed))],
        digests=sorted(origin.inputs.items()),
        versions=", ".join(f"{name} {version}" for name, version in sorted(origin.versions.items())),
    )


def _spectra(network: Grades, own: str, most: int, room: int) -> tuple[list[_Spectrum], str]:
    """The spectra that are drawn, in the order of the layers, and which of them is shown first."""

    def interest(place: int) -> tuple[int, int, int]:
        layer = network.layers[place]
        return _ASKED_FIRST.index(layer.verdict.kind), -layer.parameters, place

    places = [place for place, layer in enumerate(network.layers) if layer.eigenvalues.size]
    found: dict[int, _Spectrum] = {}
    used = 0
    for place in sorted(places, key=interest)[:most]:
        made = _spectrum(network.layers[place], f"{own}-{place + 1}")
        used += sum(part.size for part in made.figures)
        if used > room and found:
            break
        found[place] = made
    first = next(iter(found.values())).anchor if found else ""
    return [found[place] for place in sorted(found)], first


def _spectrum(layer: LayerGrade, anchor: str) -> _Spectrum:
    mark = mark_of(layer.verdict.kind)
    drawings = draw_layer(layer, anchor)
    because = layer.verdict.because
    return _Spectrum(anchor, layer_label(layer), mark.name, because, mark.symbol, mark.colour, drawings)


def _undrawn(network: Grades, drawn: int) -> str:
    possible = sum(layer.eigenvalues.size > 0 for layer in network.layers)
    if drawn == possible:
        return ""
    return (
        f"{drawn:,} of {possible:,} spectra are drawn: first those whose verdict asks for a look, then those of the "
        "largest layers."
    )


def _left_out(coverage: Coverage) -> list[_Group]:
    """What was not graded by reason, the most parameters first: there are as many biases and norms as layers."""
    groups: dict[str, _Group] = {}
    for item in coverage.left_out:
        known = groups.get(item.reason, _Group(item.reason, [], 0))
        groups[item.reason] = _Group(item.reason, [*known.names, item.name], known.parameters + item.parameters)
    return sorted(groups.values(), key=lambda group: -group.parameters)


def _settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    words = {None: "–", True: "yes", False: "no"}
    for name, value in settings.items():
        if name != "seed":
            yield name, words[value] if value is None or isinstance(value, bool) else str(value)


def _comparison_view(comparison: GradeComparison, networks: Sequence[Grades]) -> dict[str, Any]:
    """The table of measures, with correlations where there are accuracies."""
    told = comparison.accuracy is not None
    drawings = [*draw_comparison(comparison, "c"), *(draw_networks(networks, "c") if len(networks) > 1 else [])]
    rows = []
    for measure in comparison.measures:
        cells: list[float | None] = list(measure.values)
        if told:
            tau, rho = measure.kendall, measure.spearman
            cells += [None, None] if tau is None else [tau.value, tau.p]
            cells += [None] if rho is None else [rho.value]
        meaning = measure.meaning + (f" ({measure.reason})" if measure.reason else "")
        rows.append({"name": measure.name, "cells": cells, "baseline": measure.baseline, "meaning": meaning})
    about = "One value per network, over its layers with a fit."
    if comparison.accuracy is not None:
        pairs = zip(network_labels(comparison.names), comparison.accuracy, strict=True)
        about += f" Accuracies: {', '.join(f'{name} {value:g}' for name, value in pairs)}."
        about += " τ is Kendall’s, p its exact two-sided value for few networks, ρ Spearman’s."
    return {
        "sentence": comparison.sentence,
        "notes": comparison.notes,
        "figures": sorted(drawings, key=lambda part: not part.wide),
        "about": about,
        "heads": [*network_labels(comparison.names), *(("τ", "p", "ρ") if told else ())],
        "rows": rows,
        "csv": csv_link(comparison.rows()),
    }
