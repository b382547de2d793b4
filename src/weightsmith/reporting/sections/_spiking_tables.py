"""The tables of a spiking network: accuracy by steps, cost by layer, populations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weightsmith.core.statistics import holm
from weightsmith.reporting.figures.spiking._panels import layer_names
from weightsmith.reporting.parts import Cell, Column, Shown, Table
from weightsmith.reporting.sections._known_networks import change_cells
from weightsmith.reporting.sections._spiking_layers import shown_steps
from weightsmith.reporting.sections._spiking_rows import layer_operations
from weightsmith.reporting.sections._wording import counted, energy_text, percent, percent_within, significant
from weightsmith.spiking.results import Population, SpikeRecord, Watched

__all__ = ["cost_tables", "population_tables", "steps_table"]

_PATHS = {
    "once": "a constant current, computed once for an image",
    "dense": "all units at every step",
    "events": "a row of weights per spike",
    "patterns": "sums of weights looked up, eight inputs at a time",
    "steps": "step by step in torch",
}


_STEPS_P = "McNemar’s, of that difference; of the steps before the last with Holm’s correction"


def steps_table(record: SpikeRecord) -> Table:
    """Accuracy and energy after 1, 2, 4, … and all steps."""
    decisions, cost = record.decisions, record.cost
    columns = (
        Column("steps", numeric=True),
        Column("accuracy", "if the run ends here", numeric=True),
        Column("change", "points, against the network on the same rows", numeric=True),
        Column("p", _STEPS_P, numeric=True, spare=1),
        Column("undecided", "rows without an answer yet", numeric=True),
        Column("energy", "per image until then", numeric=True),
        Column("ratio", "energy ÷ that of the network", numeric=True),
    )
    rows = []
    ends = shown_steps(record.steps)
    changes = [decisions.cost_after(steps) for steps in ends]
    ps = [*holm([each.p for each in changes[:-1]]), changes[-1].p]  # the last is the requested number of steps
    for steps, against, p in zip(ends, changes, ps, strict=True):
        found = decisions.accuracy(steps)
        energy = float(cost.curve[steps - 1])
        ratio = energy / cost.network_energy if cost.macs else None
        rows.append(
            (
                steps,
                Shown(found.value, percent_within(found)),
                *change_cells(against, p),
                int(decisions.undecided[steps - 1]),
                Shown(energy, energy_text(energy)),
                Shown(ratio, "–" if ratio is None else f"{significant(ratio)} ×"),
            )
        )
    ended = f"; an image was run for {decisions.ended:.1f} steps on average" if decisions.ended < record.steps else ""
    rows_of = f"{counted(decisions.images, 'row')} ({decisions.split})"
    caption = f"On {rows_of}. Half of them keep their answer from step {decisions.settled:,} on{ended}."
    return Table("After so many steps", columns, tuple(rows), caption, file="steps.csv")


def cost_tables(record: SpikeRecord) -> Iterator[Table]:
    """Operations and energy of every layer, if there are any."""
    cost, rows = record.cost, layer_operations(record)
    if not rows:
        return
    multiplies, estimated = any(row["multiplies"] for row in rows), cost.basis == "estimate"
    columns = [
        Column("layer"),
        Column("spikes", "that arrive per image", numeric=True),
        Column("additions", "that they cause, with those of constant currents", numeric=True),
        Column("energy", "per image", numeric=True),
        Column("share", "of the energy of the run", numeric=True),
        Column("MACs", "of the network per image, without padding", numeric=True, spare=1),
        Column("path", _paths(record)),
    ]
    if multiplies:
        what = "each with an addition, for inputs that are not spikes"
        columns.insert(3, Column("multiplications", what, numeric=True))
    if estimated:
        columns.append(Column("basis", "whether additions were counted unit by unit, or estimated by mean reaches"))
    total = sum(float(row["energy_picojoule"] or 0) for row in rows)
    bases = {layer.name: layer.basis for layer in cost.layers}
    kinds = {row["kind"] for row in rows}
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
    known = type(prices)(numbers=prices.numbers)
    usual = (prices.ac, prices.mac) == (known.ac, known.mac)
    direct = " (direct): spikes that reach neurons without weights between." if "direct" in kinds else ""
    caption = (
        f"Per image, {prices.ac:g} pJ for an addition and {prices.mac:g} pJ for a multiplication with its "
        f"addition{' (45 nm)' if usual else ''}; {neurons}. Memory is listed apart, communication left out: energies "
        f"are for comparison, not for prediction.{direct}"
    )
    yield Table("Cost by layer", tuple(columns), cells, caption, file="cost-by-layer.csv")


def _paths(record: SpikeRecord) -> str:
    """How the simulator computed a layer: the words that occur."""
    found = {word for path in record.paths.values() for word in path.split()}
    return "; ".join(f"{word} = {meaning}" for word, meaning in _PATHS.items() if word in found)


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
        Column("layer"),
        Column("neurons", numeric=True),
        Column("threshold", "the median over the neurons", numeric=True),
        Column("from – to", "the least and the largest threshold", numeric=True),
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
        Column("slope", "rates against activations; 1 matches the network where amplitudes are known", numeric=True),
        Column("correlation", "of rates and activations", numeric=True),
    )
    rows: tuple[tuple[Cell | Shown, ...], ...]
    rows = tuple((name, *_closely(record.watched, each)) for name, each in zip(names, record.populations, strict=True))
    caption = f"Measured on {counted(record.watched.activity.images, 'image')}."
    return Table("Populations, closely watched", columns, rows, caption, file="watched.csv", detail=True)


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
