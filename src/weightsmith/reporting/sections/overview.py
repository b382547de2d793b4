"""The overview of several results: the networks, their lineage, and notes on comparability."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import holm
from weightsmith.networks.family import Kin, short_digest
from weightsmith.reporting.figures.overview import Branch, NetworkMark, draw_ancestry, draw_networks
from weightsmith.reporting.parts import Cell, Column, Drawing, Facts, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._compared import compared_section, graded_section
from weightsmith.reporting.sections._known_networks import (
    HOLM,
    Judged,
    KnownNetwork,
    NamedRecord,
    change_cells,
    family_of,
    in_order,
    judged_alike,
    known_networks,
    network_in,
    network_out,
)
from weightsmith.reporting.sections._wording import counted, energy_text, percent, percent_within, setting_text, some
from weightsmith.training.run import TrainRecord

__all__ = [
    "Judged",
    "KnownNetwork",
    "NamedRecord",
    "change_cells",
    "compared_section",
    "graded_section",
    "in_order",
    "overview_section",
]

_KINDS = {
    "Train": "training",
    "LabelEvaluation": "evaluation",
    "Reduction": "reduction",
    "RegressionEvaluation": "evaluation",
    "Spike": "spiking",
    "SpikeSweep": "sweep",
    "SweepTable": "table",
    "Tailor": "tailoring",
}  # labels of kinds of results whose names are not words
_MOST_BRANCHES = 60  # networks whose lineage is drawn; more are not readable
_NAMED = 4  # names in a sentence; the others are counted
_HOW = (
    "How to read it: the best networks are at the top left, accurate at low cost; bars are 95 % intervals, and marks "
    "whose bars overlap may differ by chance. Lines lead from a network to those made from it."
)


def overview_section(results: Sequence[NamedRecord], others: Sequence[KnownNetwork] = ()) -> Section:
    """The overview of ``results``, each a name and a record: what was done, to which networks, with what outcome.

    ``others`` are networks of results of other types.
    """
    if not results:
        raise UsageError("no results were given: there is nothing to report")
    networks = known_networks(results, others)
    parts: list[Part] = []
    notes = _notes(results, networks)
    if notes:
        parts.append(Notes(notes))
    alike = judged_alike(networks)
    for against in ("parameters", "energy"):
        for number, (rows, group) in enumerate(alike.items(), 1):
            marked = [each for each in group if getattr(each, against) is not None]
            if marked:
                parts.append(_drawing(marked, against, (_rows_text(rows), number) if len(alike) > 1 else None))
    if networks:
        parts += [_networks(networks), _ancestry(results, networks, others)]
    parts += [_results(results), _facts(results)]
    return Section("Overview", _lead(results, networks), tuple(parts), _chips(networks))


def _lead(results: Sequence[NamedRecord], networks: Sequence[KnownNetwork]) -> str:
    made = Counter(each.making for each in networks)
    kinds = [f"{count:,} {making}" for making, count in made.items() if making != "given"]
    lead = f"{counted(len(results), 'result')} of {counted(len(networks), 'network')}"
    lead += f" ({', '.join(kinds)})." if kinds else "."
    groups = judged_alike(networks)
    if len(groups) == 1:
        return f"{lead} The {_most(networks)} is {_best_of(networks)}"
    for rows, group in list(groups.items())[:_NAMED]:
        among = f"of {len(group)} " if len(group) > 1 else ""
        lead += f" On {_rows_text(rows)} the {_most(group)} {among}is {_best_of(group)}"
    return lead + (" Accuracies on different rows are not ranked against each other." if groups else "")


def _most(networks: Sequence[KnownNetwork]) -> str:
    return "most accurate" if _metric_of(networks) == "accuracy" else f"one with the highest {_metric_of(networks)}"


def _metric_of(networks: Sequence[KnownNetwork]) -> str:
    """The metric by which the networks are judged."""
    return " or ".join(dict.fromkeys(each.judged.metric for each in networks if each.judged is not None)) or "accuracy"


def _best_of(networks: Sequence[KnownNetwork]) -> str:
    """The most accurate of networks judged on the same rows, and cheaper ones that may be as good."""
    best = max((each for each in networks if each.judged is not None), key=_right)
    assert best.judged is not None  # as one of them is
    return f"{best.name} with {percent_within(best.judged.accuracy)}.{_cheaper_networks(networks, best)}"


def _rows_text(rows: tuple[str, str]) -> str:
    data, split = rows
    return f"the {split} rows of {data}" if data else f"{split} rows"


def _right(network: KnownNetwork) -> float:
    return -1.0 if network.judged is None else network.judged.accuracy.value


def _cheaper_networks(networks: Sequence[KnownNetwork], best: KnownNetwork) -> str:
    """The cheapest networks that may be as accurate as the best."""
    savings: dict[str, list[str]] = {}
    for what, words in (("parameters", "the fewest parameters"), ("energy", "the least energy")):
        least = _least(networks, best, what)
        if least is not None:
            size, share = getattr(least, what), percent(getattr(least, what) / getattr(best, what))
            amount = f"{size:,}" if what == "parameters" else energy_text(size)
            savings.setdefault(least.name, []).append(f"{words} ({amount}, {share} of those of {best.name})")
    if not savings:
        return ""
    needs = "; ".join(f"{name} needs {' and '.join(parts)}" for name, parts in savings.items())
    return f" Of those whose intervals overlap with its own, {needs}."


def _least(networks: Sequence[KnownNetwork], best: KnownNetwork, what: str) -> KnownNetwork | None:
    """The network with the least of ``what``, if that is less than the best one's."""
    if best.judged is None or not getattr(best, what):
        return None
    bar = best.judged.accuracy.low
    good = [each for each in networks if each.judged is not None and each.judged.accuracy.high >= bar]
    if what == "parameters":  # a spiking network has those of the network it was converted from
        good = [each for each in good if each.making != "spiking"] or good
    least = min((each for each in good if getattr(each, what)), key=lambda each: (getattr(each, what), -_right(each)))
    return least if getattr(least, what) < getattr(best, what) else None


