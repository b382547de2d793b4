"""The description of a reduction: the method, the size, the cost in accuracy, and the baselines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from weightsmith.core.statistics import Interval
from weightsmith.reducing.budget import BudgetRecord
from weightsmith.reducing.decisions import FrontPoint
from weightsmith.reducing.results import Reduction, ReductionRecord, SiteReduction
from weightsmith.reporting.figures.reducing import draw_front, draw_sites, draw_sizes, draw_trace, gone_by_reason
from weightsmith.reporting.figures.training import curves
from weightsmith.reporting.parts import Cell, Choice, Column, Drawing, Facts, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._never_cut import never_cut
from weightsmith.reporting.sections._reducing_findings import advice, concerns
from weightsmith.reporting.sections._wording import (
    accuracy,
    bytes_text,
    chance,
    changed,
    conclusion,
    counted,
    facts_of,
    gathered,
    percent,
    rounded,
    seconds_text,
    short_network,
    thinned,
)
from weightsmith.training.run import TrainRecord

if TYPE_CHECKING:
    from weightsmith.reducing.latency import LatencyComparison, Ratio

__all__ = [
    "SIZES",
    "about_reduction",
    "chosen_of_front",
    "notes_of",
    "points_of",
    "ratio_text",
    "reduction_section",
]

_Point = tuple[float, float, float, float]
_TIMES = "Times are medians, in brackets the middle half of their ratios"
SIZES: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("units", "units", "{:,}".format),
    ("parameters", "parameters", "{:,}".format),
    ("multiply–accumulates", "macs", "{:,}".format),
    ("file", "file_bytes", bytes_text),
)
"""The measures of a network's size: name, field, and how they are written."""


def reduction_section(
    result: Reduction | ReductionRecord, name: str, *, least_accuracy: float | None = None, kept: bool = True
) -> Section:
    """The description of a reduction named ``name``.

    ``least_accuracy`` is the required accuracy in per cent; ``kept``: the smaller network was written.
    """
    record, latency = (result.record, result.latency) if isinstance(result, Reduction) else (result, None)
    parts: list[Part] = [*_notes(record), _sizes(record), _size_table(record, latency), _accuracies(record)]
    parts += _search(record)
    if record.sites:
        parts += [_units(record), _sites(record)]
    parts += [*_recovery(record), *never_cut(record.obstacles), _facts(record)]
    return Section(
        f"Reduction: {name}",
        _lead(record),
        tuple(parts),
        _chips(record),
        about_reduction(record, record.settings["by"]),
        tuple(concerns(record, least_accuracy)),
        tuple(advice(record, kept=kept)),
    )


def about_reduction(record: ReductionRecord, *methods: str) -> str:
    """What was reduced, by what, and with which settings."""
    settings = record.settings
    words = [record.network, *methods]
    words += [f"{key} {settings[key]}" for key in ("target", "plan", "recover") if settings.get(key) is not None]
    words += [f"layers {' '.join(settings['layers'])}"] if settings.get("layers") else []
    words += [f"{settings['rows']:,} training rows"] if settings.get("rows") else []
    return " · ".join([*words, f"seed {record.origin.seed}"])


def _size_table(record: ReductionRecord, latency: LatencyComparison | None) -> Table:
    """Sizes and times before and after, and the share that is left."""
    columns = (Column("size"), *(Column(head, numeric=True) for head in ("before", "after", "left")))
    rows: list[tuple[Cell | Shown, ...]] = []
    for name, measure, text in SIZES:
        before, after = getattr(record.whole, measure), getattr(record.reduced, measure)
        left = after / before if before else None
        rows.append((name, Shown(before, text(before)), Shown(after, text(after)), Shown(left, percent(left))))
    if latency is not None:
        for ratio in latency.ratios:
            times = [each.at(ratio.batch).median for each in (latency.before, latency.after)]
            cells = (Shown(seconds, seconds_text(seconds)) for seconds in times)
            rows.append((f"time per image, batch {ratio.batch}", *cells, Shown(ratio.median, ratio_text(ratio))))
    caption = "" if latency is None else f"{_TIMES} ({latency.before.clock}).{_slower(record, latency)}"
    return Table("Sizes", columns, tuple(rows), caption, file="sizes.csv")


