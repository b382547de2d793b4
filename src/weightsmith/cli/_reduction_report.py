"""Print a reduction: removed units by layer, sizes, cost in accuracy, and advice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from weightsmith.cli._reduction_files import reasons
from weightsmith.cli._reduction_findings import advice
from weightsmith.cli.terminal import count_text, out, percent, table
from weightsmith.reporting.sections._wording import bytes_text, chance, conclusion

if TYPE_CHECKING:
    from weightsmith.reducing.latency import LatencyComparison
    from weightsmith.reducing.results import Reduction, ReductionRecord, SiteReduction

__all__ = ["files_line", "gathered", "named_line", "named_lines", "show_comparison", "show_reduction"]

_INDENT = 15  # width of the names of lines
_COUPLED = "(+n): n more layers write the same units, which go from all of them at once"
_SECONDS = ("ns", "µs", "ms", "s")
_FILES = 6  # files that are named; the others are counted
_LINES = 6  # remarks of one kind that are shown; the others are counted
_NAMED = 4  # layers that a note names; the others are counted


def show_reduction(result: Reduction, source: str, data: str, written: Sequence[Path], *, kept: bool) -> None:
    """Print one reduction."""
    console, record = out(), result.record
    console.print(f"[bold]{escape(source)}[/bold]  {escape(record.network)} on {escape(data)}")
    console.print(escape(" · ".join([record.settings["by"], *_settings(record)])))
    console.print(_site_table(record.sites))
    if any(len(site.layers) > 1 for site in record.sites):
        console.print(f"[dim]{_COUPLED}[/dim]")
    console.print(_size_table(result))
    for line in (*_accuracies(record), *_baselines(record), *_remarks([record])):
        console.print(line)
    _show_end([result], written, kept)


def show_comparison(
    results: Sequence[Reduction], source: str, data: str, written: Sequence[Path], *, kept: bool
) -> None:
    """Print several reductions of one network, a column for each."""
    console, first = out(), results[0].record
    console.print(f"[bold]{escape(source)}[/bold]  {escape(first.network)} on {escape(data)}")
    console.print(escape(" · ".join(_settings(first))))
    for number, result in enumerate(results, 1):
        console.print(f"[bold]{number:>2}[/bold]  {escape(result.record.settings['by'])}")
    console.print(_sites_side_by_side(results))
    if any(len(site.layers) > 1 for site in first.sites):
        console.print(f"[dim]{_COUPLED}[/dim]")
    console.print(_side_by_side(results))
    console.print(f"[dim]{_accuracy_legend(first)}; change in points; p of McNemar's test against the whole[/dim]")
    for line in _remarks([result.record for result in results]):
        console.print(line)
    _show_end(results, written, kept)


def _settings(record: ReductionRecord) -> list[str]:
    """The settings without the method."""
    settings = record.settings
    words = [f"{name} {settings[name]}" for name in ("target", "plan", "recover") if settings[name] is not None]
    words += [f"layers {' '.join(settings['layers'])}"] if settings["layers"] else []
    words += [f"{count_text(settings['rows'])} training rows"] if settings["rows"] else []
    return [*words, f"seed {settings['seed']}"]


def _site_table(sites: Sequence[SiteReduction]) -> Table:
    rows = table("layer", "units", "left", "what went", numbers=("units", "left"))
    for site in sites:
        rows.add_row(
            escape(_name(site)),
            f"{site.before} → {site.after}",
            _share(site.after, site.before),
            escape(_removals(site)),
        )
    return rows


def _name(site: SiteReduction) -> str:
    """The first layer that writes the units, and the number of others."""
    return site.name if len(site.layers) == 1 else f"{site.name} (+{len(site.layers) - 1})"


def _removals(site: SiteReduction) -> str:
    if site.refused:
        return f"REFUSED: {site.refused}"
    last = "last round: " if site.removals and len(site.removals) != site.before - site.after else ""
    return f"{last}{reasons(site)}" or "nothing"


def _size_table(result: Reduction) -> Table:
    """Sizes and times before and after; a time has the middle half of its samples next to it."""
    before, after = result.record.whole, result.record.reduced
    rows = table("", "before", "after", "left", "", numbers=("before", "after", "left"))
    for name, measure in (("units", "units"), ("parameters", "parameters"), ("multiply–accumulates", "macs")):
        old, new = getattr(before, measure), getattr(after, measure)
        rows.add_row(name, count_text(old), count_text(new), _share(new, old), "")
    sizes = before.file_bytes, after.file_bytes
    rows.add_row("file", *map(bytes_text, sizes), _share(sizes[1], sizes[0]), "")
    if result.latency is not None:
        _add_times(rows, result.latency)
    return rows


def _add_times(rows: Table, latency: LatencyComparison) -> None:
    for ratio in latency.ratios:
        old, new = latency.before.at(ratio.batch), latency.after.at(ratio.batch)
        spread = f"middle half {100 * ratio.low:.0f} – {100 * ratio.high:.0f} %"
        name = f"time per image, batch {ratio.batch}"
        rows.add_row(name, _seconds(old.median), _seconds(new.median), f"{100 * ratio.median:.1f} %", spread)


def _accuracies(record: ReductionRecord) -> list[Table | str]:
    measured, recover = record.measured, record.settings["recover"]
    lines: list[Table | str] = [f"[dim]{_accuracy_legend(record)}[/dim]", named_line("whole", percent(measured.whole))]
    lines.append(
        named_line("after the cut", percent(measured.cut) if recover else f"[bold]{percent(measured.cut)}[/bold]")
    )
    if recover:
        lines.append(named_line("recovered", f"[bold]{percent(measured.reduced)}[/bold]  after {escape(recover)}"))
    verdict = conclusion(measured.cost)
    lines.append(named_line("change", f"{_points(record)} points, {chance(measured.cost.p)} (McNemar): {verdict}"))
    return lines


def _accuracy_legend(record: ReductionRecord) -> str:
    measured = record.measured
    seen = ", the rows that the method saw" if measured.split == "train" else ""
    return f"accuracy on {count_text(measured.images)} rows ({measured.split}{seen}), 95 % intervals"


def _baselines(record: ReductionRecord) -> list[Table]:
    """Random masks of the same size, and the small network trained from scratch."""
    lines = []
    if record.random is not None:
        random, cut = record.random, 100 * record.measured.cut.value
        count = len(random.accuracies)
        good = random.as_good(cut)
        remark = f"{count} of this size, untrained; {good or 'none'} as good as the cut"
        spread = "" if random.deviation is None else f" ± {random.deviation:.2f}"
        lines.append(named_line("random masks", f"{random.mean:.2f}{spread} %  {remark}"))
    if record.scratch is not None:
        scratch = record.scratch
        mean = percent(scratch.mean if scratch.mean is not None else scratch.accuracies[0])
        seeds = f"{len(scratch.seeds)} seed{'s' * (len(scratch.seeds) != 1)}"
        lines.append(named_line("from scratch", f"{mean}  {escape(str(scratch.option))}, {seeds}"))
    return lines


def _remarks(records: Sequence[ReductionRecord]) -> list[Table]:
    """Refusals with reasons, notes, and layers without units to remove; one line for each reason."""
    refused, notes = [], []
    for number, record in enumerate(records, 1):
        who = f"{number}: " if len(records) > 1 else ""
        reasons = gathered((site.refused, site.name) for site in record.sites if site.refused)
        remarks = gathered((note, site.name) for site in record.sites for note in site.notes)
        refused += [f"{who}{text}" for text in reasons]
        notes += [f"{who}{text}" for text in (*remarks, *map(escape, record.notes))]
    obstacles = gathered((reason, name) for name, reason in records[0].obstacles.items())
    return [*named_lines("refused", refused), *named_lines("note", notes), *named_lines("never cut", obstacles)]


def gathered(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """``a, b and 7 more: the reason``, for each reason."""
    groups: dict[str, list[str]] = {}
    for reason, name in pairs:
        groups.setdefault(reason, []).append(name)
    return [
        escape(f"{', '.join(names[:_NAMED])}{_more(len(names) - _NAMED)}: {reason}") for reason, names in groups.items()
    ]


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _sites_side_by_side(results: Sequence[Reduction]) -> Table:
    numbers = [str(number) for number in range(1, len(results) + 1)]
    rows = table("layer", "units", *numbers, numbers=("units", *numbers))
    for sites in zip(*(result.sites for result in results), strict=True):
        cells = ["refused" if site.refused else str(site.after) for site in sites]
        rows.add_row(escape(_name(sites[0])), str(sites[0].before), *cells)
    return rows


def _side_by_side(results: Sequence[Reduction]) -> Table:
    """A row for each number, a column for the whole network and for each method."""
    numbers = [str(number) for number in range(1, len(results) + 1)]
    rows = table("", "whole", *numbers, numbers=("whole", *numbers))
    rows.padding, rows.columns[0].no_wrap = (0, 1, 0, 0), True
    records = [result.record for result in results]
    whole = records[0].whole
    for name, measure, text in (
        ("parameters", "parameters", count_text),
        ("multiply–acc.", "macs", count_text),
        ("file", "file_bytes", bytes_text),
    ):
        sizes = [getattr(record.reduced, measure) for record in records]
        rows.add_row(name, text(getattr(whole, measure)), *map(text, sizes))
        rows.add_row("", "", *(f"[dim]{_share(size, getattr(whole, measure))}[/dim]" for size in sizes))
    _add_accuracies(rows, records)
    latencies = [result.latency for result in results if result.latency is not None]
    for batch in (1, 64) if len(latencies) == len(results) else ():
        times = [_seconds(latency.after.at(batch).median) for latency in latencies]
        rows.add_row(f"time, batch {batch}", _seconds(latencies[0].before.at(batch).median), *times)
        rows.add_row("", "", *(f"[dim]{100 * latency.at(batch).median:.1f} %[/dim]" for latency in latencies))
    return rows


def _add_accuracies(rows: Table, records: Sequence[ReductionRecord]) -> None:
    measured = [record.measured for record in records]
    if records[0].settings["recover"]:
        rows.add_row("after the cut %", "", *(f"{100 * each.cut.value:.2f}" for each in measured))
    rows.add_row(
        "[bold]accuracy %[/bold]",
        f"{100 * measured[0].whole.value:.2f}",
        *(f"[bold]{100 * each.reduced.value:.2f}[/bold]" for each in measured),
    )
    intervals = [measured[0].whole, *(each.reduced for each in measured)]
    rows.add_row("", *(f"[dim]{100 * each.low:.1f}–{100 * each.high:.1f}[/dim]" for each in intervals))
    rows.add_row("change", "", *map(_points, records))
    rows.add_row("p", "", *("–" if each.cost.p is None else f"{each.cost.p:.2g}" for each in measured))
    rows.add_row("worst not excluded", "", *(f"{100 * each.cost.worst:+.1f}".replace("-", "−") for each in measured))
    if any(record.random is not None for record in records):
        drawn = [record.random for record in records]
        rows.add_row("random, untrained %", "", *("–" if each is None else f"{each.mean:.2f}" for each in drawn))
        spreads = [None if each is None else each.deviation for each in drawn]
        rows.add_row("", "", *("" if each is None else f"[dim]± {each:.2f}[/dim]" for each in spreads))
    if any(record.scratch is not None for record in records):
        rows.add_row("from scratch %", "", *map(_scratch, records))


def _show_end(results: Sequence[Reduction], written: Sequence[Path], kept: bool) -> None:
    console = out()
    lines: dict[str, list[str]] = {}
    for number, result in enumerate(results, 1):
        for line in advice(result, kept=kept):
            lines.setdefault(line, []).append(str(number))
    own_first = sorted(lines.items(), key=lambda item: len(item[1]) == len(results))
    for index, (line, numbers) in enumerate(own_first):
        who = "" if len(numbers) == len(results) else f"{', '.join(numbers)}: "
        console.print(named_line("" if index else "try next", escape(f"{who}{line}")))
    if written:
        console.print(files_line(written))


def files_line(paths: Sequence[Path]) -> Table:
    """The written files; of many the first few."""
    return named_line("files", escape(", ".join(map(str, paths[:_FILES]))) + _more(len(paths) - _FILES))


def named_lines(name: str, texts: Sequence[str]) -> list[Table]:
    """Lines of which the first is named; of many the first few."""
    shown = [
        *texts[:_LINES],
        *([f"[dim]and {len(texts) - _LINES} more: --json has all[/dim]"] if texts[_LINES:] else []),
    ]
    return [named_line("" if index else name, text) for index, text in enumerate(shown)]


def named_line(name: str, text: str) -> Table:
    """A named line that wraps with indentation on a narrow terminal."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=_INDENT - 1)
    grid.add_column(overflow="fold")
    grid.add_row(name, text)
    return grid


def _points(record: ReductionRecord) -> str:
    return f"{100 * record.measured.cost.difference:+.2f}".replace("-", "−")


def _scratch(record: ReductionRecord) -> str:
    if record.scratch is None:
        return "–"
    mean = record.scratch.accuracies[0] if record.scratch.mean is None else record.scratch.mean
    return f"{100 * mean.value:.2f}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _seconds(value: float) -> str:
    step = max(0, min(int(math.log10(value * 1e9) // 3), len(_SECONDS) - 1)) if value > 0 else 0
    return f"{value * 1e9 / 1000**step:.3g} {_SECONDS[step]}"