def _chips(networks: Sequence[KnownNetwork]) -> tuple[tuple[str, str], ...]:
    judged = [each for each in networks if each.judged is not None]
    chips = [("networks", f"{len(networks):,}")]
    if len(judged_alike(networks)) > 1:
        return tuple(chips)  # nothing is ranked across rows
    if judged:
        best = max(judged, key=_right)
        assert best.judged is not None  # as all of them are
        chips.append((f"best {_metric_of(networks)}", f"{percent_within(best.judged.accuracy)} · {best.name}"))
    sized = [each for each in judged if each.parameters is not None and each.making != "spiking"]
    if len(sized) > 1:
        small = min(sized, key=lambda each: (each.parameters or 0, -_right(each)))
        chips.append(("fewest parameters", f"{small.parameters:,} · {small.name}"))
    priced = [each for each in judged if each.energy is not None]
    if len(priced) > 1:
        cheap = min(priced, key=lambda each: (each.energy or 0.0, -_right(each)))
        chips.append(("least energy per image", f"{energy_text(cheap.energy or 0.0)} · {cheap.name}"))
    return tuple(chips)


def _notes(results: Sequence[NamedRecord], networks: Sequence[KnownNetwork]) -> tuple[str, ...]:
    """Notes on why the numbers of this page may not be comparable."""
    lines = []
    unjudged = [each.name for each in networks if each.judged is None and each.making != "given"]
    if unjudged:
        verb = "was" if len(unjudged) == 1 else "were"
        lines.append(f"{some(unjudged)} {verb} not judged on any rows: the results hold no accuracy with an interval.")
    rows: dict[tuple[str, str, int], list[str]] = {}
    for (data, split), group in judged_alike(networks).items():
        for each in group:
            assert each.judged is not None  # as all of a group are
            rows.setdefault((data, split, each.judged.images), []).append(each.name)
    if len(rows) > 1:
        several = len({data for data, *_ in rows}) > 1
        groups = (
            f"{some(names)} on {counted(images, 'image')} ({split}{f' of {data}' if several and data else ''})"
            for (data, split, images), names in rows.items()
        )
        lines.append(f"Accuracies were measured on different rows: {'; '.join(groups)}.")
    chances = {str(each.judged.accuracy.confidence) for each in networks if each.judged is not None}
    if len(chances) > 1:
        lines.append("Intervals have different confidences.")
    versions = Counter(
        origin.versions["weightsmith"] for _, origin in _origins(results) if "weightsmith" in origin.versions
    )
    if len(versions) > 1:
        lines.append(f"The results were computed by different versions of weightsmith: {', '.join(sorted(versions))}.")
    return tuple(lines)