def _slower(record: ReductionRecord, latency: LatencyComparison) -> str:
    """What to do if the smaller network is slower: processors compute channels in groups of eight or sixteen."""
    batches = [str(ratio.batch) for ratio in latency.ratios if ratio.low > 1]
    target = record.settings.get("target")
    if not batches or target is None or "multiple" in str(target):
        return ""
    return f" Slower in batches of {' and '.join(batches)}: give target={target},multiple=8 to keep multiples of eight."


def ratio_text(ratio: Ratio) -> str:
    """The time after ÷ the time before, with the middle half of the samples."""
    return f"{percent(ratio.median)} [{100 * ratio.low:.0f}, {100 * ratio.high:.0f}]"


def points_of(record: ReductionRecord) -> dict[str, _Point]:
    """The result and its baselines by label: share of parameters, accuracy with its interval in per cent.

    A single random mask has no interval: low and high are its accuracy.
    """
    measured, random, scratch = record.measured, record.random, record.scratch
    share = record.reduced.parameters / record.whole.parameters
    points = {"before": _point(1.0, measured.whole), "just cut": _point(share, measured.cut)}
    if record.settings["recover"] is not None:
        points["recovered"] = _point(share, measured.reduced)
    if random is not None:
        span = (random.mean, random.mean) if random.interval is None else (random.interval.low, random.interval.high)
        points["random masks, untrained"] = (share, random.mean, *span)
    if scratch is not None:
        points["from scratch"] = _point(share, scratch.accuracies[0] if scratch.mean is None else scratch.mean)
    return points


def chosen_of_front(record: ReductionRecord) -> FrontPoint | None:
    """The chosen network of the front; after several rounds the front has other units than the result."""
    kept = {site.name: site.kept for site in record.sites}
    return next((point for point in record.front if point.kept == kept), None)


def _point(share: float, interval: Interval) -> _Point:
    return share, 100 * interval.value, 100 * interval.low, 100 * interval.high


def _lead(record: ReductionRecord) -> str:
    before, after, measured = record.whole, record.reduced, record.measured
    by, network = record.settings["by"], short_network(record.network)
    if before.units == after.units:
        return f"{by} removed nothing from {network}: all {counted(before.units, 'unit')} are left."
    left = percent(after.parameters / before.parameters)
    lead = (
        f"{by} removed {before.units - after.units:,} of {counted(before.units, 'unit')} from {network} and left "
        f"{left} of its parameters."
    )
    recovered = f" after {record.settings['recover']}" if record.settings["recover"] else ""
    return (
        f"{lead} {_headed(record)} on {counted(measured.images, 'row')} ({measured.split}) went from "
        f"{percent(measured.whole.value)} to {percent(measured.reduced.value)}{recovered}: {changed(measured.cost)}, "
        f"{'paired t-test, ' if measured.metric == 'R²' else 'McNemar’s '}{chance(measured.cost.p)}: "
        f"{conclusion(measured.cost)}."
    )


def _chips(record: ReductionRecord) -> tuple[tuple[str, str], ...]:
    before, after, measured = record.whole, record.reduced, record.measured
    return (
        (f"{measured.metric} before", accuracy(measured.whole, measured.images, measured.split)),
        (f"{measured.metric} after", accuracy(measured.reduced, measured.images, measured.split)),
        ("units", f"{before.units:,} → {after.units:,}"),
        ("parameters", f"{before.parameters:,} → {after.parameters:,}"),
    )


def _shared_out(budget: BudgetRecord) -> str:
    """How the target was divided among the layers, and what the other ways would have cost."""
    ways = {"all": "over all layers", "inner": "inside blocks only", "uniform": "evenly"}
    others = ", ".join(
        f"{ways[name]} {value:.3g}" for name, value in budget.divergences.items() if name != budget.taken
    )
    least = budget.divergences[budget.taken]
    return f"The target was divided {ways[budget.taken]}: outputs diverge by {least:.3g} (others: {others})."


