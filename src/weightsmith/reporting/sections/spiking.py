"""The description of a conversion: accuracy over time, cost, activity, and adjustment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from weightsmith.reporting.figures.spiking.catalogue import figures_of
from weightsmith.reporting.parts import Drawing, Facts, Notes, Part, Section
from weightsmith.reporting.sections._spiking_choice import calibration_table, choice_table, chosen_note
from weightsmith.reporting.sections._spiking_findings import advice, concerns
from weightsmith.reporting.sections._spiking_rivals import rivals_tables, rivals_text
from weightsmith.reporting.sections._spiking_rows import rows_of
from weightsmith.reporting.sections._spiking_tables import cost_tables, population_tables, steps_table
from weightsmith.reporting.sections._wording import (
    accuracy,
    chance,
    changed,
    conclusion,
    counted,
    energy_text,
    facts_of,
    percent,
    short_network,
    significant,
)
from weightsmith.spiking.results import SpikeRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["spiking_section"]

_CLOSE = 0.5  # points within which the spiking network counts as accurate as the network
_MOST_STROKES = 2000  # lines of a raster, each of which takes some hundred characters
_OPEN = 0.01  # share of images without an answer from which a note is given

_DRAWINGS = {
    "accuracy": (
        "Accuracy against time steps",
        "the line is the accuracy after that many steps, the band its interval; where it meets the dashed line, "
        "it is as accurate as the original network.",
    ),
    "energy": (
        "Energy against time steps",
        "the line is the energy spent on an image after that many steps; from the diamond on it is more than that "
        "of the original network, the dashed line. The dotted line is the cheapest other way to run that network.",
    ),
    "layer-energy": (
        "Operations and energy by layer",
        "the upper bar is the cost of a layer in spikes, the grey one below it the cost in the original network; "
        "a layer gains where the upper bar is shorter.",
    ),
    "rivals": (
        "Energy compared with rivals",
        "the dashed line is the spiking network; a point left of it is a cheaper way to run the original network: "
        "in arithmetic on the left, in memory accesses on the right.",
    ),
    "rates": (
        "Firing rates",
        "the longer the bar on the left, the more often neurons of that layer fire; a rate near 1 is saturated, "
        "and a layer without a bar is silent and passes nothing on.",
    ),
    "statistics": (
        "How regularly neurons fire",
        "Fano factor and interval CV are 1 for random (Poisson) trains and 0 for regular ones; an overshoot far "
        "above 0 is charge that a hard reset throws away.",
    ),
    "raster": (
        "Spikes of one image",
        "each stroke is a spike, each row a neuron, each panel a layer; deeper layers begin later, and a row "
        "without strokes is a neuron that does not fire for this image.",
    ),
    "membranes": (
        "Membranes of a few neurons",
        "a neuron fires (orange) where its membrane reaches the threshold (dashed); one that stays far below it "
        "needs many steps to recover.",
    ),
    "correspondence": (
        "Rates against activations",
        "each point is a neuron and an image; the closer the points lie to a line, the less noise, and the closer "
        "the orange line is to the dashed one, if there is one, the better the rates match the network’s "
        "activations.",
    ),
    "confusion": (
        "Predictions of both networks",
        "on the pale diagonal both networks agree; a dark cell off it is a class that the spiking network "
        "mistakes for another.",
    ),
    "adjustment": (
        "What the adjustment did",
        "each point is a unit; the weights of units below the dashed line were reduced, because units with a "
        "large norm fire too easily under noise, and those above it were increased.",
    ),
}
"""Title and how to read it, by the names of figures_of, in the order of the page."""


def spiking_section(
    record: SpikeRecord,
    name: str,
    classes: Sequence[str] = (),
    *,
    least_accuracy: float | None = None,
    kept: bool = True,
) -> Section:
    """The description of a conversion named ``name``; ``classes`` are used if each output has one.

    ``least_accuracy`` is the required accuracy in per cent; ``kept``: the spiking network was written.
    """
    known = tuple(classes) if len(classes) == len(record.decisions.confusion.matrix) else ()
    drawings = _drawings(record, known)
    parts: list[Part] = [*_notes(record), *choice_table(record)]
    parts += [*_taken(drawings, "accuracy", "energy"), steps_table(record)]
    parts += [
        *_taken(drawings, "layer-energy"),
        *cost_tables(record),
        *_taken(drawings, "rivals"),
        *rivals_tables(record),
        *_taken(drawings, "rates"),
        *population_tables(record),
    ]
    parts += drawings.values()
    parts += [*calibration_table(record), *_adjustment(record), _facts(record)]
    return Section(
        f"Spiking: {name}",
        _lead(record),
        tuple(parts),
        _chips(record),
        _about(record),
        tuple(concerns(record, least_accuracy)),
        tuple(advice(record, kept=kept)),
    )


def _about(record: SpikeRecord) -> str:
    """The network and the settings, in the order of the conversion."""
    settings = record.settings
    keys = ("neuron", "encode", "balance", "calibrate", "adjust", "mismatch", "early", "precision")
    words = [record.network, *(str(settings[key]) for key in keys if settings.get(key) not in (None, "float32"))]
    return " · ".join([*words, counted(record.steps, "step"), f"seed {record.origin.seed}"])


def _lead(record: SpikeRecord) -> str:
    decisions, cost, settings = record.decisions, record.cost, record.settings
    energy = f"An image costs {energy_text(cost.energy)} of arithmetic"
    if cost.ratio is not None:
        numbers = " in int8" if cost.prices.numbers == "int8" else ""
        energy += f", {significant(cost.ratio)} times the {energy_text(cost.network_energy)} of the network{numbers}"
    beside = rivals_text(cost)
    energy += "" if beside is None else f". {beside[:1].upper()}{beside[1:]}"
    what = f"{short_network(record.network)} as a spiking network ({settings['neuron']}, {settings['encode']} input)"
    return (
        f"{what} is right on "
        f"{percent(decisions.spiking.value)} of {counted(decisions.images, 'row')} ({decisions.split}) after "
        f"{counted(record.steps, 'step')}, the network on {percent(decisions.network.value)}: "
        f"{changed(decisions.cost)}, McNemar’s {chance(decisions.cost.p)}: {conclusion(decisions.cost)}. {energy}."
    )


def _chips(record: SpikeRecord) -> tuple[tuple[str, str], ...]:
    decisions, cost = record.decisions, record.cost
    enough = decisions.steps_within(_CLOSE)
    chips = [
        ("accuracy of the network", accuracy(decisions.network, decisions.images, decisions.split)),
        (
            f"spiking, after {counted(record.steps, 'step')}",
            accuracy(decisions.spiking, decisions.images, decisions.split),
        ),
        (f"steps until within {_CLOSE:g} points", f"not in {record.steps:,}" if enough is None else f"{enough:,}"),
        ("energy per image", energy_text(cost.energy)),
    ]
    if cost.ratio is not None:
        chips.append(("of the network’s energy", f"{significant(cost.ratio)} ×"))
    if cost.memory_energy is not None:
        chips.append(("memory accesses, on top", energy_text(cost.memory_energy)))
    neurons = sum(population.units for population in record.populations)
    if neurons:
        rate = sum(population.rate * population.units for population in record.populations) / neurons
        chips.append(("spikes per neuron and step", significant(rate)))
    return tuple(chips)


def _notes(record: SpikeRecord) -> Iterator[Notes]:
    """Images without an answer, and the conversion's own notes."""
    decisions = record.decisions
    lines = []
    still_open = int(decisions.undecided[-1])
    if still_open > _OPEN * decisions.images:
        undecided = f"{still_open:,} of {counted(decisions.images, 'image')}"
        lines.append(f"{undecided} have no answer after {counted(record.steps, 'step')}, and count as wrong.")
    note = chosen_note(record)
    lines += [] if note is None else [note]
    if lines or record.notes:
        yield Notes((*lines, *record.notes))


