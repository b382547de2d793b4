"""How alike the units of two networks are in what they say of the same rows."""

from __future__ import annotations

from torch import nn

from weightsmith.chain._diff_layers import spread_of
from weightsmith.chain._diff_missing import Missing
from weightsmith.chain._diff_records import UnitsDiff
from weightsmith.chain._diff_running import Rows, example_for
from weightsmith.chain._diff_sides import Side
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.seeds import pinned_threads
from weightsmith.networks.editing.copying import copied
from weightsmith.reducing.context import Scene
from weightsmith.reducing.criteria.centres import centred_grams
from weightsmith.reducing.surgery.sites import find_sites

__all__ = ["compare_units"]

_ROWS = 1_000  # of the data that are looked at: angles settle soon, and a convolution has a row for every position
_MOST_UNITS = 4096
_Found = dict[str, tuple[int, float | None, float | None]]


def compare_units(a: Side, b: Side, rows: Rows) -> tuple[tuple[UnitsDiff, ...], list[Missing]]:
    """Units and angles at every site (where units can be taken out) of either network, and what has none."""
    missing: list[Missing] = []
    sides = [_angles_of(side, rows, missing) for side in (a, b)]
    found = []
    for name in dict.fromkeys(name for side in sides for name in side):
        units, medians, leasts = zip(*(side.get(name, (None, None, None)) for side in sides), strict=True)
        found.append(UnitsDiff(name, *units, *medians, *leasts))
    return tuple(found), missing


def _angles_of(side: Side, rows: Rows, missing: list[Missing]) -> _Found:
    if side.module is None:
        reason = "it spikes: its units have rates, not activations" if side.spiking is not None else side.cannot_run
        missing.append(Missing("activations", side.name, str(reason)))
        return {}
    try:
        return _measured(copied(side.module).eval(), side, rows)
    except (DataMismatch, UsageError) as error:
        missing.append(Missing("activations", side.name, str(error)))
        return {}


def _measured(network: nn.Module, side: Side, rows: Rows) -> _Found:
    x, y = rows.part.x[:_ROWS], rows.part.y[:_ROWS]
    with pinned_threads(1):
        sites = find_sites(network, example_for(side.card, x[:2])).sites
        small = tuple(site for site in sites if site.units <= _MOST_UNITS)
        grams = centred_grams(Scene(network, small, x, y), "auto")
    return {site.name: (site.units, *spread_of(grams[site.name].cosines(), ~grams[site.name].zero)) for site in small}