def notes_of(record: ReductionRecord) -> tuple[str, ...]:
    """The notes of the reduction and of its layers, and what its baselines show."""
    recovered = map(str, record.recovery)
    lines = (*recovered, *record.notes, *gathered((note, site.name) for site in record.sites for note in site.notes))
    if record.measured.split == "train":
        lines += ("Accuracies and R² are on training rows, which the method has seen: there were no others.",)
    if record.random is not None and 2 * record.random.as_good(100 * record.measured.cut.value) >= len(
        record.random.accuracies
    ):
        gain = "training" if record.refit is None else "the refit"
        lines += (f"Just after the cut, random masks of the same size were as good: the gain came from {gain}.",)
    if record.budget is not None:
        lines += (_shared_out(record.budget),)
    return lines


def _notes(record: ReductionRecord) -> Iterator[Notes]:
    if lines := notes_of(record):
        yield Notes(lines)


def _sizes(record: ReductionRecord) -> Drawing:
    points = points_of(record)
    rows: list[dict[str, Cell]] = [
        {"network": label, "parameters_left": share, "accuracy": value / 100, "low": low / 100, "high": high / 100}
        for label, (share, value, low, high) in points.items()
    ]
    how = "How to read it: each point is a network with its 95 % interval; smaller networks are further left"
    if record.random is not None:
        how += "; a method has found something only if it is above random masks of the same size"
    if record.scratch is not None:
        how += "; it is worth it only if it is above the same small network trained from scratch"
    several = {label: [point] for label, point in points.items()}
    figure = functools.partial(draw_sizes, several, 100 * record.measured.whole.value, metric=record.measured.metric)
    return Drawing(f"{_headed(record)} against size", f"{how}.", figure, rounded(rows), file="accuracy-by-size.csv")


def _headed(record: ReductionRecord) -> str:
    return record.measured.metric[0].upper() + record.measured.metric[1:]


def _units(record: ReductionRecord) -> Drawing:
    rows: list[dict[str, Cell]] = [
        {"layer": site.name, "units": count, "what": what}
        for site in record.sites
        for what, count in (("left", site.after), *gone_by_reason(site).items())
    ]
    how = (
        "How to read it: the length of a bar is the original width of the layer; blue units remain, paler ones "
        "were removed, each colour for a different reason."
    )
    return Drawing("Units by layer", how, functools.partial(draw_sites, record.sites), rows, file="units-by-layer.csv")


def _accuracies(record: ReductionRecord) -> Table:
    """All measured accuracies, a row each."""
    measured, random, scratch = record.measured, record.random, record.scratch
    columns = (
        Column("network"),
        Column(measured.metric, numeric=True),
        Column("95 % interval", numeric=True),
        Column("what it is"),
    )
    rows = [_accuracy("before", measured.whole, "the original network")]
    remark = "without its units, nothing trained since"
    if measured.unfitted is not None and record.refit is not None:
        rows.append(_accuracy("not refitted", measured.unfitted, "the cut before its refit"))
        remark = f"readers refitted on {counted(record.refit.rows, 'unlabelled row')}, nothing trained since"
    rows.append(_accuracy("just cut", measured.cut, remark))
    if record.settings["recover"]:
        unused = bool(record.recovery) and all(each.kept == "cut" for each in record.recovery)
        remark = (
            f"as cut: {record.settings['recover']} was no better" if unused else f"after {record.settings['recover']}"
        )
        rows.append(_accuracy("recovered", measured.reduced, remark))
    if random is not None:
        good = random.as_good(100 * measured.cut.value)
        spread = "" if random.deviation is None else f", standard deviation {random.deviation:.1f}"
        how = "untrained" if record.refit is None else "refitted"
        masks = counted(len(random.accuracies), "mask")
        remark = f"{masks} of this size, {how}{spread}; {good or 'none'} as good as the cut"
        rows.append(_accuracy("random masks", random.interval, remark, random.mean / 100, 100))
    if scratch is not None:
        mean = scratch.accuracies[0] if scratch.mean is None else scratch.mean
        remark = f"fresh weights, {scratch.option}, {counted(len(scratch.seeds), 'seed')}"
        rows.append(_accuracy("from scratch", mean, remark))
    caption = (
        f"On {counted(measured.images, 'row')} ({measured.split}). Intervals are "
        f"{'Wilson’s' if measured.metric == 'accuracy' else 'Student’s'} over rows, "
        "Student’s over masks and seeds."
    )
    return Table(
        "Accuracies" if measured.metric == "accuracy" else measured.metric,
        columns,
        tuple(rows),
        caption,
        file="accuracies.csv",
    )


