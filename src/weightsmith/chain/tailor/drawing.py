"""The figures of a search: accuracy and costs of the result, and all candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.judging import Judgement
from weightsmith.chain.tailor.results import TailorRecord
from weightsmith.reporting.figures.front import FrontDot, draw_tailoring
from weightsmith.reporting.figures.tailoring import Tailor, draw_kept_and_cost

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["WORDS", "draw_front_of", "draw_kept_of", "shares_of", "taken_and_rivals", "whole_cost"]

WORDS = {"params": "parameters", "macs": "operations", "bytes": "bytes", "energy": "energy", "time": "time"}
"""The costs by the names of their limits."""


def whole_cost(record: TailorRecord, cost: str) -> float | None:
    """The cost of the original network; None if an old record lacks it."""
    known = {"params": record.parameters, "macs": record.macs, "bytes": record.bytes, "energy": record.energy}
    return 1.0 if cost == "time" else known[cost]


def shares_of(record: TailorRecord, candidate: Candidate, judged: Judgement | None) -> dict[str, float]:
    """The costs of a candidate as shares of the whole network's, by their words."""
    costs = {**candidate.costs, **({} if judged is None else {"energy": judged.energy})}
    return {
        WORDS[name]: value / whole
        for name, value in costs.items()
        if value is not None and (whole := whole_cost(record, name))
    }


def taken_and_rivals(record: TailorRecord) -> list[tuple[Candidate, Judgement | None]]:
    """The chosen candidate, then the best of every other kind."""
    rivals = [each for each in record.alone if each.candidate not in (None, record.chosen)]
    return [
        (record.best, record.judged),
        *((record.candidates[each.candidate], each.judged) for each in rivals if each.candidate is not None),
    ]


def draw_kept_of(record: TailorRecord) -> Figure:
    """The accuracy and the costs of the result, beside the rivals and the limits."""
    networks = [
        Tailor(
            f"taken: {candidate}" if number == 0 else _rival_name(candidate, judged),
            None if judged is None else judged.accuracy,
            shares_of(record, candidate, judged),
        )
        for number, (candidate, judged) in enumerate(taken_and_rivals(record))
    ]
    limits = {
        WORDS[name]: limit / whole for name, limit in record.limits.costs.items() if (whole := whole_cost(record, name))
    }
    return draw_kept_and_cost(record.whole, networks, limits)


def _rival_name(candidate: Candidate, judged: Judgement | None) -> str:
    """The name of a rival; one that was not judged is named with its agreement with the network."""
    return str(candidate) if judged is not None else f"{candidate} (as the network: {100 * candidate.share:.0f} %)"


def draw_front_of(record: TailorRecord) -> Figure:
    """Nearness to the network against energy and against parameters, with the limits and the chosen candidate."""
    limits, best = record.limits, {found.number for found in record.front}
    dots = [
        FrontDot(
            kind=found.kind,
            accuracy=found.accuracy.value,
            low=found.accuracy.low,
            high=found.accuracy.high,
            energy=found.energy,
            parameters=found.parameters,
            on_front=found.number in best,
            chosen=found.number == record.chosen,
        )
        for found in record.candidates
    ]
    return draw_tailoring(
        dots,
        accuracy=limits.accuracy if record.labelled else None,
        energy=limits.energy,
        params=limits.params,
        met=record.met,
        judged_by="accuracy" if record.labelled else "agreement with the network",
    )
