"""All learning-rate schedules in one place, and how one is named: by an object, a number or its text form.

One file per idea: ``decay`` holds the formulas of the step, ``annealing`` those shaped to the whole run, ``plateau``
the one that watches a metric, ``warmup`` the rise before any of them.
"""

from __future__ import annotations

from weightsmith.core.text import read_value
from weightsmith.training._schedule import Per, Schedule, Span, count
from weightsmith.training.annealing import Cosine, OneCycle
from weightsmith.training.decay import Constant, Exponential, Piecewise, Power
from weightsmith.training.plateau import Plateau
from weightsmith.training.shifted import Shifted
from weightsmith.training.warmup import WarmUp

__all__ = [
    "Constant",
    "Cosine",
    "Exponential",
    "OneCycle",
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
]


def as_schedule(given: Schedule | float | str | None, usual_rate: float) -> Schedule:
    """The schedule that is meant: an object itself, a number (also as text) as a constant, text by its form.

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
    return given if isinstance(given, Schedule) else Constant(given)