def _drawings(record: SpikeRecord, classes: Sequence[str]) -> dict[str, Drawing]:
    """All figures that apply to the record, in the order of the page."""
    figures = figures_of(record, classes or None)
    if "raster" in figures:
        figures["raster"] = functools.partial(_with_strokes_as_image, figures["raster"])
    return {
        name: Drawing(title, f"How to read it: {how}", figures[name], rows_of(name, record, classes), f"{name}.csv")
        for name, (title, how) in _DRAWINGS.items()
        if name in figures
    }


def _with_strokes_as_image(draw: Callable[[], Figure]) -> Figure:
    """The figure with its lines rasterised if they are too many."""
    figure = draw()
    strokes = [found for axes in figure.axes for found in axes.collections]
    if sum(len(found.get_paths()) for found in strokes) > _MOST_STROKES:
        for found in strokes:
            found.set_rasterized(True)
    return figure


def _taken(drawings: dict[str, Drawing], *names: str) -> list[Drawing]:
    """Remove and return the drawings of these names."""
    return [drawings.pop(name) for name in names if name in drawings]


def _adjustment(record: SpikeRecord) -> Iterator[Facts]:
    """The factors on the weights of each adjusted layer."""
    if record.adjustment is None:
        return
    pairs = []
    for each in record.adjustment.populations:
        scalars = [scalar * each.rescale for scalar in each.scalars]
        guarded = f", {len(each.guarded):,} of them at the guard" if each.guarded else ""
        span = f"{significant(min(scalars))} to {significant(max(scalars))}"
        pairs.append((f"weights of {each.synapses} times", f"{span} ({counted(len(scalars), 'unit')}{guarded})"))
    yield Facts("Adjustment", tuple(pairs))


def _facts(record: SpikeRecord) -> Facts:
    after = [("SHA-256 of the spiking network", record.result)]
    return facts_of(record.settings, record.origin, before=[("network", record.network)], after=after)
