"""What a search missed, what it notes beside its result, and what to try next."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from weightsmith.chain.tailor.choosing import LimitStatus, Relaxation, needed_energy
from weightsmith.chain.tailor.drawing import WORDS, whole_cost
from weightsmith.chain.tailor.judging import Judgement
from weightsmith.chain.tailor.limits import Wanted, missed_text
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
    lines += [_relaxed(record, relaxed) for relaxed in record.relaxations]
    if record.untried:
        more = len(record.untried) - _NAMED
        named = "; ".join(record.untried[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"Not tried: {named}.")
    lines += record.notes
    return [Notes(tuple(lines))] if lines else []


def _relaxed(record: TailorRecord, found: Relaxation) -> str:
    word, candidate = WORDS.get(found.limit, found.limit), record.candidates[found.candidate]
    whole = whole_cost(record, found.limit)
    if whole is not None and found.to >= whole:
        reasons = dict.fromkeys(reason for way, reason in record.refused.items() if way.startswith("cut"))
        return f"No network tried has less than all of the {word}" + (f": {'; '.join(reasons)}." if reasons else ".")
    needed = f"{word} of {amount_text(record, found.limit, found.to)} would be enough"
    if not record.limits.limits_accuracy:
        return f"{needed}: {candidate}."
    judged = next((each for each in record.judgements if each.candidate == found.candidate), None)
    known = "" if judged is None else f", with an accuracy of {percent(judged.accuracy.value)}"
    return f"{needed} for the limits on costs: {candidate}{known}."


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
        rows = record.judging
        more = f" (or more judging rows than {rows.rows:,}: --test-rows)" if rows.rows < rows.of else ""
        yield f"--margin none: the estimate then suffices{more}"
    elif not record.met and record.limits.limits_accuracy:
        yield from _attainable(record)
    elif not record.met:
        alone = [typed for found in record.relaxations if (typed := _typed_cost(record, found.limit, found.to))]
        together = _typed_costs(record)
        for typed in alone[:2] or ([together] if together else []):
            yield f"{typed}: what the nearest network needs"
    lost = -100 * record.judged.cost.difference
    if record.verdict is Verdict.NOT_CONFIRMED and lost > 0:
        recover = "fine-tune:5" if record.best.way.cut is not None and record.best.way.cut.recover else "distill"
        yield f"weightsmith reduce … --recover {recover}: {lost:.1f} points are lost without labels"
    if not kept:
        yield "--out FOLDER: the network was not kept"


def _attainable(record: TailorRecord) -> Iterator[str]:
    """Limits that can be met together: those of the nearest network, and the accuracy without limits on costs."""
    original, costs = record.original, _typed_costs(record)
    accuracy = "" if _accurate(record, record.judged) else _typed_accuracy(record, record.judged)
    if record.best.kind != "whole" and costs is not None and accuracy is not None and _is_repeated(record, accuracy):
        yield f"{costs} {accuracy}".strip() + ": what the nearest network meets, all limits together"
    if record.settings.get("spiking"):
        return  # the original network may not be taken
    without = " and ".join(f"--{name}" for name in record.limits.costs)
    if _accurate(record, original):
        if without:
            yield f"without {without}: the original network has an accuracy of {percent(record.whole.value)}"
    elif (accuracy := _typed_accuracy(record, original)) is not None:
        yield (
            f"{accuracy}{f' without {without}' if without else ''}: a lower limit, as the original network has an "
            f"accuracy of {percent(record.whole.value)}"
        )


def _is_repeated(record: TailorRecord, accuracy: str) -> bool:
    """Whether a search with this option takes the same network: it distils only where the limit needs it."""
    cut = record.best.way.cut
    if cut is None or not cut.recover or not accuracy:
        return True
    before = dataclasses.replace(record.best.way, cut=dataclasses.replace(cut, recover=None))
    found = next((each for each in record.candidates if each.way == before), None)
    limit = Wanted.read(accuracy.split()[1])
    allowed = 1 - limit.accuracy if limit.accuracy is not None else limit.points or 0.0
    return found is not None and 1 - found.share > allowed + 1e-9


def _accurate(record: TailorRecord, judged: Judgement) -> bool:
    """Whether a judged network meets the limit on the accuracy, with the given confidence."""
    return judged.standing is LimitStatus.ABOVE or (record.margin is None and "accuracy" not in judged.missed)


def _typed_costs(record: TailorRecord) -> str | None:
    """The limits on costs that the nearest network misses, wide enough for it, as options; None if it is no smaller."""
    needed = record.best.costs | {"energy": max(needed_energy(record.best), record.judged.energy)}
    typed = [
        _typed_cost(record, name, value)
        for name in record.judged.missed
        if name != "accuracy" and (value := needed[name]) is not None
    ]
    return None if None in typed else " ".join(map(str, typed))


def _typed_cost(record: TailorRecord, name: str, needed: float) -> str | None:
    """A limit as an option; None if it were no less than all of the original network."""
    whole = whole_cost(record, name)
    if not whole or needed >= whole:
        return None
    return f"--{name} {math.ceil(1000 * needed / whole) / 10:g}%"


def _typed_accuracy(record: TailorRecord, judged: Judgement) -> str | None:
    """The limit on the accuracy that a judged network meets, as an option; None if there is none."""
    if record.limits.points is not None:
        change = judged.cost.difference if judged.bound is None else judged.bound
        lost = math.ceil(-1000 * change) / 10
        return f"--accuracy -{lost:g}" if 0 < lost < 100 else None
    share = math.floor(1000 * (judged.accuracy.value if judged.bound is None else judged.bound)) / 10
    return f"--accuracy {share:g}%" if share > 0 else None
