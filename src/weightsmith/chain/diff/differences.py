"""The comparison of two networks: sizes, layers, units, answers on the same rows, latency and energy."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from weightsmith.chain.diff._layers import compare_layers, compare_units
from weightsmith.chain.diff._records import (
    LatencyDiff,
    LayerDiff,
    LayerFacts,
    LoneAccuracy,
    LoneLayer,
    Missing,
    NetworkDiff,
    NetworkFacts,
    PairedAccuracy,
    SettingDiff,
    UnitsDiff,
    WeightDistance,
    sentences,
)
from weightsmith.chain.diff._running import (
    Answers,
    answers_of,
    latencies,
    lone_accuracy,
    on_rows,
    paired_accuracy,
)
from weightsmith.chain.diff._sides import Side
from weightsmith.chain.reading.results import KINDS
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.progress import ProgressCallback, StepCallback, for_stage
from weightsmith.core.records import Lineage, Origin
from weightsmith.data.judging import Rows
from weightsmith.spiking.energy.cost import Prices

__all__ = [
    "How",
    "LatencyDiff",
    "LayerDiff",
    "LayerFacts",
    "LoneAccuracy",
    "LoneLayer",
    "NetworkDiff",
    "NetworkFacts",
    "PairedAccuracy",
    "SettingDiff",
    "UnitsDiff",
    "WeightDistance",
    "compared",
]


def compared(sides: tuple[Side, Side], rows: Rows | None, how: How, evidence: object) -> NetworkDiff:
    """The comparison of two networks; both answer ``rows``."""
    shape = () if rows is None else tuple(rows.part.x.shape[1:])
    sized = [side.facts(shape) for side in sides]
    layers = compare_layers(*sides, evidence=evidence, seed=how.seed, progress=how.step_callback)
    settings, differing_kinds = _settings(*sides)
    ran = _Ran() if rows is None else _run(*sides, rows, how)
    energies = [_priced(facts, answers, how.prices) for (facts, _), answers in zip(sized, ran.answers, strict=True)]
    missing = [*sized[0][1], *sized[1][1], *ran.missing, *_unpriced(sides, energies)]
    notes = [*sides[0].notes, *sides[1].notes, *layers.notes, *_scaled(*sides), *differing_kinds, *sentences(missing)]
    inputs = {"a": sides[0].digest, "b": sides[1].digest}
    return NetworkDiff(
        a=energies[0],
        b=energies[1],
        relation=_relation(*sides),
        settings=settings,
        layers=tuple(layers.common),
        only_a=tuple(layers.only_a),
        only_b=tuple(layers.only_b),
        units=ran.units,
        accuracy=ran.accuracy,
        latency=ran.latency,
        notes=tuple(dict.fromkeys(notes)),
        origin=Origin(seed=how.seed, inputs=inputs if rows is None else {**inputs, "data": rows.part.digest()}),
        lone_accuracy=ran.lone,
    )


@dataclasses.dataclass(frozen=True)
class How:
    """How networks are run; ``timing`` holds batches and repeats, None for no latency."""

    steps: int | None
    seed: int
    prices: Prices
    timing: tuple[tuple[int, ...], int] | None
    progress: ProgressCallback | None

    def step_callback(self, stage: str) -> StepCallback | None:
        """The progress of one stage."""
        return for_stage(self.progress, stage)


@dataclasses.dataclass
class _Ran:
    """The results of running both networks on rows."""

    answers: tuple[Answers | None, Answers | None] = (None, None)
    accuracy: PairedAccuracy | None = None
    lone: LoneAccuracy | None = None
    units: tuple[UnitsDiff, ...] = ()
    latency: tuple[LatencyDiff, ...] = ()
    missing: list[Missing] = dataclasses.field(default_factory=list)


def _run(a: Side, b: Side, rows: Rows, how: How) -> _Ran:
    """Run what can be run; the rest is listed as missing with the reason."""
    ran = _Ran()
    a, b = on_rows(a, rows), on_rows(b, rows)
    ran.answers = _answered(a, rows, how, ran.missing), _answered(b, rows, how, ran.missing)
    match ran.answers:
        case (Answers() as first, Answers() as second):
            ran.accuracy = paired_accuracy(rows, first, second)
        case (Answers() as only, None):
            ran.lone = lone_accuracy(rows, "A", only)
        case (None, Answers() as only):
            ran.lone = lone_accuracy(rows, "B", only)
    ran.units, missing = compare_units(a, b, rows)
    ran.missing += missing
    if how.timing is not None:
        ran.latency, missing = latencies(a, b, rows, *how.timing)
        ran.missing += missing
    return ran


def _answered(side: Side, rows: Rows, how: How, missing: list[Missing]) -> Answers | None:
    callback = how.step_callback(f"running {side.name}")
    try:
        return answers_of(side, rows, steps=how.steps, seed=how.seed, prices=how.prices, progress=callback)
    except (DataMismatch, UsageError) as error:
        missing.append(Missing("accuracy", side.name, str(error)))
        return None


def _priced(facts: NetworkFacts, answers: Answers | None, prices: Prices) -> NetworkFacts:
    """Add the energy of an image: MACs times their price, or for a spiking network the energy of its run."""
    if answers is not None and answers.picojoules is not None:
        return dataclasses.replace(facts, picojoules=answers.picojoules, energy_basis=answers.basis)
    if facts.connections is None:
        return facts
    basis = "MACs × price" if facts.numbers == "float32" else f"{facts.numbers} MACs × price"
    if facts.connections != facts.macs:
        basis = f"{facts.connections:,} {basis}: those with zeros of the padding or of the weights cost nothing"
    energy = prices.of_run(facts.numbers).mac * facts.connections
    return dataclasses.replace(facts, picojoules=energy, energy_basis=basis)


def _unpriced(sides: Sequence[Side], facts: Sequence[NetworkFacts]) -> list[Missing]:
    return [
        Missing("energy", side.name, _why_unpriced(side))
        for side, each in zip(sides, facts, strict=True)
        if each.picojoules is None
    ]


def _why_unpriced(side: Side) -> str:
    if side.spiking is not None:
        return "it is counted in a run on data"
    return side.cannot_run or "its MACs are not known"


def _scaled(a: Side, b: Side) -> list[str]:
    """Warn that the weights of a spiking network are scaled, if the other network is not spiking."""
    return [
        f"layers of {side.name}: balancing has scaled its weights, so norms and distances say little"
        for side, other in ((a, b), (b, a))
        if side.spiking is not None and other.spiking is None
    ]


def _settings(a: Side, b: Side) -> tuple[tuple[SettingDiff, ...], list[str]]:
    """The settings in which two records of the same verb differ."""
    if a.record is None or b.record is None:
        return (), []
    if type(a.record) is not type(b.record):
        kinds = " and ".join(KINDS[type(record)] for record in (a.record, b.record))
        return (), [f"settings: the results are of different kinds ({kinds})"]
    ours, theirs = a.record.settings, b.record.settings
    return tuple(
        SettingDiff(name, _text(ours, name), _text(theirs, name))
        for name in dict.fromkeys((*ours, *theirs))
        if name not in ours or name not in theirs or ours[name] != theirs[name]
    ), []


def _text(settings: dict[str, Any], name: str) -> str | None:
    if name not in settings:
        return None
    value = settings[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _relation(a: Side, b: Side) -> str | None:
    """Which of the two was made from the other, and by which operations."""
    if a.digest == b.digest:
        return "both have the same weights"
    for first, second, words in ((a, b, "B was made from A"), (b, a, "A was made from B")):
        operations = _operations_since(first.digest, second.card.lineage)
        if operations:
            return f"{words}: {', then '.join(operations)}"
    ours, theirs = (_ancestors(side.card.lineage) for side in (a, b))
    common = next((digest for digest in reversed(ours) if digest in theirs), None)
    return None if common is None else f"both were made from {common[:12]}"


def _operations_since(ancestor: str, lineage: Lineage) -> list[str]:
    """The operations from ``ancestor`` to the network with that lineage; empty if it is no ancestor."""
    steps = [*lineage.ancestors, lineage]
    for index, step in enumerate(steps):
        if step.parent == ancestor:
            return [each.operation for each in steps[index:]]
    return []


def _ancestors(lineage: Lineage) -> list[str]:
    return [step.parent for step in (*lineage.ancestors, lineage) if step.parent is not None]