def _drawing(networks: Sequence[KnownNetwork], against: str, of: tuple[str, int] | None = None) -> Drawing:
    """Accuracies on one kind of rows; with several kinds, ``of`` is the name and number of this one."""
    names = {each.digest: each.name for each in networks}
    marks = [
        NetworkMark(
            each.name, each.making, float(getattr(each, against)), each.judged.accuracy, names.get(each.parent or "")
        )
        for each in networks
        if each.judged is not None
    ]
    rows: list[dict[str, Cell]] = [
        {
            "network": mark.name,
            "made": mark.making,
            "parent": mark.parent,
            against if against == "parameters" else "energy_picojoule": mark.at,
            "accuracy": mark.accuracy.value,
            "low": mark.accuracy.low,
            "high": mark.accuracy.high,
        }
        for mark in marks
    ]
    energies = (
        " Energies are those of additions and multiplications alone, without memory; of a network that does not spike, "
        "the price of its MACs."
    )
    metric = _metric_of(networks)
    figure = functools.partial(draw_networks, marks, "parameters" if against == "parameters" else "energy", metric)
    how = _HOW + (energies if against == "energy" else "")
    on, number = ("", "") if of is None else (f" on {of[0]}", f"-{of[1]}")
    title = f"{metric[0].upper()}{metric[1:]} against {against}{on}"
    return Drawing(title, how, figure, rows, file=f"accuracy-by-{against}{number}.csv")


