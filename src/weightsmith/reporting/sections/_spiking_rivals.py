"""The energy of a spiking network beside its rivals: a sentence, a line on memory, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weightsmith.reporting.parts import Cell, Column, Shown, Table
from weightsmith.reporting.sections._wording import energy_text, significant
from weightsmith.spiking.energy.cost import SpikeCost
from weightsmith.spiking.energy.prices import Prices
from weightsmith.spiking.results import SpikeRecord

__all__ = ["memory_text", "rival_rows", "rivals_tables", "rivals_text"]


def rivals_text(cost: SpikeCost) -> str | None:
    """Which other ways to run the network take less arithmetic, in one sentence; None where none is known."""
    if not cost.rivals:
        return None
    cheaper = sorted(cost.cheaper, key=lambda rival: rival.energy)
    if cheaper:
        named = "; ".join(f"{rival.name}: {energy_text(rival.energy)}" for rival in cheaper)
        text = f"the network itself takes less in other numbers ({named})"
    else:
        best = min(cost.rivals, key=lambda rival: rival.energy)
        text = f"no rival takes less, the cheapest ({best.name}) {energy_text(best.energy)}"
    whole = _integers(cost)
    if whole is None:
        return text
    left = [rival for rival in cost.rivals if rival.energy < whole]
    verdict = f"more than {len(left)} of the {len(cost.rivals)} rivals" if left else "less than every rival"
    return f"{text}; with integer additions these spikes would take {energy_text(whole)}, {verdict}"


def memory_text(cost: SpikeCost) -> str | None:
    """The energy of memory accesses beside that of the rivals in float32 and int8; None where it was not counted."""
    if cost.memory_energy is None:
        return None
    known = {rival.name: rival.memory for rival in cost.rivals}
    beside = ", ".join(f"{name} {energy_text(known[name])}" for name in ("float32", "int8") if name in known)
    return f"{energy_text(cost.memory_energy)} of accesses on top" + (f" (network: {beside})" if beside else "")


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
        Column("operations", "accumulates or multiply–accumulates for an image", numeric=True),
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
    said = rivals_text(cost) or ""
    counted = next(rival.rows for rival in cost.rivals if rival.rows is not None)
    caption = (
        f"{said[:1].upper()}{said[1:]}. Zero activations were counted on {counted:,} of the {record.decisions.split} "
        "rows; how accurate the network is with fewer bits was not measured."
    )
    yield Table("Beside its rivals", columns, tuple(rows), caption, file="rivals.csv")


def _integers(cost: SpikeCost) -> float | None:
    """The energy of the same operations at the prices of integers; None for a run that has them already."""
    if cost.prices.numbers != "float32":
        return None
    return cost.at(Prices(neurons=cost.prices.neurons, numbers="int8")).energy
