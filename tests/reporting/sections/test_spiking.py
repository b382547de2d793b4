"""The section of a conversion holds what its record says: accuracy, cost, firing; and no part for what it has not."""

from __future__ import annotations

import csv
import dataclasses
import io

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.statistics import holm, mcnemar
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Drawing, Facts, Table
from weightsmith.reporting.sections import _spiking_rows as rows_module
from weightsmith.reporting.sections import spiking as section_module
from weightsmith.reporting.sections.spiking import spiking_section
from weightsmith.spiking.results import SpikeRecord

PLAIN = [
    "Accuracy against time steps",
    "Energy against time steps",
    "Operations and energy by layer",
    "Energy compared with rivals",
    "Firing rates",
]
WATCHED = [
    "How regularly neurons fire",
    "Spikes of one image",
    "Membranes of a few neurons",
    "Rates against activations",
]


@pytest.fixture(scope="module")
def network():
    run = ws.train("mlp:20,12,bias=false", "digits", optimiser="adam", schedule=0.01, epochs=4)
    return run.network


@pytest.fixture(scope="module")
def record(network) -> SpikeRecord:
    """Everything at once: watched and adjusted."""
    found = ws.spike(
        network, "digits", neuron="lif:0.95", encode="poisson", balance="max-current", adjust="l4:1.0", steps=20
    )
    return found.record


@pytest.fixture(scope="module")
def bare(network) -> SpikeRecord:
    return ws.spike(network, "digits", steps=12, watch=0, test_rows=100, early="margin:3").record


def test_the_lead_says_how_right_at_what_cost(record):
    decisions, cost = record.decisions, record.cost
    section = spiking_section(record, "snn")
    assert section.title == "Spiking: snn"
    assert section.lead.startswith(
        "mlp:20,12,bias=false as a spiking network (lif:0.95, poisson input) is right on "
        f"{100 * decisions.spiking.value:.1f} % of 360 rows (test) after 20 steps, the network on "
        f"{100 * decisions.network.value:.1f} %: "
    )
    text = f"An image costs {cost.energy / 1000:.3g} nJ of arithmetic, {cost.ratio:.3g} times the "
    assert text + f"{cost.network_energy / 1000:.3g} nJ of the network." in section.lead


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (1, "these 100 rows cannot exclude a loss of 4.3 points."),
        (30, "p < 0.0001: a loss of 20.2 to 38.7 points at 95 %."),
    ],
)
def test_the_lead_says_what_the_interval_excludes(record, wrong, said):
    cost = mcnemar([1] * (100 - wrong) + [0] * wrong, [1] * 100)
    decisions = dataclasses.replace(record.decisions, cost=cost)
    assert said in spiking_section(dataclasses.replace(record, decisions=decisions), "x").lead


def test_chips_are_accuracies_steps_energy_and_rate(record, read):
    chips = read(spiking_section(record, "x")).chips
    spiking = record.decisions.spiking
    assert chips["spiking, after 20 steps"] == (
        f"{100 * spiking.value:.1f} % [{100 * spiking.low:.1f}, {100 * spiking.high:.1f}] of 360 rows (test)"
    )
    first, second = record.populations
    rate = (first.rate * first.units + second.rate * second.units) / (first.units + second.units)
    assert chips["spikes per neuron and step"] == f"{rate:.3g}"
    enough = record.decisions.steps_within(0.5)
    assert chips["steps until within 0.5 points"] == (f"not in {record.steps:,}" if enough is None else str(enough))


def test_every_figure_of_a_watched_and_adjusted_run_is_there_and_can_be_drawn(record, read):
    reader = read(spiking_section(record, "x"))
    assert reader.drawings == [*PLAIN, *WATCHED, "Predictions of both networks", "What the adjustment did"]
    reader.draw_all()


def test_a_run_that_was_neither_watched_nor_adjusted_leaves_both_out(bare, read):
    reader = read(spiking_section(bare, "x"))
    assert reader.drawings == [*PLAIN, "Predictions of both networks"]
    assert len(reader.table("Populations")) == 2
    assert not [part for part in reader.parts if getattr(part, "title", "") == "Populations, closely watched"]
    assert not any(part.title == "Adjustment" for part in reader.of(Facts))
    reader.draw_all()


