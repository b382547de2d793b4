"""Figures of the cost of a spiking network: operations and energy by layer, and energy against time steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.reporting.figures.labels import number
from weightsmith.reporting.figures.spiking._accuracy import NETWORK, run_labels, run_look
from weightsmith.reporting.figures.spiking._panels import layer_rows, legend_below, step_axis
from weightsmith.reporting.figures.style import BLUE, DOTTED, GREY, PURPLE, house_style, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weightsmith.spiking.energy.cost import SpikeCost
    from weightsmith.spiking.results import SpikeRecord

__all__ = ["draw_energy", "draw_layer_energy", "energy_text"]

_MANY = 9.995e8  # picojoules from which on energies are written in millijoules
_FEW = 1e5  # picojoules up to which energies are shown in nanojoules, not in microjoules
_WRITTEN = 40  # rows up to which bars show their numbers
_BAR = 0.38
_SIZES = ((1e9, " (billions)"), (1e6, " (millions)"), (1e3, " (thousands)"), (1.0, ""))


class _Row(NamedTuple):
    """Operations per image and their picojoules: accumulates and MACs of the spiking network, MACs of the network."""

    name: str
    operations: tuple[float, float, float]
    energies: tuple[float, float, float]


def draw_layer_energy(cost: SpikeCost) -> Figure:
    """Operations (left) and their energy (right) of each layer per image, next to those of the network.

    The row of a direct connection has the name of the population that receives spikes without weights.
    """
    rows = _rows(cost)
    counts = np.array([row.operations for row in rows], np.float64).T
    energies = np.array([row.energies for row in rows], np.float64).T
    largest = float(max((counts[0] + counts[1]).max(), counts[2].max()))
    size, word = next((size, word) for size, word in _SIZES if largest >= size or size == 1)
    scale, unit = _unit([cost])
    with house_style():
        figure, (left, right) = layer_rows([row.name for row in rows], 2, row=0.27)
        for axes, (additions, products, macs) in ((left, counts / size), (right, scale * energies)):
            rows_at = np.arange(len(rows))
            bar: dict[str, Any] = {"height": _BAR, "linewidth": 0}
            axes.barh(rows_at - _BAR / 2, additions, color=BLUE, label="accumulates", **bar)
            axes.barh(
                rows_at - _BAR / 2,
                products,
                left=additions,
                color=PURPLE,
                label="MACs of the spiking network",
                **bar,
            )
            axes.barh(rows_at + _BAR / 2, macs, color=GREY, label="MACs of the network", **bar)
            _write(axes, [(-_BAR / 2, additions + products), (_BAR / 2, macs)])
        left.set_xlabel(f"operations per image{word}")
        right.set_xlabel(f"energy per image ({unit})")
        left.set_title("Operations")
        right.set_title("Energy")
        figure.suptitle(f"{_compared(cost)};\n{_priced([cost])}", x=0.01, ha="left", fontsize=7.5)
        legend_below(figure, left.get_legend_handles_labels()[0])
    return figure


def draw_energy(*records: SpikeRecord) -> Figure:
    """Energy per image after each step, a line per run, that of the network (dashed) and of the cheapest rival.

    A diamond is the first step at which the spiking network has cost more than the original network.
    """
    labels = run_labels(records)
    costs = [record.cost for record in records]
    scale, unit = _unit(costs)
    longest = max(len(cost.run) for cost in costs)  # the actual number, whatever the record claims
    with house_style():
        figure, (axes,) = new_figure(5.5, 3.5)
        _draw_networks(axes, costs, scale)
        _draw_rival(axes, costs, scale)
        for index, (cost, label) in enumerate(zip(costs, labels, strict=True)):
            look = run_look(index, longest if len(cost.run) > 1 else 1)
            energy = scale * cost.curve
            steps = np.arange(1, len(energy) + 1)
            crossed = _crossed(cost)
            axes.plot(steps, energy, label=f"{label}: {_crossing(cost, crossed)}", **look)
            if crossed is not None:
                axes.vlines(crossed, 0, energy[crossed - 1], color=look["color"], linestyle=DOTTED, linewidth=1.1)
                axes.plot(crossed, energy[crossed - 1], "D", color=look["color"], markersize=5.5, zorder=4)
        axes.set_ylim(0, None)
        axes.set_ylabel(f"energy per image ({unit})")
        figure.suptitle(_priced(costs), x=0.01, ha="left", fontsize=7.5)
        step_axis(axes, longest, linear=True)
        legend_below(figure, axes.get_legend_handles_labels()[0])
    return figure


def _rows(cost: SpikeCost) -> list[_Row]:
    """The layers; the neurons if they have a price: an addition each per step, or a product if it leaks; and draws."""
    if not cost.layers:
        raise UsageError("the cost has no layers: there is nothing to draw")
    run = float(cost.run[-1])
    rows = []
    for layer in cost.layers:
        added = float(layer.accumulates[-1]) + layer.constant_additions(run)
        multiplied = layer.multiplies_once + layer.multiplies_per_step * run
        name = layer.name + (" (direct)" if layer.kind == "direct" else "")
        rows.append(_Row(name, (added, multiplied, layer.macs), (*cost.split(layer), cost.prices.mac * layer.macs)))
    if cost.prices.neurons and cost.neurons:
        rows.append(_Row("all neurons", (*cost.neuron_operations, 0), (*cost.neuron_energy, 0)))
    if cost.draws:
        rows.append(_Row("random draws", (cost.draws * run, 0, 0), (cost.draw_energy, 0, 0)))
    return rows


def _write(axes: Axes, bars: Sequence[tuple[float, Any]]) -> None:
    """Numbers after the bars, and room for them; none on zeros."""
    largest = max(float(lengths.max()) for _, lengths in bars)
    axes.set_xlim(0, 1.22 * largest if largest else 1)
    count = len(bars[0][1])
    if count > _WRITTEN:
        return
    for offset, lengths in bars:
        for row, length in enumerate(lengths.tolist()):
            if length:
                look: dict[str, Any] = {"va": "center", "fontsize": 6, "textcoords": "offset points", "xytext": (3, 0)}
                axes.annotate(number(length), (length, row + offset), **look)


def _crossed(cost: SpikeCost) -> int | None:
    """The first step after which the run has cost more than the network."""
    above = np.flatnonzero(cost.curve > cost.network_energy)
    return int(above[0]) + 1 if cost.macs and above.size else None


def _crossing(cost: SpikeCost, crossed: int | None) -> str:
    if not cost.macs:
        return energy_text(cost.energy)
    if crossed is None:
        return f"below the network after {cost.steps} step{'s' * (cost.steps > 1)}"
    return f"above the network from step {crossed} on"


def _draw_networks(axes: Axes, costs: Sequence[SpikeCost], scale: float) -> None:
    """A line for the network, or for each if they differ; none for a network without MACs."""
    known = [(index, cost) for index, cost in enumerate(costs) if cost.macs]
    energies = {cost.network_energy for _, cost in known}
    if len(energies) == 1 and len(known) == len(costs):
        (energy,) = energies
        axes.axhline(scale * energy, label=f"network: {energy_text(energy)}", **NETWORK)
    elif known:
        for index, cost in known:
            axes.axhline(scale * cost.network_energy, **(NETWORK | {"color": run_look(index, 1)["color"]}))
        axes.plot([], [], label="network of each run", **NETWORK)


def _draw_rival(axes: Axes, costs: Sequence[SpikeCost], scale: float) -> None:
    """A line for the cheapest rival, if all runs have the same."""
    cheapest = {min(cost.rivals, key=lambda rival: rival.energy) for cost in costs if cost.rivals}
    if len(cheapest) == 1:
        (rival,) = cheapest
        label = f"cheapest rival ({rival.name}): {energy_text(rival.energy)}"
        axes.axhline(scale * rival.energy, color=GREY, linestyle=DOTTED, linewidth=1.3, label=label)


def _unit(costs: Sequence[SpikeCost]) -> tuple[float, str]:
    """The scale and unit of the axis: microjoules, or for small networks nanojoules."""
    largest = max(max(cost.energy, cost.network_energy) for cost in costs)
    return (1e-3, "nJ") if largest < _FEW else (1e-6, "µJ")


def energy_text(energy: float) -> str:
    """An energy in picojoules as nanojoules, microjoules or millijoules."""
    if energy >= _MANY:
        return f"{number(1e-9 * energy)} mJ"
    return f"{number(1e-3 * energy)} nJ" if energy < _FEW else f"{number(1e-6 * energy)} µJ"


def _compared(cost: SpikeCost) -> str:
    spent = f"{energy_text(cost.energy)} per image"
    return (
        spent
        if cost.ratio is None
        else f"{spent}, {number(cost.ratio)} of the network's {energy_text(cost.network_energy)}"
    )


def _priced(costs: Sequence[SpikeCost]) -> str:
    """The basis of the energy: prices, neurons, and whether operations were counted."""
    prices = {str(cost.prices): cost.prices for cost in costs}
    estimated = ", partly estimated" if any(cost.basis == "estimate" for cost in costs) else ""
    if len(prices) > 1:
        return f"arithmetic alone, prices differ{estimated}"
    (price,) = prices.values()
    neurons = "neurons counted" if price.neurons else "neurons left out"
    return f"arithmetic alone: {price.ac:g} pJ per accumulate, {price.mac:g} pJ per MAC, {neurons}{estimated}"
