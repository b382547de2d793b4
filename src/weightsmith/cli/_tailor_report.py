"""Print a search: the limits, the result, and the best of each kind of work alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from weightsmith.cli.terminal import count_text, files_line, named_line, named_lines, out, percent, table
from weightsmith.reporting.sections._wording import chance, conclusion, energy_text
from weightsmith.reporting.sections._wording import points as points_text

if TYPE_CHECKING:
    from weightsmith.chain.tailor.choosing import Relaxation
    from weightsmith.chain.tailor.results import Alone, TailorRecord
    from weightsmith.core.statistics import Comparison

__all__ = ["as_dict", "concern", "show_tailored"]


def as_dict(record: TailorRecord, written: Sequence[Path]) -> dict[str, Any]:
    """The full result as JSON values."""
    missed = concern(record)
    return {
        "record": record.to_dict(),
        "met": record.met,
        "only_together": record.only_together,
        "look_at": [] if missed is None else [missed],
        "files": [str(path) for path in written],
    }


def concern(record: TailorRecord) -> str | None:
    """A concern: limits that are not met; None if they are."""
    if record.met:
        return None
    from weightsmith.chain.tailor.limits import missed_text

    missed = record.judged.missed if record.verdict.value == "not confirmed" else record.best.excess(record.limits)
    by = missed_text(missed)
    if record.verdict.value == "not confirmed":
        return f"chosen on the selection rows, but missed on the judging rows: {by}"
    if record.unreachable:
        return f"no candidate keeps to the limit on {' or '.join(record.unreachable)}; the nearest misses {by}"
    return f"no candidate keeps to all limits together; the nearest misses {by}"


def show_tailored(record: TailorRecord, source: str, data: str, written: Sequence[Path]) -> None:
    """Print one search."""
    console = out()
    console.print(f"[bold]{escape(source)}[/bold]  {escape(record.network)} on {escape(data)}")
    console.print(named_line("limits", escape(", ".join(_limits(record)))))
    console.print(named_line("searched", escape(_searched(record))))
    console.print(named_line("result", f"[bold]{escape(record.verdict.value)}[/bold]{escape(_sure(record))}"))
    console.print(_networks(record))
    rows = f"{count_text(record.judging.rows)} rows ({record.judging.split}) that had no part in the choice"
    console.print(f"[dim]accuracy on {rows}, 95 % intervals; change in points against the whole network[/dim]")
    console.print(named_line("taken", escape(str(record.best))))
    console.print(named_line("change", escape(_change(record.judged.cost))))
    for each in record.alone:
        console.print(named_line(f"{_verb(each)} alone", escape(_alone(record, each))))
    for line in named_lines("would do", [escape(_relaxed(record, found)) for found in record.relaxations]):
        console.print(line)
    if record.untried:
        console.print(named_line("no time for", escape(_untried(record))))
    for line in named_lines("note", [escape(note) for note in record.notes]):
        console.print(line)
    if written:
        console.print(files_line(written))


def _limits(record: TailorRecord) -> list[str]:
    limits, texts = record.limits, []
    if limits.accuracy is not None:
        texts.append(f"accuracy ≥ {100 * limits.accuracy:g} %")
    if limits.energy is not None:
        texts.append(f"energy ≤ {energy_text(limits.energy)} ({_share(limits.energy, record.energy)})")
    if limits.params is not None:
        texts.append(f"parameters ≤ {count_text(limits.params)} ({_share(limits.params, record.parameters)})")
    return texts


def _searched(record: TailorRecord) -> str:
    configs = len({found.way.key for found in record.candidates})
    return (
        f"{configs} ways, {count_text(len(record.candidates))} candidates, {len(record.front)} on the front; chosen on "
        f"{count_text(record.selection.rows)} rows ({record.selection.split})"
    )


def _sure(record: TailorRecord) -> str:
    if record.verdict.value == "met" and record.limits.accuracy is not None:
        return ", and the interval of the accuracy lies above the limit"
    if record.verdict.value == "met by the point estimate":
        return ": the interval of the accuracy reaches below the limit"
    return ""


def _networks(record: TailorRecord) -> Table:
    """The whole network, the best of each kind alone, and the chosen one, on the judging rows."""
    rows = table(
        "network", "accuracy", "change", "energy", "of the whole", "parameters", "of the whole ", "limits",
        numbers=("accuracy", "change", "energy", "of the whole", "parameters", "of the whole "),
    )  # fmt: skip
    whole = record.limits.excess(accuracy=record.whole.value, energy=record.energy, params=record.parameters)
    rows.add_row(
        "whole",
        percent(record.whole),
        "",
        energy_text(record.energy),
        "",
        count_text(record.parameters),
        "",
        _kept(whole),
    )
    judged = {each.candidate: each.judged for each in record.alone} | {record.chosen: record.judged}
    for number, found in judged.items():
        if number is None or found is None:
            continue
        candidate, taken = record.candidates[number], number == record.chosen
        cells = (
            candidate.kind + (" (taken)" if taken else ""),
            percent(found.accuracy),
            points_text(found.cost.difference),
            energy_text(found.energy),
            _share(found.energy, record.energy),
            count_text(candidate.parameters),
            _share(candidate.parameters, record.parameters),
            _kept(found.missed),
        )
        rows.add_row(*(f"[bold]{escape(cell)}[/bold]" if taken else escape(cell) for cell in cells))
    return rows


def _kept(missed: dict[str, float]) -> str:
    return "kept" if not missed else f"misses {', '.join(missed)}"


def _change(cost: Comparison) -> str:
    ends = cost.interval
    span = "" if ends is None else f" ({points_text(ends.low)} to {points_text(ends.high)})"
    return f"{points_text(cost.difference)} points{span}, {chance(cost.p)} (McNemar, row by row): {conclusion(cost)}"


def _verb(each: Alone) -> str:
    return "reduced" if each.kind == "reduced" else "spiking"


def _alone(record: TailorRecord, each: Alone) -> str:
    from weightsmith.chain.tailor.limits import missed_text

    if each.candidate is None:
        return "nothing of the kind was tried"
    best = record.candidates[each.candidate]
    if each.met:
        return f"keeps to the limits on the selection rows: {best}"
    return f"misses {missed_text(each.missed)} on the selection rows: {best}"


def _relaxed(record: TailorRecord, found: Relaxation) -> str:
    how = {
        "accuracy": f"accuracy ≥ {100 * found.to:.2f} %",
        "energy": f"energy ≤ {energy_text(found.to)} ({_share(found.to, record.energy)})",
        "params": f"parameters ≤ {found.to:,.0f} ({_share(found.to, record.parameters)})",
    }
    return f"{how[found.limit]}: {record.candidates[found.candidate]}"


def _untried(record: TailorRecord) -> str:
    more = f" and {len(record.untried) - 3} more" if len(record.untried) > 3 else ""
    return "; ".join(record.untried[:3]) + more


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %"