def test_the_rows_of_accuracy_and_energy_are_those_of_the_record(record, read):
    reader = read(spiking_section(record, "x"))
    rows = reader.drawing(PLAIN[0]).rows
    assert [row["steps"] for row in rows] == list(range(1, 21))
    assert [row["accuracy"] for row in rows] == pytest.approx(record.decisions.correct / 360, rel=1e-5)
    assert [row["undecided"] for row in rows] == record.decisions.undecided.tolist()
    rows = reader.drawing(PLAIN[1]).rows
    assert [row["energy_picojoule"] for row in rows] == pytest.approx(record.cost.curve, rel=1e-5)


def test_the_table_of_steps_doubles_up_to_the_last(record, bare, read):
    reader = read(spiking_section(record, "x"))
    rows = reader.table("After so many steps")
    assert [row["steps"] for row in rows] == [1, 2, 4, 8, 16, 20]
    last, decisions = rows[-1], record.decisions
    assert last["accuracy"] == decisions.spiking.value
    assert last["change"] == decisions.cost.difference
    ps = holm([decisions.cost_after(steps).p for steps in (1, 2, 4, 8, 16)])
    assert [row["p"] for row in rows] == pytest.approx([*ps, decisions.cost.p])  # the last as in the sentence
    assert last["ratio"] == pytest.approx(record.cost.ratio)
    (caption,) = [one.caption for one in read(spiking_section(bare, "x")).of(Table) if "so many" in one.title]
    assert f"run for {bare.decisions.ended:.1f} steps on average" in caption


def test_the_cost_table_adds_up(record, bare, read):
    rows = read(spiking_section(record, "x")).table("Cost by layer")
    layers = [layer.name for layer in record.cost.layers]
    assert [row["layer"] for row in rows] == [*layers, "all neurons", "random draws"]
    assert sum(row["energy"] for row in rows) == pytest.approx(record.cost.energy)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    rows = rows[: len(layers)]
    assert sum(row["additions"] for row in rows) == pytest.approx(record.cost.accumulates[-1])
    assert sum(row["MACs"] for row in rows) == record.cost.macs
    assert all(row["multiplications"] == 0 for row in rows)  # Poisson spikes need none, but leaks do
    constant = read(spiking_section(bare, "x")).table("Cost by layer")
    assert constant[0]["multiplications"] == record.cost.layers[0].macs
    assert ("basis" in constant[0]) == (bare.cost.basis == "estimate")


def test_populations_are_told_with_what_was_watched(record, read):
    reader = read(spiking_section(record, "x"))
    for row, population in zip(reader.table("Populations"), record.populations, strict=True):
        assert (row["layer"], row["neurons"]) == (population.layer, population.units)
        assert (row["rate"], row["spikes"]) == (population.rate, population.spikes_per_image)
        assert row["threshold"] == population.threshold.median
    closely = reader.table("Populations, closely watched")
    for row, fired in zip(closely, record.watched.activity.populations, strict=True):
        assert (row["silent"], row["Fano factor"], row["overshoot"]) == (fired.silent, fired.fano, fired.overshoot)
    slopes = [population.slope for population in record.watched.correspondence.populations]
    assert [row["slope"] for row in closely] == slopes


def test_the_rows_of_the_raster_are_its_spikes(record, read):
    raster = record.watched.raster
    rows = read(spiking_section(record, "x")).drawing("Spikes of one image").rows
    expected = [
        (population.name, int(population.channels[unit]), step + 1)
        for population in raster.populations
        for step, unit in zip(*population.spikes(0), strict=True)
    ]
    assert [(row["population"], row["channel"], row["step"]) for row in rows] == expected


def test_a_long_raster_is_thinned_by_units_so_that_trains_stay_whole(monkeypatch, record, read):
    monkeypatch.setattr(rows_module, "MOST_ROWS", 30)
    raster = record.watched.raster
    rows = read(spiking_section(record, "x")).drawing("Spikes of one image").rows
    for population in raster.populations:
        _, units = population.spikes(0)
        listed = [row for row in rows if row["population"] == population.name]
        channels = {row["channel"] for row in listed}
        whole = sum(int(population.channels[unit]) in channels for unit in units)
        assert len(listed) == whole <= max(15, np.bincount(units).max())
    assert 0 < len(rows) < sum(len(population.spike_steps) for population in raster.populations)


def test_the_strokes_of_a_long_raster_are_drawn_as_an_image(monkeypatch, record, read):
    drawing = read(spiking_section(record, "x")).drawing("Spikes of one image")
    spikes = sum(len(population.spikes(0)[0]) for population in record.watched.raster.populations)
    for most, as_image in ((spikes, False), (spikes - 1, True)):
        monkeypatch.setattr(section_module, "_MOST_STROKES", most)
        figure = drawing.figure()
        assert {bool(found.get_rasterized()) for axes in figure.axes for found in axes.collections} == {as_image}


