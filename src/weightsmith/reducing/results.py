"""The results of a reduction: removed units per site, cost, and baselines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.display import Displayed
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Comparison, Interval, score_difference
from weightsmith.reducing.baselines import RandomMasks, Scratch
from weightsmith.reducing.budget import BudgetRecord
from weightsmith.reducing.decisions import Choice, FrontPoint, Removal, Trace
from weightsmith.reducing.fidelity import Fidelity
from weightsmith.reducing.latency import LatencyComparison
from weightsmith.reducing.recovery.judging import Recovery
from weightsmith.reducing.refitting.refit import RefitRecord
from weightsmith.reducing.surgery.sites import Site
from weightsmith.training.run import TrainRecord

__all__ = [
    "TARGET_MISSED",
    "Measured",
    "Reduction",
    "ReductionRecord",
    "RemovedUnit",
    "SiteReduction",
    "Size",
    "site_reductions",
]

TARGET_MISSED = "the target was not met"
"""How the note of a missed target begins."""


@dataclasses.dataclass(frozen=True, eq=False)
class RemovedUnit(Record):
    """A removed unit, the reason, and the unit it was merged into (None if there is none, or several)."""

    unit: int
    reason: str
    into: int | None = None
    angle: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class SiteReduction(Record):
    """One site: the units kept, by their index in the original network, and the removed ones.

    ``refused`` says why the chosen units were not removed. In a reduction of several rounds the removals are those of
    the last round.
    """

    name: str
    layers: tuple[str, ...]
    kind: str
    before: int
    kept: tuple[int, ...]
    removals: tuple[RemovedUnit, ...] = ()
    refused: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def after(self) -> int:
        """Units left."""
        return len(self.kept)


@dataclasses.dataclass(frozen=True, eq=False)
class Size(Record):
    """How large a network is: parameters, multiply-accumulates for one input, bytes of its file, hidden units.

    ``connections`` are the multiply-accumulates without those at the padding and with weights of 0, as energies count
    them; None in older records.
    """

    parameters: int
    macs: int
    file_bytes: int
    units: int
    connections: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Measured(Record):
    """Accuracies on the same inputs: of the original network, just after the cut, and after recovery.

    ``cut`` includes the refit, if there was one; ``unfitted`` is then the accuracy of the same cut before its refit.
    ``cost`` compares the result with the original network, input by input (McNemar): a positive difference is a gain.
    ``wrong`` are the inputs, counted from 0, that the result gets wrong, and ``rows`` is the SHA-256 of all inputs: two
    results on the same rows can be compared in pairs. Older records have neither.

    For a regression all accuracies are R² (``metric``), ``cost`` is a paired t-test, and ``scores`` are those of the
    rows (:mod:`weightsmith.data.targets`) in place of ``wrong``.
    """

    split: str
    images: int
    whole: Interval
    cut: Interval
    reduced: Interval
    cost: Comparison
    unfitted: Interval | None = None
    wrong: tuple[int, ...] | None = None
    rows: str | None = None
    metric: str = "accuracy"
    scores: tuple[float, ...] | None = None

    def against(self, other: Measured) -> Comparison | None:
        """This result against another one on the same rows, in pairs; None if the rows differ."""
        if self.rows is None or self.rows != other.rows:
            return None
        ours, theirs = self._by_row(), other._by_row()
        return None if ours is None or theirs is None else score_difference(ours, theirs)

    def _by_row(self) -> NDArray[Any] | None:
        if self.scores is not None:
            return np.array(self.scores) if len(self.scores) == self.images else None
        if self.wrong is None or not all(0 <= row < self.images for row in self.wrong):  # a file may be wrong
            return None
        right = np.ones(self.images, np.bool_)
        right[list(self.wrong)] = False
        return right


@dataclasses.dataclass(frozen=True, eq=False)
class ReductionRecord(Record):
    """The full record of a reduction, without weights and durations."""

    settings: dict[str, Any]
    network: str
    sites: tuple[SiteReduction, ...]
    obstacles: dict[str, str]
    whole: Size
    reduced: Size
    difference: float
    measured: Measured
    random: RandomMasks | None
    scratch: Scratch | None
    trace: Trace | None
    front: tuple[FrontPoint, ...]
    training: tuple[TrainRecord, ...]
    notes: tuple[str, ...]
    result: str
    origin: Origin
    recovery: tuple[Recovery, ...] = ()
    refit: RefitRecord | None = None
    budget: BudgetRecord | None = None
    fidelity: Fidelity | None = None


@dataclasses.dataclass(frozen=True, repr=False)
class Reduction(Displayed):
    """A finished reduction: its record, the smaller network, and the latency of both networks."""

    record: ReductionRecord
    network: nn.Module
    latency: LatencyComparison | None = None

    def __repr__(self) -> str:
        return f"Reduction({self})"

    def __str__(self) -> str:
        """One line: the method, how much smaller, and the cost; then a missed target and refused sites."""
        record = self.record
        before, after = record.whole, record.reduced
        unmet = [note for note in record.notes if note.startswith(TARGET_MISSED)]
        unmet += [f"{site.name} was left whole: {site.refused}" for site in record.sites if site.refused]
        line = (
            f"{record.settings['by']}: {before.units:,} → {after.units:,} units, {before.parameters:,} → "
            f"{after.parameters:,} parameters ({after.parameters / before.parameters:.1%}), {record.measured.split} "
            f"{record.measured.metric} {record.measured.whole.value:.2%} → {record.measured.reduced.value:.2%}"
        )
        return "\n".join([line, *unmet])

    @property
    def sites(self) -> tuple[SiteReduction, ...]:
        """The reduction of each site."""
        return self.record.sites

    @property
    def kept(self) -> dict[str, tuple[int, ...]]:
        """The units kept at each site, by their index in the original network."""
        return {site.name: site.kept for site in self.record.sites}


def site_reductions(
    sites: Sequence[Site],
    kept: Mapping[str, tuple[int, ...]],
    choices: Sequence[Choice],
    refused: Mapping[str, str],
) -> tuple[SiteReduction, ...]:
    """The units kept and removed at each site, and the reason for a refusal."""
    chosen = {choice.site: choice for choice in choices}
    return tuple(
        SiteReduction(
            name=site.name,
            layers=site.layers,
            kind=site.kind,
            before=site.units,
            kept=kept[site.name],
            removals=tuple(map(_removed_unit, chosen[site.name].removals)) if site.name in chosen else (),
            refused=refused.get(site.name),
            notes=chosen[site.name].notes if site.name in chosen else (),
        )
        for site in sites
    )


def _removed_unit(removal: Removal) -> RemovedUnit:
    return RemovedUnit(removal.unit, removal.reason, removal.into[0] if len(removal.into) == 1 else None, removal.angle)
