"""The diagnosis of gradients in a section of training: do they reach every layer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weightsmith.reporting.figures._spiking_panels import spread
from weightsmith.reporting.figures.gradients import gradient_figure
from weightsmith.reporting.parts import Cell, Column, Drawing, Part, Table
from weightsmith.training.diagnosis.gradients import GradientDiagnosis, Health

__all__ = ["gradient_parts", "gradient_sentence", "is_ill"]

_MOST_VALUES, _MOST_PROBES = 2_000, 60  # of the figure: a line is a step, and of many hundred none could be told apart


def is_ill(diagnosis: GradientDiagnosis) -> bool:
    """Whether something must be looked at."""
    return diagnosis.health not in (Health.HEALTHY, Health.FROZEN)


def gradient_sentence(diagnosis: GradientDiagnosis) -> str:
    """What is said of all layers, as a sentence."""
    return f"{diagnosis.sentence[0].upper()}{diagnosis.sentence[1:]}."


def gradient_parts(diagnosis: GradientDiagnosis, name: str) -> list[Part]:
    """The figure of the run ``name``, and a table of what is said of each layer."""
    columns = (
        Column("layer", "in the order of the forward pass"),
        Column("gradients", "what is said of them"),
        Column("because", "the numbers it rests on"),
    )
    rows = tuple((layer.name, layer.health.value, layer.reason) for layer in diagnosis.layers)
    caption = gradient_sentence(diagnosis)
    return [
        _drawing(diagnosis, name),
        Table("Gradients by layer", columns, rows, caption, file=f"{name}-gradients-by-layer"),
    ]


def _drawing(diagnosis: GradientDiagnosis, name: str) -> Drawing:
    some = _at(diagnosis, spread(len(diagnosis.probes), _steps_drawn(diagnosis)))
    reference = next((layer for layer in some.layers if layer.name == some.reference), None)
    rows: list[dict[str, Cell]] = [
        {
            "layer": layer.name,
            "step": step,
            "sensitivity": layer.sensitivity[place],
            "sensitivity_of_reference": None if reference is None else reference.sensitivity[place],
            "update": layer.update[place],
            "health": layer.health.value,
        }
        for layer in some.layers
        for place, step in enumerate(some.probes)
    ]
    how = (
        "How to read it: each line is a step, the later the darker; marks in the shaded bands are layers that the "
        "gradient does not reach (vanishing), that it overruns (exploding), or whose weights one step overwrites."
    )
    if len(some.probes) < len(diagnosis.probes):
        how += f" Drawn are {len(some.probes):,} of {len(diagnosis.probes):,} measured steps."
    return Drawing("Gradients", how, lambda: gradient_figure(some), rows, file=f"{name}-gradients")


def _steps_drawn(diagnosis: GradientDiagnosis) -> int:
    return min(_MOST_PROBES, max(_MOST_VALUES // len(diagnosis.layers), 2))


def _at(diagnosis: GradientDiagnosis, places: Sequence[int]) -> GradientDiagnosis:
    """The diagnosis with the readings of some probes only; what is said rests on all of them."""
    layers = tuple(
        replace(
            layer,
            sensitivity=tuple(layer.sensitivity[place] for place in places),
            update=tuple(layer.update[place] for place in places),
        )
        for layer in diagnosis.layers
    )
    return replace(diagnosis, probes=tuple(diagnosis.probes[place] for place in places), layers=layers)
