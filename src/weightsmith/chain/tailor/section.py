"""The report section of a search for a network within limits: the limits, the result, and the front."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weightsmith.chain.tailor.choosing import Relaxation
from weightsmith.chain.tailor.limits import missed_text
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.core.statistics import holm
from weightsmith.networks.family import short_digest
from weightsmith.reporting.figures.front import FrontDot, draw_tailoring
from weightsmith.reporting.parts import Cell, Column, Drawing, Facts, Notes, Part, Section, Shown, Table
from weightsmith.reporting.sections._known_networks import HOLM, Judged, KnownNetwork, change_cells
from weightsmith.reporting.sections._wording import (
    chance,
    changed,
    conclusion,
    counted,
    energy_text,
    facts_of,
    percent,
    percent_within,
    rounded,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["dots_of", "draw_front_of", "tailor_section", "tailored_networks"]


_NAMED = 6  # configurations that a note names; the others are counted


def tailor_section(record: TailorRecord, name: str) -> Section:
    """The section of a search named ``name``."""
    parts: list[Part] = []
    lines = tuple(_notes(record))
    if lines:
        parts.append(Notes(lines))
    parts += [_front(record), _alone(record), _candidates(record)]
    if record.refused:
        parts.append(Facts("Ways that could not be gone", tuple(record.refused.items())))
    parts.append(_facts(record))
    return Section(f"Tailoring: {name}", _lead(record), tuple(parts), _chips(record))


def tailored_networks(record: TailorRecord, name: str) -> Iterator[KnownNetwork]:
    """The original and the resulting network, for the overview."""
    best, judged, rows = record.best, record.judged, record.judging
    data = str(record.settings.get("data", ""))
    parent = record.origin.inputs.get("network")
    if parent is not None:
        yield KnownNetwork(
            digest=parent,
            name=f"network ({parent[:6]})",
            making="given",
            operation="as it came",
            judged=Judged(record.whole, rows.split, rows.rows, data),
            parameters=record.parameters,
            macs=record.macs,
            energy=record.energy,
        )
    yield KnownNetwork(
        digest=record.result,
        name=name,
        making="tailored",
        operation=f"tailored: {best}",
        parent=parent,
        seed=record.origin.seed,
        judged=Judged(judged.accuracy, rows.split, rows.rows, data),
        cost=judged.cost,
        parameters=best.parameters,
        macs=best.macs if best.steps is None else None,
        energy=judged.energy,
    )


def _limits_text(record: TailorRecord) -> str:
    limits, parts = record.limits, []
    if limits.accuracy is not None:
        parts.append(f"accuracy at least {percent(limits.accuracy)}")
    if limits.energy is not None:
        parts.append(f"energy at most {energy_text(limits.energy)}{_share(limits.energy, record.energy)}")
    if limits.params is not None:
        parts.append(f"at most {counted(limits.params, 'parameter')}{_share(limits.params, record.parameters)}")
    return ", ".join(parts)


def _share(part: float, whole: float) -> str:
    return f" ({percent(part / whole)})" if whole else ""


def _lead(record: TailorRecord) -> str:
    best, judged = record.best, record.judged
    together = " Neither reducing nor converting alone keeps to them." if record.only_together else ""
    return (
        f"Asked for: {_limits_text(record)}. The limits are {record.verdict.value} by {best} ({best.kind}): on "
        f"{counted(record.judging.rows, 'other row')} ({record.judging.split}) accuracy went from "
        f"{percent(record.whole.value)} to {percent(judged.accuracy.value)}: {changed(judged.cost)}, McNemar’s "
        f"{chance(judged.cost.p)}: {conclusion(judged.cost)}.{together}"
    )


def _chips(record: TailorRecord) -> tuple[tuple[str, str], ...]:
    best, judged = record.best, record.judged
    return (
        ("limits", record.verdict.value),
        ("accuracy before", percent_within(record.whole)),
        ("accuracy after", percent_within(judged.accuracy)),
        ("energy", f"{energy_text(record.energy)} → {energy_text(judged.energy)}"),
        ("parameters", f"{record.parameters:,} → {best.parameters:,}"),
        ("networks tried", f"{len(record.candidates):,}"),
    )


def _notes(record: TailorRecord) -> Iterator[str]:
    for limit in record.unreachable:
        yield f"No network that was tried keeps to the limit on {limit}, whatever the others."
    for relaxed in record.relaxations:
        config = record.candidates[relaxed.candidate]
        yield f"With {_relaxed(relaxed)} all limits would be kept to, by {config}."
    if record.untried:
        more = len(record.untried) - _NAMED
        named = "; ".join(record.untried[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        yield f"The budget left no time for {named}."
    yield from record.notes


def _relaxed(found: Relaxation) -> str:
    def text(value: float) -> str:
        match found.limit:
            case "accuracy":
                return percent(value)
            case "energy":
                return energy_text(value)
            case _:
                return f"{value:,.0f}"

    return f"{found.limit} of {text(found.to)} instead of {text(found.asked)}"


def _front(record: TailorRecord) -> Drawing:
    dots = dots_of(record)
    rows: list[dict[str, Cell]] = [
        {
            "network": str(found),
            "kind": found.kind,
            "accuracy": dot.accuracy,
            "low": dot.low,
            "high": dot.high,
            "energy_picojoule": dot.energy,
            "parameters": dot.parameters,
            "on_front": "yes" if dot.on_front else "no",
        }
        for found, dot in zip(record.candidates, dots, strict=True)
    ]
    how = (
        "How to read it: each mark is a network that was tried; faint ones are beaten by another in accuracy, energy "
        "and size at once. What keeps to the limits (lines) lies in the shaded corner of both panels; the ring is the "
        "one that was taken, chosen on these rows and judged on others."
    )
    return Drawing("The front", how, functools.partial(draw_front_of, record), rounded(rows), file="front.csv")


def _alone(record: TailorRecord) -> Table:
    columns = (
        Column("kind of work"),
        Column("best of it", "under the same limits"),
        Column("misses", "limits, and by which share of each, on the rows that it was chosen by"),
        Column("accuracy", "on rows that had no part in the choice", numeric=True),
        Column("against the whole network", "points of accuracy on the same rows, with an interval", numeric=True),
        Column("p", HOLM, numeric=True),
        Column("energy", "for an input", numeric=True),
    )
    taken = (f"{record.best.kind} (taken)", record.chosen, record.best.excess(record.limits), record.judged)
    rows: list[tuple[Cell | Shown, ...]] = []
    others = [(f"{each.kind} alone", each.candidate, each.missed, each.judged) for each in record.alone]
    ps = holm([None if judged is None else judged.cost.p for _, _, _, judged in (taken, *others)])
    for (kind, number, missed, judged), p in zip((taken, *others), ps, strict=True):
        if number is None or judged is None:
            rows.append((kind, "nothing could be tried", *[None] * (len(columns) - 2)))
            continue
        shortfall = missed_text(missed) or "nothing"
        right = Shown(judged.accuracy.value, percent_within(judged.accuracy))
        energy = Shown(judged.energy, energy_text(judged.energy))
        rows.append((kind, str(record.candidates[number]), shortfall, right, *change_cells(judged.cost, p), energy))
    return Table("Beside one kind of work alone", columns, tuple(rows), file="alone.csv")


def _candidates(record: TailorRecord) -> Table:
    columns = (
        Column("number", "in the order in which they were tried"),
        Column("network", "what was done to the one that came in"),
        Column("accuracy", f"on {counted(record.selection.rows, 'selection row')}", numeric=True),
        Column("energy", "for an input", numeric=True),
        Column("share of energy", "of the whole network’s", numeric=True),
        Column("parameters", numeric=True),
        Column("share of parameters", numeric=True),
        Column("misses", "the limits it does not keep to"),
        Column("found", "in which stage of the search"),
    )
    rows = tuple(
        (
            found.number,
            str(found),
            Shown(found.share, percent_within(found.accuracy)),
            Shown(found.energy, energy_text(found.energy)),
            Shown(found.energy_share, percent(found.energy_share)),
            found.parameters,
            Shown(found.params_share, percent(found.params_share)),
            ", ".join(found.excess(record.limits)) or "nothing",
            found.stage,
        )
        for found in record.front
    )
    caption = f"{len(record.front):,} of {len(record.candidates):,} networks that were tried: those on the front."
    return Table("Networks on the front", columns, rows, caption, file="candidates.csv")


def _facts(record: TailorRecord) -> Facts:
    rows = [
        (what, f"{used.rows:,} of {used.of:,} ({used.split}), SHA-256 {short_digest(used.sha256)}")
        for what, used in (
            ("training rows", record.train),
            ("selection rows", record.selection),
            ("judging rows", record.judging),
        )
    ]
    after = [("SHA-256 of the network that came out", record.result)]
    return facts_of(record.settings, record.origin, before=[("network", record.network), *rows], after=after)


# The figure of the front.


def dots_of(record: TailorRecord) -> list[FrontDot]:
    """Every candidate as a dot of the figure."""
    best = {found.number for found in record.front}
    dots = []
    for found in record.candidates:
        right = found.accuracy
        dots.append(
            FrontDot(
                kind=found.kind,
                accuracy=right.value,
                low=right.low,
                high=right.high,
                energy=found.energy,
                parameters=found.parameters,
                on_front=found.number in best,
                chosen=found.number == record.chosen,
            )
        )
    return dots


def draw_front_of(record: TailorRecord) -> Figure:
    """Accuracy against energy and against parameters, with the limits and the chosen candidate."""
    limits = record.limits
    return draw_tailoring(
        dots_of(record), accuracy=limits.accuracy, energy=limits.energy, params=limits.params, met=record.met
    )
