"""The figures of the paper that a study has rows for: methods and sizes, and sweeps of angle and penalty."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.study import (
    draw_angle_sweep,
    draw_final_size,
    draw_method_accuracy,
    draw_penalty_sweep,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weightsmith.reducing.study_table import Study, StudyRow

__all__ = ["StudyFigure", "figures_of_study"]

_SWEEP = 3  # values of a parameter from which they are drawn as a line

Kind = Literal["accuracy", "size", "angle", "penalty"]


@dataclasses.dataclass(frozen=True)
class StudyFigure:
    """A figure drawn on demand: what it shows, its file name, and the methods of its rows."""

    kind: Kind
    name: str
    methods: tuple[str, ...]
    draw: Callable[[], Figure]


def figures_of_study(study: Study) -> list[StudyFigure]:
    """The figures that apply to a study; each is drawn on demand.

    A sweep needs three or more methods that differ only in angle or penalty. Accuracy and final size against the
    initial size need several sizes; a single size is drawn as points if there is no sweep.
    """
    methods = tuple(dict.fromkeys(row.method for row in study.rows))
    found: list[StudyFigure] = []
    sweeps = [*_sweeps(study, methods, "angle"), *_sweeps(study, methods, "penalty")]
    if len({row.hidden for row in study.rows}) > 1 or (study.rows and not sweeps):
        rows = _plainly_named(study.rows)
        found.append(StudyFigure("accuracy", "accuracy", methods, functools.partial(draw_method_accuracy, rows)))
        if any(row.units != row.hidden or row.angle is not None or row.penalty is not None for row in rows):
            found.append(StudyFigure("size", "size", methods, functools.partial(draw_final_size, rows)))
    return found + sweeps


def _sweeps(study: Study, methods: Sequence[str], parameter: Literal["angle", "penalty"]) -> list[StudyFigure]:
    """A figure for each family of methods that differ in ``parameter`` alone."""
    families: dict[str, list[str]] = {}
    for method in methods:
        if (family := _family(method, parameter)) is not None:
            families.setdefault(family, []).append(method)
    several = [members for members in families.values() if len(members) >= _SWEEP]
    figures = []
    for number, members in enumerate(several, 1):
        name = f"{parameter}{f'-{number}' if number > 1 else ''}"
        if parameter == "angle":
            rows = [row for row in study.rows if row.method in members or row.angle is None]
            draw = functools.partial(draw_angle_sweep, rows)
        else:
            draw = functools.partial(draw_penalty_sweep, [row for row in study.rows if row.method in members])
        figures.append(StudyFigure(parameter, name, tuple(members), draw))
    return figures


def _family(method: str, parameter: str) -> str | None:
    """A method without ``parameter``; None if it has none, or is unknown here."""
    from weightsmith.reducing.methods import Method

    try:
        values = Method.parse(method).to_dict()
    except UsageError:  # "whole", or a method of the user's own
        return None
    return str({**values, parameter: None}) if parameter in values else None


def _plainly_named(rows: Iterable[StudyRow]) -> list[StudyRow]:
    """Rows with the bare name of their method, if angle and penalty distinguish the methods of that name."""
    every = list(rows)
    variants: dict[tuple[str, float | None, float | None], set[str]] = {}
    for row in every:
        variants.setdefault((row.method.partition(":")[0], row.angle, row.penalty), set()).add(row.method)
    plain = {kind for kind, *_ in variants} - {key[0] for key, members in variants.items() if len(members) > 1}
    return [
        dataclasses.replace(row, method=kind) if (kind := row.method.partition(":")[0]) in plain else row
        for row in every
    ]
