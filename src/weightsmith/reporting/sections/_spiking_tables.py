"""The tables of a spiking network: accuracy by steps, cost by layer, populations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weightsmith.reporting.figures.spiking._panels import layer_names
from weightsmith.reporting.parts import Cell, Column, Shown, Table
from weightsmith.reporting.sections._spiking_rows import layer_operations
from weightsmith.reporting.sections._wording import (
    chance,
    counted,
    energy_text,
    percent,
    percent_within,
    points,
    significant,
)
from weightsmith.spiking.results import Population, SpikeRecord, Watched

__all__ = ["cost_tables", "population_tables", "steps_table"]


def steps_table(record: SpikeRecord) -> Table:
    """Accuracy and energy after 1, 2, 4, … and all steps."""
    decisions, cost = record.decisions, record.cost
    columns = (
        Column("steps", numeric=True),
        Column(
            "accuracy", "share of the images that are right if the run ends here, and Wilson’s interval", numeric=True
        ),
        Column("change", "against the network on the same images, in points", numeric=True),
        Column("p", "McNemar’s: how often a change as large comes by chance", numeric=True),
        Column("undecided", "images without an answer yet", numeric=True),
        Column("energy", "per image until then", numeric=True),
        Column("ratio", "energy ÷ that of the network", numeric=True),
    )
    rows = []
    for steps in sorted({*(1 << power for power in range(record.steps.bit_length())), record.steps}):
        found, against = decisions.accuracy(steps), decisions.cost_after(steps)
        energy = float(cost.curve[steps - 1])
        ratio = energy / cost.network_energy if cost.macs else None
        rows.append(
            (
                steps,
                Shown(found.value, percent_within(found)),
                Shown(against.difference, points(against.difference)),
                Shown(against.p, chance(against.p).removeprefix("p ").removeprefix("= ")),
                int(decisions.undecided[steps - 1]),
                Shown(energy, energy_text(energy)),
                Shown(ratio, "–" if ratio is None else f"{significant(ratio)} ×"),
            )
        )
    ended = f"; an image was run for {decisions.ended:.1f} steps on average" if decisions.ended < record.steps else ""
    caption = f"Half of the images keep their answer from step {decisions.settled:,} on{ended}."
    return Table("After so many steps", columns, tuple(rows), caption, file="steps.csv")


def cost_tables(record: SpikeRecord) -> Iterator[Table]:
    """Operations and energy of every layer, if there are any."""
    cost, rows = record.cost, layer_operations(record)
    if not rows:
        return
    multiplies, estimated = any(row["multiplies"] for row in rows), cost.basis == "estimate"
    columns = [
        Column("layer"),
        Column("spikes", "that arrive for an image", numeric=True),
        Column("additions", "that they cause, those of constant currents included", numeric=True),
        Column("energy", "per image", numeric=True),
        Column("share", "of the energy of the run", numeric=True),
        Column("MACs", "multiply–accumulates of the network for an image, without those of padding", numeric=True),
        Column("path", "how the simulator computed it"),
    ]
    if multiplies:
        what = "with an addition each, where values that are no spikes arrive"
        columns.insert(3, Column("multiplications", what, numeric=True))
    if estimated:
        columns.append(Column("basis", "whether additions were counted unit by unit, or estimated by mean reaches"))
    total = sum(float(row["energy_picojoule"] or 0) for row in rows)
    bases = {layer.name: layer.basis for layer in cost.layers}
    cells = tuple(
        (
            *_cost(row, total, multiplies=multiplies),
            record.paths.get(str(row["layer"])),
            *((bases.get(str(row["layer"])),) if estimated else ()),
        )
        for row in rows
    )
    prices = cost.prices
    neurons = "updates of neurons included" if prices.neurons else "neurons are left out"
    caption = (
        f"Per image, {prices.ac:g} pJ for an addition and {prices.mac:g} pJ for a multiplication with its "
        f"addition; {neurons}. Memory is apart, communication left out: energies compare, they do not predict."
    )
    yield Table("Cost by layer", tuple(columns), cells, caption, file="cost-by-layer.csv")


def _cost(row: Mapping[str, Any], total: float, *, multiplies: bool) -> tuple[Cell | Shown, ...]:
    name, energy = row["layer"], row["energy_picojoule"]
    share = energy / total if total else None
    counts = ("spikes", "accumulates", "multiplies") if multiplies else ("spikes", "accumulates")
    return (
        f"{name} (direct)" if row["kind"] == "direct" else name,
        *(Shown(row[key], significant(row[key])) for key in counts),
        Shown(energy, energy_text(energy)),
        Shown(share, percent(share)),
        row["network_macs"],
    )


def population_tables(record: SpikeRecord) -> Iterator[Table]:
    """Thresholds and rates of every population, and separately the measurements on a few images."""
    if not record.populations:
        return
    columns = (
        Column("layer", "whose weights feed the neurons"),
        Column("neurons", numeric=True),
        Column("threshold", "the median over the neurons", numeric=True),
        Column("from – to", "the least and the largest threshold; sorted by their distance", numeric=True),
        Column("rate", "spikes per neuron and step", numeric=True),
        Column("spikes", "per image", numeric=True),
    )
    names = layer_names([(each.layer, each.name) for each in record.populations])
    rows = tuple((name, *_population(each)) for name, each in zip(names, record.populations, strict=True))
    yield Table("Populations", columns, rows, file="populations.csv")
    if record.watched is not None:
        yield _watched_table(record, names)


def _watched_table(record: SpikeRecord, names: Sequence[str]) -> Table:
    assert record.watched is not None
    columns = (
        Column("layer", "whose weights feed the neurons"),
        Column("silent", "share of the neurons that fired for none of the images", numeric=True),
        Column("Fano factor", "1 for Poisson trains, 0 for regular ones", numeric=True),
        Column("interval CV", "1 for Poisson trains, 0 for regular ones", numeric=True),
        Column("overshoot", "of the membrane over the threshold at a spike, in thresholds", numeric=True),
        Column("slope", "rates against activations; 1 is true to the network where amplitudes are known", numeric=True),
        Column("correlation", "of rates and activations", numeric=True),
    )
    rows: tuple[tuple[Cell | Shown, ...], ...]
    rows = tuple((name, *_closely(record.watched, each)) for name, each in zip(names, record.populations, strict=True))
    caption = f"Measured on {counted(record.watched.activity.images, 'image')}."
    return Table("Populations, closely watched", columns, rows, caption, file="watched.csv")


def _population(population: Population) -> tuple[Cell | Shown, ...]:
    ends = population.threshold
    span = f"{significant(ends.least)} – {significant(ends.largest)}"
    return (
        population.units,
        Shown(ends.median, significant(ends.median)),
        Shown(ends.largest - ends.least, "all the same" if ends.least == ends.largest else span),
        Shown(population.rate, significant(population.rate)),
        Shown(population.spikes_per_image, significant(population.spikes_per_image)),
    )


def _closely(watched: Watched, population: Population) -> tuple[Shown, ...]:
    """Dashes for a population that was not watched."""
    name = population.name
    fired = next((each for each in watched.activity.populations if each.name == name), None)
    matched = next((each for each in watched.correspondence.populations if each.name == name), None)
    silent = None if fired is None else fired.silent
    values = [None] * 3 if fired is None else [fired.fano, fired.interval_cv, fired.overshoot]
    values += [None] * 2 if matched is None else [matched.slope, matched.correlation]
    return (Shown(silent, percent(silent)), *(Shown(value, significant(value)) for value in values))
