"""Shared by figures of several networks: colours, line styles, and a mark for each verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.grading.results import Grades, VerdictKind
from weightsmith.reporting.figures.style import BLUE, GREEN, GREY, INK, LINES, ORANGE, PURPLE, RED

__all__ = ["MARKS", "look", "several"]

MARKS = {
    VerdictKind.OVER_REGULARISED: (BLUE, "v"),
    VerdictKind.WELL_TRAINED: (GREEN, "o"),
    VerdictKind.WEAKLY_TRAINED: (RED, "^"),
    VerdictKind.CANNOT_SAY: (ORANGE, "D"),
    VerdictKind.NO_HEAVY_TAIL: (PURPLE, "s"),
    VerdictKind.NOT_JUDGED: (GREY, "h"),
    VerdictKind.CANNOT_BE_FITTED: (INK, "X"),
}
"""A colour and a shape for each verdict, which is readable without colours."""

_LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)))


def several(grades: Grades | Sequence[Grades]) -> list[Grades]:
    """One or more graded networks as a list; raises if one has nothing to draw."""
    networks = [grades] if isinstance(grades, Grades) else list(grades)
    if not networks:
        raise UsageError("no grades were given: there is nothing to draw")
    for network in networks:
        if not network.layers:
            raise UsageError(f"{network.source}: no layers were graded, so there is nothing to draw")
    return networks


def look(index: int) -> tuple[str, Any]:
    """Colour and line style of the network at ``index``: eighteen distinct ones."""
    return LINES[index % len(LINES)], _LINE_STYLES[(index + index // len(LINES)) % len(_LINE_STYLES)]
