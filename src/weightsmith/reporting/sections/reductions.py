"""The description of several reductions side by side: methods on one network, or all reductions of a report."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from weightsmith.core.statistics import holm
from weightsmith.reducing.results import Reduction, ReductionRecord
from weightsmith.reporting.figures.reducing import draw_sizes
from weightsmith.reporting.parts import Cell, Column, Drawing, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._known_networks import HOLM, change_cells, network_in, reduced_how
from weightsmith.reporting.sections._never_cut import never_cut
from weightsmith.reporting.sections._reducing_findings import advice, concerns
from weightsmith.reporting.sections._wording import accuracy, counted, percent, percent_within, rounded, seconds_text
from weightsmith.reporting.sections.reducing import SIZES, about_reduction, notes_of, ratio_text

__all__ = ["methods_section", "reduction_parts"]

_MOST_POINTS = 12  # reductions in one figure that are distinguishable
_NAMED = 3  # methods in the answer
_Point = tuple[float, float, float, float]
_Cells = tuple[Cell | Shown, ...]


def methods_section(
    results: Sequence[Reduction], name: str, *, least_accuracy: float | None = None, kept: bool = True
) -> Section:
    """The description of several methods on the network ``name``; arguments as for one reduction."""
    records = [result.record for result in results]
    named = [(f"{number} {record.settings['by']}", record) for number, record in enumerate(records, 1)]
    notes = [(f"{label.partition(' ')[0]}: ", notes_of(record)) for label, record in named]
    lines = tuple(_shared(notes))
    parts: list[Part] = [Notes(lines)] if lines else []
    parts += [
        *reduction_parts(named, numbered=True),
        _sizes(results),
        _layers(records),
        *never_cut(records[0].obstacles),
    ]
    look_at = [(f"{record.settings['by']}: ", concerns(record, least_accuracy)) for record in records]
    return Section(
        f"Reductions: {name}",
        _lead(records),
        tuple(parts),
        (
            (
                f"{records[0].measured.metric} before",
                accuracy(records[0].measured.whole, records[0].measured.images, records[0].measured.split),
            ),
        ),
        about_reduction(records[0]),
        tuple(f"{who}{line}" for who, found in look_at for line in found),
        tuple(_shared([(f"{number}: ", advice(record, kept=kept)) for number, record in enumerate(records, 1)])),
    )


def reduction_parts(several: Sequence[tuple[str, ReductionRecord]], *, numbered: bool = False) -> Iterator[Part]:
    """Accuracy against size of named reductions, drawn and as a table; ``numbered``: names begin with a number."""
    found = {name: [_point(record)] for name, record in several}
    drawn = dict(list(found.items())[:_MOST_POINTS])
    baselines = {network_in(record): record.measured.whole.value for _, record in several}
    baseline = 100 * next(iter(baselines.values())) if len(baselines) == 1 else None
    for name, record in several[:_MOST_POINTS] if baseline is not None else ():
        random, scratch = record.random, record.scratch
        share = found[name][0][0]
        if random is not None and random.interval is not None:
            ends = (random.interval.value, random.interval.low, random.interval.high)
            drawn.setdefault("random masks, untrained", []).append((share, *ends))
        if scratch is not None and scratch.mean is not None:
            ends = (100 * scratch.mean.value, 100 * scratch.mean.low, 100 * scratch.mean.high)
            drawn.setdefault("from scratch", []).append((share, *ends))
    rows: list[dict[str, Cell]] = [
        {"network": name, "parameters_left": share, "accuracy": value / 100, "low": low / 100, "high": high / 100}
        for name, each in drawn.items()
        for share, value, low, high in each
    ]
    more = f" The first {_MOST_POINTS} of {len(several):,} are drawn." if len(several) > _MOST_POINTS else ""
    how = (
        "How to read it: each point is a reduced network with the 95 % interval of its accuracy; smaller networks "
        f"are further left, and the best are at the top left.{more}"
    )
    figure = functools.partial(draw_sizes, drawn, baseline)
    yield Drawing("Accuracy against size of all reductions", how, figure, rounded(rows), file="reductions-by-size.csv")
    yield _table(several, numbered)
    yield from _pairs(several)


def _pairs(several: Sequence[tuple[str, ReductionRecord]]) -> Iterator[Table]:
    """The reductions against each other, if they were judged on the same rows."""
    found = [
        (one, other, comparison)
        for (one, ours), (other, theirs) in itertools.combinations(several, 2)
        if (comparison := ours.measured.against(theirs.measured)) is not None
    ]
    if not found:
        return
    columns = (
        Column("reduction"),
        Column("other"),
        Column("difference", "of accuracy in points, reduction − other on the same rows", numeric=True),
        Column("p", HOLM, numeric=True),
    )
    corrected = holm([comparison.p for *_, comparison in found])
    rows = tuple(
        (one, other, *change_cells(comparison, p)) for (one, other, comparison), p in zip(found, corrected, strict=True)
    )
    yield Table("Reductions against each other", columns, rows, file="pairs.csv", detail=len(rows) > _MOST_POINTS)


def _lead(records: Sequence[ReductionRecord]) -> str:
    """The methods by accuracy, each with the size it leaves."""
    first = records[0].measured
    best = sorted(records, key=lambda record: -record.measured.reduced.value)
    told = [
        f"{record.settings['by']} is right on {percent(record.measured.reduced.value)} with "
        f"{percent(record.reduced.parameters / record.whole.parameters)} of the parameters"
        for record in best[:_NAMED]
    ]
    rows = f"On {counted(first.images, 'row')} ({first.split})"
    more = f"; {counted(len(best) - _NAMED, 'more method')} below" if len(best) > _NAMED else ""
    return f"{rows} the network is right on {percent(first.whole.value)}; {', '.join(told)}{more}."


def _shared(found: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Lines, each after the names it applies to; lines that apply to all come last, without names."""
    names: dict[str, list[str]] = {}
    for who, lines in found:
        for line in lines:
            names.setdefault(line, []).append(who.removesuffix(": "))
    own = sorted(names.items(), key=lambda item: len(item[1]) == len(found))
    return [line if len(who) == len(found) else f"{', '.join(who)}: {line}" for line, who in own]


