"""Layers whose units cannot be removed, by reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weightsmith.reporting.parts import Column, Shown, Table
from weightsmith.reporting.sections._wording import some

__all__ = ["never_cut"]


def never_cut(obstacles: Mapping[str, str]) -> Iterator[Table]:
    """A row for each reason with its layers; nothing if there are none."""
    groups: dict[str, list[str]] = {}
    for layer, reason in obstacles.items():
        groups.setdefault(reason, []).append(layer)
    if groups:
        rows = tuple((reason, Shown(", ".join(names), some(names))) for reason, names in groups.items())
        yield Table("Layers that are never cut", (Column("why"), Column("layers")), rows, file="never-cut.csv")
