"""Learning-rate schedules, and how one is given: as an object, a number or its text form.

``curves`` holds the schedules given by a formula, ``plateau`` the one that monitors a metric, ``combined`` those that
modify another schedule: a warm-up before it, or a later start.
"""

from __future__ import annotations

from collections.abc import Callable

from weightsmith.core.text import read_value
from weightsmith.training.schedules._base import OwnSchedule, Per, Schedule, Span, count
from weightsmith.training.schedules.combined import Shifted, WarmUp
from weightsmith.training.schedules.curves import Constant, Cosine, Exponential, OneCycle, Piecewise, Power
from weightsmith.training.schedules.plateau import Plateau

__all__ = [
    "Constant",
    "Cosine",
    "Exponential",
    "OneCycle",
    "OwnSchedule",
    "Per",
    "Piecewise",
    "Plateau",
    "Power",
    "Schedule",
    "Shifted",
    "Span",
    "WarmUp",
    "as_schedule",
    "count",
    "read_schedule",
]


def as_schedule(
    given: Schedule | OwnSchedule | float | str | Callable[[int], float] | None, usual_rate: float
) -> Schedule | OwnSchedule:
    """The schedule for an object (itself), a number, also as text (a constant), or the text form of a schedule.

    A function is called with the step, counted from 0.

    ``None`` is a constant of the ``usual_rate``.

    >>> as_schedule(None, 0.01), as_schedule("0.1", 0.01), as_schedule("power:0.1,1000", 0.01)
    (Constant(rate=0.01), Constant(rate=0.1), Power(rate=0.1, s=1000.0, c=1.0, per='step'))
    """
    if given is None:
        return Constant(usual_rate)
    if isinstance(given, str):
        number = read_value(given) if ":" not in given else None
        if not isinstance(number, int | float) or isinstance(number, bool):
            return Schedule.parse(given)
        given = number
    if isinstance(given, Schedule | OwnSchedule):
        return given
    return OwnSchedule(given) if callable(given) else Constant(given)


def read_schedule(given: Schedule | OwnSchedule | float | str | Callable[[int], float]) -> Schedule | OwnSchedule:
    """The schedule for an object, a number or text, as options of verbs are read."""
    return as_schedule(given, 0.0)
