"""What a search missed, what it notes beside its result, and what to try next."""

from __future__ import annotations

import math
from collections.abc import Iterator

from weightsmith.chain.tailor.choosing import Relaxation
from weightsmith.chain.tailor.drawing import WORDS, whole_cost
from weightsmith.chain.tailor.limits import missed_text
from weightsmith.chain.tailor.results import TailorRecord, Verdict
from weightsmith.reporting.parts import Notes
from weightsmith.reporting.sections._wording import bytes_text, conclusion, energy_text, percent

__all__ = ["advice", "amount_text", "concerns", "notes"]

_NAMED = 3  # untried configurations that a note names; the others are counted


def amount_text(record: TailorRecord, cost: str, amount: float) -> str:
    """An amount of a cost, with its share of the original network's."""
    whole = whole_cost(record, cost)
    share = "" if not whole else percent(amount / whole)
    match cost:
        case "energy":
            return f"{energy_text(amount)} ({share})"
        case "bytes":
            return f"{bytes_text(round(amount))} ({share})"
        case "time":
            return share
        case _:
            return f"{amount:,.0f} ({share})"


def notes(record: TailorRecord) -> list[Notes]:
    """What limited the search, and what would have to give way."""
    lines = [f"No network tried meets the limit on {limit}." for limit in record.unreachable]
    lines += [
        f"{_relaxed(record, relaxed)} would be enough: {record.candidates[relaxed.candidate]}."
        for relaxed in record.relaxations
    ]
    if record.untried:
        more = len(record.untried) - _NAMED
        named = "; ".join(record.untried[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"Not tried: {named}.")
    lines += record.notes
    return [Notes(tuple(lines))] if lines else []


def _relaxed(record: TailorRecord, found: Relaxation) -> str:
    return f"{WORDS.get(found.limit, found.limit)} of {amount_text(record, found.limit, found.to)}"


def concerns(record: TailorRecord) -> Iterator[str]:
    """Limits that are missed."""
    if record.met:
        return
    missed = record.judged.missed or record.best.excess(record.limits)
    if record.verdict is Verdict.BY_ESTIMATE:
        yield (
            "the limit on the accuracy holds by the estimate only: "
            f"{conclusion(record.judged.cost)} on {record.judging.rows:,} rows"
        )
    elif record.verdict is Verdict.NOT_CONFIRMED:
        yield f"the limit on the accuracy is missed on the judging rows: {missed_text(missed)}"
    else:
        yield f"no network meets the limits; the nearest misses {missed_text(missed)}"


def advice(record: TailorRecord, kept: bool) -> Iterator[str]:
    """What to try next; ``kept``: the network was written."""
    if record.verdict is Verdict.BY_ESTIMATE and not record.met:
        yield f"more judging rows than {record.judging.rows:,}, or --margin none: the estimate then suffices"
    for relaxed in record.relaxations[:2]:
        whole = whole_cost(record, relaxed.limit)
        if whole and relaxed.to < whole:  # the original network is not advice
            share = math.ceil(1000 * relaxed.to / whole) / 10  # as it can be typed
            yield f"--{relaxed.limit} {share:g}%: what the nearest network needs"
    lost = -100 * record.judged.cost.difference
    if record.verdict is Verdict.NOT_CONFIRMED and lost > 0:
        more = "fine-tune:5" if record.best.way.cut is not None and record.best.way.cut.recover else "distill"
        yield f"a wider limit, or weightsmith reduce --recover {more}: {lost:.1f} points are lost without labels"
    elif record.verdict is Verdict.NOT_CONFIRMED:
        yield f"a lower limit: the original network has an accuracy of {percent(record.whole.value)}"
    if not kept:
        yield "--out FOLDER: the network was not kept"