def test_the_rows_of_membranes_are_traces_in_thresholds(record, read):
    rows = read(spiking_section(record, "x")).drawing("Membranes of a few neurons").rows
    population = record.watched.raster.populations[0]
    mine = [row for row in rows if row["population"] == population.name]
    assert len(mine) == 3 * 20
    unit = population.channels.tolist().index(mine[0]["channel"])
    trace = population.membranes[0, :, unit] / population.thresholds[unit]
    assert [row["membrane"] for row in mine[:20]] == pytest.approx(trace, rel=1e-4, abs=1e-5)
    assert [row["spike"] for row in mine] == [int(row["membrane"] >= 1) for row in mine]


def test_the_rows_of_answers_are_the_confusion_with_names(record, read):
    names = [f"digit {number}" for number in range(10)]
    rows = read(spiking_section(record, "x", names)).drawing("Predictions of both networks").rows
    confusion = record.decisions.confusion
    cells = {(row["by_network"], row["by_spiking_network"]): row["images"] for row in rows}
    assert sum(cells.values()) == 360
    assert cells["digit 3", "digit 3"] == confusion.matrix[3, 3]
    undecided = sum(count for (_, answer), count in cells.items() if answer == "undecided")
    assert undecided == confusion.undecided.sum()
    # Names that do not fit are not used.
    rows = read(spiking_section(record, "x", names[:4])).drawing("Predictions of both networks").rows
    assert {row["by_network"] for row in rows} <= set(map(str, range(10)))


def test_the_adjustment_is_told_unit_by_unit(record, read):
    reader = read(spiking_section(record, "x"))
    (population,) = record.adjustment.populations
    rows = reader.drawing("What the adjustment did").rows
    assert [row["scalar"] for row in rows] == pytest.approx(population.scalars, rel=1e-5)
    scalars = [scalar * population.rescale for scalar in population.scalars]
    shown = dict(reader.section["Adjustment"].pairs)[f"weights of {population.synapses} times"]
    assert shown.startswith(f"{min(scalars):.3g} to {max(scalars):.3g} (20 units")


def test_silent_layers_and_images_without_answer_must_be_looked_at(bare, read):
    silent = dataclasses.replace(bare.populations[1], rate=0.0)
    undecided = bare.decisions.undecided.copy()
    undecided[-1] = 7
    decisions = dataclasses.replace(bare.decisions, undecided=undecided)
    changed = dataclasses.replace(
        bare, populations=(bare.populations[0], silent), decisions=decisions, notes=("rounded",)
    )
    reader = read(spiking_section(changed, "x"))
    first, second = reader.notes
    assert reader.section.look_at == ("dense2 never fires (100 rows, 12 steps)",)
    assert first == "7 of 100 images have no answer after 12 steps, and count as wrong."
    assert second == "rounded"
    assert read(spiking_section(dataclasses.replace(bare, notes=()), "x")).notes == []


def test_a_network_that_was_not_written_is_advised_to_be(bare):
    assert not any("--out" in line for line in spiking_section(bare, "snn").try_next)
    assert any("--out FOLDER" in line for line in spiking_section(bare, "snn", kept=False).try_next)


def test_the_facts_hold_settings_and_digests(record, read):
    facts = read(spiking_section(record, "x")).facts
    assert facts["network"] == record.network
    assert facts["neuron"] == "lif:0.95"
    assert facts["SHA-256 of the spiking network"] == record.result
    assert facts["SHA-256 of data"] == record.origin.inputs["data"]


def test_names_cannot_act(bare, hostile):
    populations = tuple(dataclasses.replace(one, layer=hostile, name=hostile) for one in bare.populations)
    layers = tuple(dataclasses.replace(layer, name=f"{hostile}{index}") for index, layer in enumerate(bare.cost.layers))
    changed = dataclasses.replace(
        bare,
        populations=populations,
        cost=dataclasses.replace(bare.cost, layers=layers),
        network=hostile,
        notes=(hostile,),
        settings=bare.settings | {"neuron": hostile},
    )
    section = spiking_section(changed, hostile, [hostile] * 10)
    page = render(hostile, [section])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_rows_are_small_enough_for_a_page(record, read):
    for drawing in read(spiking_section(record, "x")).of(Drawing):
        text = io.StringIO()
        writer = csv.DictWriter(text, list(drawing.rows[0]))
        writer.writerows(drawing.rows)
        assert len(text.getvalue()) < 100_000
        assert len(drawing.rows) <= rows_module.MOST_ROWS
