"""The same stage with several seeds: find such results, and summarise them."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from weightsmith.core.records import Record, digest_of
from weightsmith.core.statistics import mean_interval
from weightsmith.reporting.figures.overview import draw_seeds, energy_unit
from weightsmith.reporting.parts import Cell, Column, Drawing, Shown, Table
from weightsmith.reporting.sections._known_networks import (
    KnownNetwork,
    NamedRecord,
    known_networks,
    network_in,
    network_out,
    operation_of,
)
from weightsmith.reporting.sections._wording import percent, significant
from weightsmith.training.run import TrainRecord

__all__ = ["SeedGroup", "over_seeds", "stages_over_seeds"]

_UNSEEN = ("seed", "device", "threads", "price")  # settings in which repetitions may differ; a price is measured
_GENERATIONS = 64  # the depth at which a lineage is cut off
_SEED = re.compile(r"[\s,_/.(-]*\b(seed)?[\s_=-]*\d*[\s,_/.-]*$", re.IGNORECASE)
_SEED_INSIDE = re.compile(r"(^|/)seed[\s_=-]*\d+(?=/|$)", re.IGNORECASE)


class SeedGroup(NamedTuple):
    """Results that differ only in their seed: a name, the seeds, and the networks in their order."""

    name: str
    seeds: tuple[int, ...]
    networks: tuple[KnownNetwork, ...]


def stages_over_seeds(results: Sequence[NamedRecord]) -> list[SeedGroup]:
    """Stages that were run with at least two seeds, if all networks were evaluated.

    Two results are the same stage if they are of one kind, with the same settings, on networks of the same stage.
    """
    makers = {digest: record for _, record in results if (digest := network_out(record)) is not None}
    networks = {each.digest: each for each in known_networks(results)}
    groups: dict[str, list[NamedRecord]] = {}
    for name, record in results:
        if network_out(record) is not None:
            groups.setdefault(_key(record, makers), []).append((name, record))
    stages = []
    for members in groups.values():
        found = {
            networks[digest].seed: networks[digest]
            for _, record in members
            if (digest := network_out(record)) in networks and networks[digest].judged is not None
        }
        seeds = tuple(sorted(seed for seed in found if seed is not None))
        if len(seeds) > 1:
            stages.append(SeedGroup(_common(members), seeds, tuple(found[seed] for seed in seeds)))
    return _uniquely_named(stages)


def over_seeds(stages: Sequence[SeedGroup]) -> tuple[Drawing, Table]:
    """The figure and the table of stages."""
    groups = {stage.name: _accuracies(stage) for stage in stages}
    rows: list[dict[str, Cell]] = [
        {"stage": stage.name, "seed": seed, "network": each.name, "accuracy": each.judged.accuracy.value}
        for stage in stages
        for seed, each in zip(stage.seeds, stage.networks, strict=True)
        if each.judged is not None
    ]
    how = (
        "How to read it: dots that are far apart mean that the seed matters as much as the method; a difference "
        "between stages that is smaller than their spread may be chance."
    )
    drawing = Drawing("Accuracy over seeds", how, lambda: draw_seeds(groups), rows, file="seeds.csv")
    columns = (
        Column("stage"),
        Column("seeds", "how many", numeric=True),
        Column("accuracy", "mean ± standard deviation over seeds", numeric=True),
        Column(
            "interval", "95 % interval of the mean (Student’s t), clipped to 0–100 %; sorted by width", numeric=True
        ),
        Column("parameters", "mean ± standard deviation", numeric=True),
        Column("energy", "per image, mean ± standard deviation", numeric=True),
    )
    return drawing, Table("Over seeds", columns, tuple(map(_row, stages)), file="over-seeds.csv")


def _uniquely_named(stages: Sequence[SeedGroup]) -> list[SeedGroup]:
    """Stages with unique names."""
    counts = Counter(stage.name for stage in stages)
    seen: Counter[str] = Counter()
    found = []
    for stage in stages:
        seen[stage.name] += 1
        number = f" ({seen[stage.name]})" if counts[stage.name] > 1 else ""
        found.append(stage._replace(name=stage.name + number))
    return found


def _accuracies(stage: SeedGroup) -> list[tuple[str, float]]:
    return [
        (f"seed {seed}", each.judged.accuracy.value)
        for seed, each in zip(stage.seeds, stage.networks, strict=True)
        if each.judged is not None
    ]


def _row(stage: SeedGroup) -> tuple[Cell | Shown, ...]:
    values = [value for _, value in _accuracies(stage)]
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    ends = mean_interval(values)
    low, high = max(0.0, ends.low), min(1.0, ends.high)
    sizes = [None if each.parameters is None else float(each.parameters) for each in stage.networks]
    energies = [each.energy for each in stage.networks]
    return (
        stage.name,
        len(values),
        Shown(mean, f"{percent(mean)} ± {100 * deviation:.1f}"),
        Shown(high - low, f"[{100 * low:.1f}, {100 * high:.1f}]"),
        _spread(sizes),
        _spread(energies, energy_unit),
    )


def _spread(values: Sequence[float | None], unit: Callable[[float], tuple[float, str]] | None = None) -> Shown | None:
    """Mean ± deviation, both in the ``unit`` of the mean; None if a value is missing."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    mean, deviation = statistics.fmean(known), statistics.stdev(known)
    scale, name = (1.0, "") if unit is None else unit(mean)
    wide = deviation / scale
    spread = f" ± {f'{wide:,.0f}' if wide >= 100 else f'{wide:.2g}'}" if deviation else ""
    return Shown(mean, f"{significant(mean / scale)}{spread} {name}".rstrip())


def _key(record: Record, makers: Mapping[str, Record]) -> str:
    """The common key of repetitions: type and settings of all stages from the first network on."""
    steps: list[object] = []
    for _ in range(_GENERATIONS):
        settings = getattr(record, "settings", {})
        steps.append([type(record).__name__, {key: value for key, value in settings.items() if key not in _UNSEEN}])
        parent = network_in(record)
        if parent is None or parent not in makers:
            # The initial weights of a training depend on the seed; any other initial network is the same one.
            steps.append(None if isinstance(record, TrainRecord) else parent)
            break
        record = makers[parent]
    return digest_of(json.dumps(steps, sort_keys=True))


def _common(members: Sequence[NamedRecord]) -> str:
    """The name of a stage: the common part of its results' names, or how it was made."""
    names = [name for name, _ in members]
    inside = {_SEED_INSIDE.sub("", name).strip("/ ") for name in names}
    if len(inside) == 1 and (only := inside.pop()):
        return only
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return _SEED.sub("", "".join(first for first, *_ in alike)) or operation_of(members[0][1])
