"""Angles between the units of a network: a preview of what distinctiveness would remove.

>>> import weightsmith as ws
>>> found = angles(ws.networks.mlp(64, 20, 10, activation="sigmoid"), "digits", angle=30, top=3)
>>> [(site.name, site.units, len(site.pairs)) for site in found.record.sites]
[('dense1', 20, 3)]
>>> found.degrees("dense1").shape
(20, 20)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.display import Displayed
from weightsmith.core.errors import UnknownName
from weightsmith.core.options import Range
from weightsmith.core.progress import StepCallback, as_callback
from weightsmith.core.records import Origin, Record
from weightsmith.core.seeds import pinned_threads
from weightsmith.core.verbs import Batch, Device, Doc, Seed, Threads, verb, written
from weightsmith.reducing.criteria.angles import Angles, Pair, angles_between, choose_by_angles, threshold_of
from weightsmith.reducing.criteria.centres import centre_of, centred_grams
from weightsmith.reducing.criteria.constants import short_units
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.criteria.groups import Groups, choose_by_groups
from weightsmith.reducing.decisions import Choice

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.reducing.surgery.sites import Site
    from weightsmith.training.run import TrainRun

__all__ = ["AnglesRecord", "SiteAngles", "UnitAngles", "angles", "nearest_pairs"]


@dataclasses.dataclass(frozen=True, eq=False)
class SiteAngles(Record):
    """One site: its nearest pairs, how many are below the angle, and the units that are removed without a partner.

    A unit's vector has ``entries`` values, measured from ``centre`` (a number, or ``mean``: each unit's own mean).
    ``groups`` are units that ``angles`` with this angle would merge into one, the kept one first, and ``left`` is how
    many units would be left in all. ``combined`` are units within the angle of the span of the others, though perhaps
    near to none of them: ``groups`` would remove them.
    """

    name: str
    layers: tuple[str, ...]
    kind: str
    units: int
    activation: str | None
    centre: str
    entries: int
    pairs: tuple[Pair, ...]
    similar: int
    complementary: int
    constant: tuple[int, ...]
    short: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    left: int
    combined: tuple[int, ...]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class AnglesRecord(Record):
    """The sites of a network with the angles of their units, and the layers that have none."""

    settings: dict[str, Any]
    network: str
    sites: tuple[SiteAngles, ...]
    obstacles: dict[str, str]
    origin: Origin


@dataclasses.dataclass(frozen=True, repr=False)
class UnitAngles(Displayed):
    """The record, and the Gram matrices it was computed from."""

    record: AnglesRecord
    grams: dict[str, Gram]

    def __repr__(self) -> str:
        near = sum(site.similar + site.complementary for site in self.record.sites)
        sites = f"{len(self.record.sites)} site{'s' * (len(self.record.sites) != 1)}"
        return f"UnitAngles({sites}, {near:,} pairs within {self.record.settings['angle']:g}°)"

    def degrees(self, site: str) -> NDArray[np.float64]:
        """The angle of every pair of units of ``site`` in degrees (units, units)."""
        if site not in self.grams:
            raise UnknownName("layer", site, self.grams)
        return angles_between(self.grams[site])


@verb
def angles(
    network: nn.Module | TrainRun | str | Path,
    data: Any,
    *,
    angle: Annotated[
        float,
        Range(ge=0, le=90),
        Doc("degrees below which two units count as similar, and above 180 minus it as complementary"),
    ] = 15.0,
    centre: Annotated[
        str | float, Doc("what is subtracted from activations first: auto (by activation), mean, none or a number")
    ] = "auto",
    short: Annotated[
        float, Range(ge=0, lt=1), Doc("share of the median length below which a unit counts as short")
    ] = 0.1,
    top: Annotated[int, Range(ge=0), Doc("pairs listed for each layer")] = 20,
    layers: Annotated[str | Sequence[str] | None, Doc("only layers whose name fits one of these patterns")] = None,
    rows: Annotated[int | None, Range(ge=1), Doc("training rows to use; all by default")] = None,
    seed: Seed = 0,
    batch: Batch = 256,
    threads: Threads = 1,
    device: Device = "cpu",
    progress: StepCallback | bool | None = None,
) -> UnitAngles:
    """The angles between the units of every site, over the training rows of ``data``; the network is not changed.

    ``angle`` and ``centre`` are as in :class:`Angles`. The result lists the ``top`` nearest pairs of every site, below
    the angle or not, and the units shorter than ``short`` times the median length. ``rows`` of the training rows are
    drawn by the seed (None: all), ``layers`` are globs of the layers to inspect.
    """
    from weightsmith.networks.models.architecture import architecture_of
    from weightsmith.reducing.context import PruningContext
    from weightsmith.reducing.subject import check_device, read_subject
    from weightsmith.reducing.surgery.sites import find_sites

    option = Angles(angle, centre=centre)  # type: ignore[arg-type]  # the option reads numbers as text
    settings = written(angles, locals()) | {"angle": option.angle, "centre": option.centre}
    check_device(device)
    with pinned_threads(threads):
        subject = read_subject(network, data, rows=rows, seed=seed)
        found = find_sites(subject.network, subject.example[:2])
        context = PruningContext(
            network=subject.network,
            sites=found.matching(layers),
            x=subject.train.x,
            y=subject.train.y,
            seed=seed,
            batch=batch,
            device=device,
            progress=as_callback(progress),
        )
        grams = centred_grams(context, option.centre)
        sites = tuple(_site(site, grams[site.name], option, short, top) for site in context.sites)
    architecture = architecture_of(subject.network)
    record = AnglesRecord(
        settings={name: settings[name] for name in ("angle", "centre", "short", "top", "layers", "rows", "seed")},
        network=type(subject.network).__name__ if architecture is None else str(architecture),
        sites=sites,
        obstacles=found.obstacles,
        origin=Origin(seed=seed, inputs=subject.inputs),
    )
    return UnitAngles(record, grams)


def nearest_pairs(gram: Gram, count: int) -> tuple[Pair, ...]:
    """The ``count`` pairs nearest to 0° or 180°, the nearest first, ties by index, without zero vectors.

    Unlike :func:`pairs`, it never holds more than a strip of the matrix and ``count`` pairs.

    >>> gram = Gram(3)
    >>> gram.add(np.array([[1.0, 0.0], [0.1, 1.0], [-2.0, 0.0]]).T)
    >>> [(pair.a, pair.b, round(pair.degrees)) for pair in nearest_pairs(gram, 2)]
    [(0, 2, 180), (0, 1, 84)]
    """
    if not count:
        return ()
    reading, zero = gram.reading(), gram.zero
    a = b = np.empty(0, dtype=np.int64)
    values = np.empty(0)
    for start, stop in reading.strips():
        cosines = reading.cosines(start, stop)
        sizes = np.triu(gram.rounded(np.abs(cosines)) + 1, 1)  # 0 marks no pair, and is no cosine
        sizes[zero[start:stop]] = 0
        sizes[:, zero[start:]] = 0
        least = np.partition(sizes, -count, axis=None)[-count] if count < sizes.size else 0
        rows, columns = np.nonzero((sizes >= least) & (sizes > 0))
        a, b = np.concatenate((a, rows + start)), np.concatenate((b, columns + start))
        values = np.concatenate((values, cosines[rows, columns]))
        order = np.lexsort((b, a, -gram.rounded(np.abs(values))))[:count]
        a, b, values = a[order], b[order], values[order]
    return tuple(
        Pair(int(first), int(second), float(np.degrees(np.arccos(value))), "similar" if value > 0 else "complementary")
        for first, second, value in zip(a, b, values, strict=True)
    )


def _site(site: Site, gram: Gram, option: Angles, short: float, top: int) -> SiteAngles:
    constants = site.takes_constants
    merged = choose_by_angles(site.name, site.units, gram, option, constants=constants)
    joint = Groups(option.angle, centre=option.centre)
    combined = choose_by_groups(site.name, site.units, gram, joint, constants=constants)
    steady = {removal.unit for removal in merged.removals if removal.reason == "constant"}
    others = np.array([unit not in steady for unit in range(site.units)])
    similar, complementary = _below(gram, threshold_of(option.angle))
    centre = centre_of(option.centre, site.activation) if constants else 0.0
    return SiteAngles(
        name=site.name,
        layers=site.layers,
        kind=site.kind,
        units=site.units,
        activation=site.activation,
        centre="mean" if centre is None else f"{centre:g}",
        entries=gram.rows,
        pairs=nearest_pairs(gram, top),
        similar=similar,
        complementary=complementary,
        constant=tuple(sorted(steady)),
        short=tuple(sorted(short_units(gram, short, others & ~gram.zero))),
        groups=_groups(merged),
        left=len(merged.kept),
        combined=tuple(sorted(removal.unit for removal in combined.removals if removal.reason == "group")),
        notes=merged.notes,
    )


def _below(gram: Gram, threshold: float) -> tuple[int, int]:
    """How many pairs are similar and how many complementary."""
    reading = gram.reading()
    similar = complementary = 0
    for start, stop in reading.strips():
        cosines = np.triu(reading.cosines(start, stop), 1)
        similar += int(np.count_nonzero(cosines > threshold))
        complementary += int(np.count_nonzero(cosines < -threshold))
    return similar, complementary


def _groups(choice: Choice) -> tuple[tuple[int, ...], ...]:
    """Groups of units merged into the same one, which is listed first; sorted by that one."""
    goes_into = {removal.unit: removal.into[0] for removal in choice.removals if removal.into}
    groups: dict[int, list[int]] = {}
    for unit in sorted(goes_into):
        end = unit
        while end in goes_into:
            end = goes_into[end]
        groups.setdefault(end, []).append(unit)
    return tuple((end, *groups[end]) for end in sorted(groups))