def _networks(networks: Sequence[KnownNetwork]) -> Table:
    columns = (
        Column("network", "the result that made it"),
        Column(_metric_of(networks), "with its interval", numeric=True),
        Column("against its parent", "points, on the same images, with an interval", numeric=True),
        Column("p", HOLM, numeric=True, spare=4),
        Column("parameters", "for a spiking network, of the network it was converted from", numeric=True),
        Column(
            "MACs", "multiply–accumulates per image, those with zeros of the padding included", numeric=True, spare=3
        ),
        Column("ACs", "accumulates per image, of spiking networks", numeric=True, spare=2),
        Column(
            "energy",
            "per image, without MACs with zeros of the padding; ≈: not counted in a run, but at the default price "
            "(reductions of older versions: with the padding)",
            numeric=True,
        ),
        Column("images", "that the accuracy was measured on", numeric=True, spare=5),
        Column("made", "how"),
        Column("digest", "first digits of the SHA-256 of its weights", spare=1),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    several = len({data for data, _ in judged_alike(networks)}) > 1
    ps = holm([None if each.cost is None else each.cost.p for each in networks])
    for each, p in zip(networks, ps, strict=True):
        judged, cost = each.judged, each.cost
        rows.append(
            (
                each.name,
                None if judged is None else Shown(judged.accuracy.value, percent_within(judged.accuracy)),
                *((None, None) if cost is None else change_cells(cost, p)),
                each.parameters,
                each.macs,
                None if each.accumulates is None else round(each.accumulates),
                _energy(each),
                None if judged is None else Shown(judged.images, _images_text(judged, several)),
                each.operation,
                short_digest(each.digest),
            )
        )
    return Table("Networks", columns, tuple(rows), file="networks.csv")


def _images_text(judged: Judged, several: bool) -> str:
    return f"{judged.images:,} {judged.split}{f' of {judged.data}' if several and judged.data else ''}"


def _energy(network: KnownNetwork) -> Shown | None:
    if network.energy is None:
        return None
    return Shown(network.energy, f"{'≈ ' if network.assumed else ''}{energy_text(network.energy)}")


def _ancestry(
    results: Sequence[NamedRecord], networks: Sequence[KnownNetwork], others: Sequence[KnownNetwork]
) -> Drawing:
    known = {each.digest: each for each in networks}
    kin = family_of(results, others).kin
    branches = [_branch(each, known.get(each.network), results) for each in kin[:_MOST_BRANCHES]]
    names = {each.digest: each.name for each in networks}
    rows: list[dict[str, Cell]] = [
        {
            "network": branch.name,
            "generation": branch.depth,
            "made": branch.operation,
            "digest": each.network,
            "parent": names.get(each.parent or "", each.parent),
        }
        for each, branch in zip(kin, branches, strict=False)
    ]
    how = "How to read it: every network is listed below the one it was made from, with the operation and its accuracy."
    if len(kin) > len(branches):
        how += f" The first {len(branches)} of {len(kin):,} are drawn."
    return Drawing("Ancestry", how, functools.partial(draw_ancestry, branches), rows, file="ancestry.csv")


def _branch(kin: Kin, known: KnownNetwork | None, results: Sequence[NamedRecord]) -> Branch:
    if known is not None:
        right = "" if known.judged is None else percent_within(known.judged.accuracy)
        return Branch(kin.depth, known.name, known.making, known.operation, right)
    before = any(network_in(record) == kin.network and isinstance(record, TrainRecord) for _, record in results)
    remark = "before training" if before else "not among the results"
    return Branch(kin.depth, short_digest(kin.network), None, remark)


def _results(results: Sequence[NamedRecord]) -> Table:
    columns = (
        Column("result", "its name"),
        Column("kind"),
        Column("seed", numeric=True),
        Column("network in", "first digits of the SHA-256 of its weights"),
        Column("network out", "the same for the resulting network"),
        Column("other inputs", "data and other networks, by their SHA-256"),
        Column("record", "first digits of the record’s own SHA-256", spare=1),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for name, record in results:
        origin = getattr(record, "origin", Origin(versions={}))
        others = [f"{key} {short_digest(value)}" for key, value in sorted(origin.inputs.items()) if key != "network"]
        digests = [short_digest(each) if each else None for each in (network_in(record), network_out(record))]
        rows.append(
            (name, _kind(record), origin.seed, *digests, ", ".join(others) or None, short_digest(record.digest()))
        )
    return Table("Results", columns, tuple(rows), file="results.csv")


def _kind(record: Record) -> str:
    name = type(record).__name__.removesuffix("Record")
    return _KINDS.get(name, name.lower())


def _origins(results: Sequence[NamedRecord]) -> list[tuple[str, Origin]]:
    return [(name, origin) for name, record in results if isinstance(origin := getattr(record, "origin", None), Origin)]


def _facts(results: Sequence[NamedRecord]) -> Facts:
    """Seeds and versions of all results together."""
    origins = [origin for _, origin in _origins(results)]
    seeds = sorted({origin.seed for origin in origins if origin.seed is not None})
    versions: dict[str, set[str]] = {}
    for origin in origins:
        for package, version in origin.versions.items():
            versions.setdefault(package, set()).add(version)
    return Facts(
        "Seeds and versions",
        (
            ("seeds", setting_text(seeds)),
            *((package, ", ".join(sorted(found))) for package, found in sorted(versions.items())),
        ),
    )