def _point(record: ReductionRecord) -> _Point:
    reduced = record.measured.reduced
    share = record.reduced.parameters / record.whole.parameters
    return share, 100 * reduced.value, 100 * reduced.low, 100 * reduced.high


def _table(several: Sequence[tuple[str, ReductionRecord]], numbered: bool) -> Table:
    columns = (
        Column("reduction"),
        Column("by", spare=1),
        Column("parameters left", numeric=True),
        Column("MACs left", numeric=True, spare=3),
        Column("units", numeric=True, spare=4),
        Column("just cut", "before any training", numeric=True, spare=6),
        Column(several[0][1].measured.metric, numeric=True),
        Column("change", "points, against the original network, on the same rows", numeric=True),
        Column("p", HOLM, numeric=True),
        Column("random masks", "of the same size, ± standard deviation", numeric=True, spare=5),
        Column("from scratch", numeric=True, spare=2),
    )
    ps = holm([record.measured.cost.p for _, record in several])
    heads = [Shown(name, name.partition(" ")[0]) if numbered else name for name, _ in several]
    records = [record for _, record in several]
    rows = tuple((head, *_row(record, p)) for head, record, p in zip(heads, records, ps, strict=True))
    return Table("Reductions", columns, rows, _rows_of(records), file="reductions.csv").filled()


def _row(record: ReductionRecord, p: float | None) -> _Cells:
    before, after, measured, scratch = record.whole, record.reduced, record.measured, record.scratch
    shares = (after.parameters / before.parameters, after.macs / before.macs if before.macs else None)
    mean = None if scratch is None else (scratch.accuracies[0] if scratch.mean is None else scratch.mean).value
    return (
        reduced_how(record.settings),
        *(Shown(share, percent(share)) for share in shares),
        Shown(after.units, f"{before.units:,} → {after.units:,}"),
        Shown(measured.cut.value, percent(measured.cut.value)),
        Shown(measured.reduced.value, percent_within(measured.reduced)),
        *change_cells(measured.cost, p),
        _random(record),
        Shown(mean, percent(mean)),
    )


def _random(record: ReductionRecord) -> Shown:
    random = record.random
    if random is None:
        return Shown(None, "–")
    spread = "" if random.deviation is None else f" ± {random.deviation:.1f}"
    return Shown(random.mean / 100, f"{percent(random.mean / 100)}{spread}")


def _rows_of(records: Sequence[ReductionRecord]) -> str:
    """The rows on which the accuracies were measured."""
    rows = {f"{counted(each.measured.images, 'row')} ({each.measured.split})" for each in records}
    return (
        f"Accuracies on {rows.pop()}."
        if len(rows) == 1
        else f"Accuracies on different rows: {', '.join(sorted(rows))}."
    )


def _sizes(results: Sequence[Reduction]) -> Table:
    """Sizes and times, a row for the original network and for each method."""
    latencies = [result.latency for result in results if result.latency is not None]
    batches = [ratio.batch for ratio in latencies[0].ratios] if len(latencies) == len(results) else []
    columns = [
        Column("method"),
        *(Column(name, numeric=True, spare=spare) for (name, _, _), spare in zip(SIZES, (2, 0, 1, 3), strict=True)),
    ]
    columns += [Column(f"time, batch {batch}", numeric=True) for batch in batches]
    whole = results[0].record.whole
    rows: list[_Cells] = [
        (
            "before",
            *(Shown(getattr(whole, field), text(getattr(whole, field))) for _, field, text in SIZES),
            *(Shown(time := latencies[0].before.at(batch).median, seconds_text(time)) for batch in batches),
        )
    ]
    for number, result in enumerate(results, 1):
        after = result.record.reduced
        cells: list[Cell | Shown] = [Shown(f"{number} {result.record.settings['by']}", str(number))]
        for _, field, text in SIZES:
            size, base = getattr(after, field), getattr(whole, field)
            cells.append(Shown(size, f"{text(size)} ({percent(size / base)})" if base else text(size)))
        for batch in batches:
            latency = latencies[number - 1]
            time = latency.after.at(batch).median
            cells.append(Shown(time, f"{seconds_text(time)}, {ratio_text(latency.at(batch))}"))
        rows.append(tuple(cells))
    caption = (
        "In brackets the share that is left; times are per image, with the middle half of their ratios."
        if batches
        else "In brackets the share that is left."
    )
    return Table("Sizes", tuple(columns), tuple(rows), caption, file="sizes.csv")


def _layers(records: Sequence[ReductionRecord]) -> Table:
    """The units that each method leaves in each layer."""
    columns = [Column("layer"), Column("before", "units", numeric=True)]
    columns += [Column(str(number), numeric=True) for number in range(1, len(records) + 1)]
    rows = tuple(
        (
            sites[0].name,
            sites[0].before,
            *(Shown(site.after, "refused" if site.refused else f"{site.after:,}") for site in sites),
        )
        for sites in zip(*(record.sites for record in records), strict=True)
    )
    return Table("Layers", tuple(columns), rows, file="layers.csv")
