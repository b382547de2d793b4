"""The front that a search found, as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weightsmith.chain.tailor_results import TailorRecord
from weightsmith.reporting.figures.front import FrontDot, draw_tailoring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["dots_of", "draw_front_of"]


def dots_of(record: TailorRecord) -> list[FrontDot]:
    """Every candidate as a figure of the front shows it."""
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
    """Accuracy against energy and against parameters, with the limits and the candidate that was taken."""
    limits = record.limits
    return draw_tailoring(
        dots_of(record), accuracy=limits.accuracy, energy=limits.energy, params=limits.params, met=record.met
    )
