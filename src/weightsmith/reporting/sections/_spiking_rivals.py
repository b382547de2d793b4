"""The energy of a spiking network beside its rivals: a sentence and a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weightsmith.reporting.parts import Cell, Column, Shown, Table
from weightsmith.reporting.sections._wording import energy_text, significant
from weightsmith.spiking.energy.prices import Prices

if TYPE_CHECKING:
    from weightsmith.spiking.energy.cost import SpikeCost
    from weightsmith.spiking.results import SpikeRecord

__all__ = ["rival_rows", "rivals_tables", "rivals_text"]


def rivals_text(cost: SpikeCost) -> str | None:
    """How many other ways to run the network take less arithmetic, in one sentence; None where none is known."""
    if not cost.rivals:
        return None
    best = min(cost.rivals, key=lambda rival: rival.energy)
    many = len(cost.rivals)
    count = f"{len(cost.cheaper)} of {many} rivals take" if cost.cheaper else "no rival takes"
    text = f"{count} less arithmetic, the cheapest ({best.name}) {energy_text(best.energy)}"
    whole = _integers(cost)
    if whole is None:
        return text
    left = sum(rival.energy < whole for rival in cost.rivals)
    verdict = f"more than {left} of {many}" if left else "less than every rival"
    return f"{text}; with integer additions these spikes would take {energy_text(whole)}, {verdict}"


def rival_rows(cost: SpikeCost) -> list[dict[str, Any]]:
    """The spiking network and every rival: operations, price and energies per image, in picojoules."""
    rows: list[dict[str, Any]] = [
        {
            "name": "spiking",
            "operations": float(cost.accumulates[-1]) + cost.neurobench["Effective_MACs"],
            "price_picojoule": None,
            "energy_picojoule": cost.energy,
            "memory_picojoule": cost.memory_energy,
        }
    ]
    whole = _integers(cost)
    if whole is not None:
        rows.append({**rows[0], "name": "spiking, if all were integers", "energy_picojoule": whole})
        rows[-1]["memory_picojoule"] = None
    return rows + [
        {
            "name": f"network, {rival.name}",
            "operations": rival.macs,
            "price_picojoule": rival.price,
            "energy_picojoule": rival.energy,
            "memory_picojoule": rival.memory,
        }
        for rival in cost.rivals
    ]


def rivals_tables(record: SpikeRecord) -> Iterator[Table]:
    """The spiking network beside its rivals, if the record knows them."""
    cost = record.cost
    if not cost.rivals:
        return
    columns = (
        Column("run as", "the spiking network, and the network in other numbers"),
        Column("operations", "accumulates or multiply–accumulates per image", numeric=True),
        Column("pJ each", "by the table of prices", numeric=True),
        Column("arithmetic", "energy per image", numeric=True),
        Column("ratio", "arithmetic ÷ that of the spiking network", numeric=True),
        Column("memory", "energy of memory accesses per image, on top (Lemaire et al. 2022)", numeric=True),
    )
    rows: list[tuple[Cell | Shown, ...]] = []
    for row in rival_rows(cost):
        energy, memory = row["energy_picojoule"], row["memory_picojoule"]
        ratio = energy / cost.energy if cost.energy else None
        rows.append(
            (
                row["name"],
                Shown(row["operations"], significant(row["operations"])),
                Shown(row["price_picojoule"], significant(row["price_picojoule"])),
                Shown(energy, energy_text(energy)),
                Shown(ratio, "–" if ratio is None else f"{significant(ratio)} ×"),
                Shown(memory, "–" if memory is None else energy_text(memory)),
            )
        )
    counted = next((rival.rows for rival in cost.rivals if rival.rows is not None), 0)
    caption = (
        f"The network it came from, in other numbers. Zero activations were counted on {counted:,} of the "
        f"{record.decisions.split} rows; how accurate the network is with fewer bits was not measured."
    )
    yield Table("Beside its rivals", columns, tuple(rows), caption, file="rivals.csv")


def _integers(cost: SpikeCost) -> float | None:
    """The energy of the same operations at the prices of integers; None for a run that has them already."""
    if cost.prices.numbers != "float32":
        return None
    return cost.at(Prices(neurons=cost.prices.neurons, numbers="int8")).energy