def _accuracy(
    label: str, interval: Interval | None, remark: str, value: float | None = None, scale: float = 1.0
) -> tuple[Cell | Shown, ...]:
    """A row; ``scale`` is the value of the interval that counts as 1."""
    share = interval.value / scale if interval is not None else value
    span = Shown(None, "–")
    if interval is not None:
        low, high = interval.low / scale, interval.high / scale
        span = Shown(high - low, f"[{100 * low:.1f}, {100 * high:.1f}]")
    return label, Shown(share, percent(share)), span, remark


def _search(record: ReductionRecord) -> Iterator[Drawing]:
    """The history of a search, and its front."""
    if record.trace is not None and record.trace.rows:
        rows = thinned([row.to_dict() for row in record.trace.rows])
        how = (
            "How to read it: the best mask of each generation should climb and then level off, which means that "
            "more generations would bring little; where the mean meets the best, the population has converged."
        )
        figure = functools.partial(draw_trace, record.trace)
        yield Drawing("The search by generation", how, figure, rounded(rows), file="search.csv")
    if record.front:
        chosen = chosen_of_front(record)
        points = sorted(record.front, key=lambda point: (point.units, point.accuracy))
        rows = [
            {"units": point.units, "accuracy": point.accuracy / 100, "chosen": "yes" if point is chosen else "no"}
            for point in points
        ]
        how = (
            "How to read it: no network that was found is both smaller and more accurate than one on this line; "
            "where it bends, removing units begins to cost accuracy. Accuracies are on the rows used by the "
            "search."
        )
        figure = functools.partial(draw_front, record.front, chosen)
        yield Drawing("The front of accuracy and size", how, figure, rounded(thinned(rows)), file="front.csv")


def _sites(record: ReductionRecord) -> Table:
    columns = [
        Column("layer"),
        Column("kind", spare=1),
        Column("before", "units", numeric=True),
        Column("kept", numeric=True),
        Column("removed", numeric=True, spare=2),
        Column("left", "kept ÷ before", numeric=True),
        Column("what went"),
    ]
    optional = {
        Column("written by", "all layers that write the units; they are removed from all of them"): [
            ", ".join(site.layers) if len(site.layers) > 1 else None for site in record.sites
        ],
        Column("refused", "why the chosen units could not be removed"): [site.refused for site in record.sites],
        Column("notes", spare=3): ["; ".join(site.notes) or None for site in record.sites],
    }
    more = {column: cells for column, cells in optional.items() if any(cells)}
    rows = tuple((*_site(site), *(cells[index] for cells in more.values())) for index, site in enumerate(record.sites))
    return Table("Layers", (*columns, *more), rows, file="layers.csv")


def _site(site: SiteReduction) -> tuple[Cell | Shown, ...]:
    share = site.after / site.before
    went = ", ".join(f"{count} {reason}" for reason, count in gone_by_reason(site).items())
    gone = site.before - site.after
    return site.name, site.kind, site.before, site.after, gone, Shown(share, percent(share)), went or "nothing"


def _recovery(record: ReductionRecord) -> Iterator[Part]:
    """The curves of the training after the cut; of several rounds one at a time."""
    drawn = [
        (f"round {number}", _curves(training, number))
        for number, training in enumerate(record.training, 1)
        if training.history.rows
    ]
    if len(drawn) == 1:
        yield drawn[0][1]
    elif drawn:
        options = tuple((label, (drawing,)) for label, drawing in drawn)
        yield Choice("Training after each cut", options, first=len(options) - 1)


def _curves(training: TrainRecord, number: int) -> Drawing:
    history = training.history
    columns = {name: history.column(name) for name in history.columns}
    rows = [{name: values[index] for name, values in columns.items()} for index in range(len(history))]
    how = "How to read it: the smaller network learns again; where the curves level off, more epochs bring little."
    figure = functools.partial(curves, history, best=training.best_epoch or None)
    return Drawing("Training after the cut", how, figure, rounded(thinned(rows)), file=f"recovery-{number}.csv")


def _facts(record: ReductionRecord) -> Facts:
    after = [
        ("largest difference between the outputs of the smaller and of the masked network", f"{record.difference:.2g}"),
        ("SHA-256 of the reduced network", record.result),
    ]
    return facts_of(record.settings, record.origin, before=[("network", record.network)], after=after)
