"""The section of angles between units: redundant units of a layer, and the effect of merging them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weightsmith.reducing.inspecting import AnglesRecord, SiteAngles, UnitAngles
from weightsmith.reporting.figures.angles import draw_angles, draw_dendrogram
from weightsmith.reporting.parts import Cell, Choice, Column, Drawing, Facts, Notes, Part, Prose, Section, Shown, Table
from weightsmith.reporting.sections._never_cut import never_cut
from weightsmith.reporting.sections._wording import MOST_ROWS, counted, facts_of, gathered, rounded, short_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["angles_section"]

_MOST_DRAWN = 12  # layers whose angles are drawn: each takes up to 200 kB
_LISTED = 12  # units or groups that a sentence names


def angles_section(angles: UnitAngles | AnglesRecord, name: str) -> Section:
    """The section of the angles named ``name``; a record alone holds no matrices, hence no maps."""
    record = angles.record if isinstance(angles, UnitAngles) else angles
    parts: list[Part] = [*_notes(record)]
    if record.sites:
        parts.append(_overview(record))
        parts.append(_layers(record, angles if isinstance(angles, UnitAngles) else None))
    parts += never_cut(record.obstacles)
    parts.append(facts_of(record.settings, record.origin, before=[("network", record.network)]))
    about = (
        f"{record.network} · angles of activations over the training rows, similar below {_degrees(record)}, "
        f"complementary above {180 - record.settings['angle']:g}°"
    )
    return Section(f"Angles: {name}", _lead(record), tuple(parts), _chips(record), about, try_next=(_next(record),))


def _next(record: AnglesRecord) -> str:
    """A command that acts on these angles."""
    angle = record.settings["angle"]
    if any(site.left < site.units for site in record.sites):
        return f"weightsmith reduce … --by angles:{angle:g}: removes units that are near another"
    if any(site.combined for site in record.sites):
        return f"weightsmith reduce … --by groups:{angle:g}: some units are near several others together"
    return f"a larger --angle: no unit is within {angle:g}° of another, or of several others together"


def _degrees(record: AnglesRecord) -> str:
    return f"{record.settings['angle']:g}°"


def _lead(record: AnglesRecord) -> str:
    if not record.sites:
        return f"{short_network(record.network)} has no hidden units whose angles could be measured."
    within, units, network = _degrees(record), sum(site.units for site in record.sites), short_network(record.network)
    similar, complementary = (
        sum(site.similar for site in record.sites),
        sum(site.complementary for site in record.sites),
    )
    left, joint = sum(site.left for site in record.sites), sum(len(site.combined) for site in record.sites)
    if not similar + complementary:
        lead = f"No unit of {network} has another within {within}"
    else:
        lead = (
            f"In {network} {counted(similar, 'pair')} of units {_lie(similar)} within {within} of each other "
            f"(similar) and {complementary:,} within {within} of the opposite (complementary)"
        )
    merged = f"merging would leave {left:,} of {counted(units, 'unit')}"
    together = f"{counted(joint, 'unit')} {_lie(joint)} within {within} of several others together"
    return f"{lead}; {merged}, and {together}."


def _lie(count: int) -> str:
    return "lies" if count == 1 else "lie"


def _chips(record: AnglesRecord) -> tuple[tuple[str, str], ...]:
    sites, within = record.sites, _degrees(record)
    nearest = [site.pairs[0].degrees for site in sites if site.pairs]
    chips = [
        ("units", f"{sum(site.units for site in sites):,}"),
        (f"similar pairs within {within}", f"{sum(site.similar for site in sites):,}"),
        (f"complementary pairs within {within}", f"{sum(site.complementary for site in sites):,}"),
        ("units left if merged", f"{sum(site.left for site in sites):,}"),
    ]
    if nearest:
        closest = min(nearest, key=lambda degrees: min(degrees, 180 - degrees))
        chips.append(("nearest pair", f"{closest:.1f}°"))
    return tuple(chips)


def _notes(record: AnglesRecord) -> Iterator[Notes]:
    lines = gathered((note, site.name) for site in record.sites for note in site.notes)
    if lines:
        yield Notes(lines)


def _overview(record: AnglesRecord) -> Table:
    within = _degrees(record)
    columns = [
        Column("layer"),
        Column("units", numeric=True),
        Column("values", "of each unit", numeric=True, spare=1),
        Column("activation", "and the centre it is measured from: a number, or each unit’s own mean", spare=2),
        Column("nearest", "the angle of the pair nearest to 0° or 180°", numeric=True),
        Column("similar", f"pairs within {within} of 0°", numeric=True),
        Column("complementary", f"pairs within {within} of 180°", numeric=True),
        Column("left", f"units that merging by {within} would leave", numeric=True),
    ]
    optional = {
        Column("joint", f"units within {within} of several others together", numeric=True): "combined",
        Column("constant", "units that hardly vary, and could become a bias", numeric=True): "constant",
        Column("short", "units whose activations are much smaller than those of others", numeric=True): "short",
    }
    more = {column: key for column, key in optional.items() if any(getattr(site, key) for site in record.sites)}
    rows: list[tuple[Cell | Shown, ...]] = []
    for site in record.sites:
        near = site.pairs[0].degrees if site.pairs else None
        nearest = Shown(near, "–" if near is None else f"{near:.1f}°")
        measured = f"{site.activation or 'none'}, from {site.centre}"
        counts = (len(getattr(site, key)) for key in more.values())
        rows.append(
            (
                site.name,
                site.units,
                site.entries,
                measured,
                nearest,
                site.similar,
                site.complementary,
                site.left,
                *counts,
            )
        )
    return Table("Layers", (*columns, *more), tuple(rows), file="angles-by-layer.csv")


def _layers(record: AnglesRecord, angles: UnitAngles | None) -> Choice:
    """Every layer with its nearest pairs, and the maps of those with the most redundancy."""
    near = [site.similar + site.complementary for site in record.sites]
    order = sorted(range(len(near)), key=lambda index: (-near[index], index))
    drawn = {record.sites[index].name for index in order[:_MOST_DRAWN]} if angles is not None else set()
    options = []
    for number, site in enumerate(record.sites, 1):
        parts: list[Part] = []
        if angles is not None and site.name in drawn:
            parts += _maps(site, number, angles, float(record.settings["angle"]))
        elif angles is not None:
            parts.append(Prose(f"Of {len(near)} layers the {_MOST_DRAWN} with the most near pairs are drawn."))
        parts += [*_pairs(site, number, _degrees(record)), *_named(site)]
        options.append((site.name, tuple(parts)))
    return Choice("Angles by layer", tuple(options), first=order[0])


def _maps(site: SiteAngles, number: int, angles: UnitAngles, threshold: float) -> Iterator[Drawing]:
    """The heat map, and the tree of a layer of several units."""
    how = (
        "How to read it: each cell is a pair of units, blue if they are active together and orange if one is active "
        "when the other is not; dark squares along the diagonal are groups of redundant units."
    )
    degrees = angles.degrees(site.name)
    figure = functools.partial(_draw_angles, angles, site.name, threshold)
    yield Drawing(f"Angles in {site.name}", how, figure, _cells(degrees), file=f"angles-{number}.csv")
    if site.units > 1:
        how = (
            "How to read it: the lower two branches join, the more alike their units are; units that join below "
            "the dashed line are within the angle, and one unit could replace each such group."
        )
        figure = functools.partial(_draw_tree, angles, site.name, threshold)
        yield Drawing(f"Groups in {site.name}", how, figure, _joins(degrees), file=f"groups-{number}.csv")


def _draw_angles(angles: UnitAngles, site: str, threshold: float) -> Figure:
    return draw_angles(angles.degrees(site), layer=site, threshold=threshold)


def _draw_tree(angles: UnitAngles, site: str, threshold: float) -> Figure:
    return draw_dendrogram(angles.degrees(site), layer=site, threshold=threshold)


def _cells(degrees: NDArray[np.float64]) -> list[dict[str, Cell]]:
    """The pairs, of many those farthest from 90°."""
    first, second = np.triu_indices(len(degrees), 1)
    found = degrees[first, second]
    order = np.sort(np.argsort(-np.abs(found - 90), kind="stable")[:MOST_ROWS])
    rows: list[dict[str, Cell]] = [
        {"unit": one, "other": other, "degrees": angle}
        for one, other, angle in zip(first[order].tolist(), second[order].tolist(), found[order].tolist(), strict=True)
    ]
    return rounded(rows)


def _joins(degrees: NDArray[np.float64]) -> list[dict[str, Cell]]:
    """The joins by ascending height: units by their indices, later joins by those of the rows."""
    from scipy.cluster.hierarchy import linkage

    near = np.minimum(degrees, 180 - degrees)[np.triu_indices(len(degrees), 1)]
    rows: list[dict[str, Cell]] = [
        {"join": len(degrees) + index, "one": int(one), "other": int(other), "degrees": height, "units": int(size)}
        for index, (one, other, height, size) in enumerate(linkage(near, "complete").tolist())
    ]
    return rounded(rows)


def _pairs(site: SiteAngles, number: int, within: str) -> Iterator[Table]:
    """The nearest pairs."""
    if not site.pairs:
        return
    near = site.similar + site.complementary
    columns = (
        Column("pair"),
        Column("angle", numeric=True),
        Column("kind"),
        Column(f"within {within}"),
    )
    rows = tuple(
        (f"{pair.a}, {pair.b}", Shown(pair.degrees, f"{pair.degrees:.2f}°"), pair.kind, "yes" if index < near else "no")
        for index, pair in enumerate(site.pairs)
    )
    more = near - len(site.pairs)
    caption = f"{more:,} more {'lies' if more == 1 else 'lie'} within {within} (--top {near})." if more > 0 else ""
    yield Table(f"Nearest pairs of {site.name}", columns, rows, caption, file=f"pairs-{number}.csv")


def _named(site: SiteAngles) -> Iterator[Facts]:
    """The redundant units by name."""
    groups = [" + ".join(map(str, group)) for group in site.groups]
    lists = (
        ("groups that would be merged into their first unit", groups),
        ("units that several others together could replace", [str(unit) for unit in site.combined]),
        ("units that hardly vary", [str(unit) for unit in site.constant]),
        ("units that are much shorter than others", [str(unit) for unit in site.short]),
    )
    pairs = []
    for what, items in lists:
        if items:
            more = f" and {len(items) - _LISTED:,} more" if len(items) > _LISTED else ""
            pairs.append((what, f"{len(items):,}: {', '.join(items[:_LISTED])}{more}"))
    if pairs:
        yield Facts(f"Redundant units of {site.name}", tuple(pairs))
