from __future__ import annotations

import dataclasses
import random
import statistics

import pytest

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.core.records import Origin
from weightsmith.core.statistics import holm, mean_interval, wilson
from weightsmith.reporting.parts import Drawing, Facts, Notes, Shown, Table
from weightsmith.reporting.sections.overview import (
    Judged,
    KnownNetwork,
    compared_section,
    graded_section,
    in_order,
    overview_section,
)
from weightsmith.spiking.energy.cost import Prices


@pytest.fixture(scope="module")
def results():
    """Two seeds of a training and a reduction; of the first also its grades, its accuracy and two conversions."""
    data = ws.data.load("digits")
    found = {}
    for seed in (0, 1):
        run = ws.train("mlp:12", data, epochs=2, seed=seed)
        small = ws.reduce(run, data, by="angles:60", random=2, rows=200, latency=False, seed=seed)
        found |= {f"train-{seed}": run.record, f"small-{seed}": small.record}
        if seed == 0:
            found["judged"] = ws.evaluate(run.network, data)
            found["grades"] = ws.grade(run.network, evidence="none")
            for adjust in (None, "l4:1"):
                spiking = ws.spike(small.network, data, steps=4, test_rows=60, watch=0, adjust=adjust)
                found[f"spike-{adjust or 'plain'}"] = spiking.record
    return list(found.items())


def parts(section, kind):
    return [part for part in section.parts if isinstance(part, kind)]


def part(section, title):
    (found,) = [each for each in section.parts if getattr(each, "title", None) == title]
    return found


def table(section, title):
    """Rows by their first cell, values by the heads of their columns."""
    made = part(section, title)
    heads = [column.head for column in made.columns]
    plain = [[cell.value if isinstance(cell, Shown) else cell for cell in row] for row in made.rows]
    return {row[0]: dict(zip(heads, row, strict=True)) for row in plain}


def texts(section, title):
    made = part(section, title)
    heads = [column.head for column in made.columns]
    return {
        row[0]: {head: cell.text for head, cell in zip(heads, row, strict=True) if isinstance(cell, Shown)}
        for row in made.rows
    }


def notes(section):
    return [line for found in parts(section, Notes) for line in found.lines]


def test_every_network_has_a_row_with_what_the_records_say(results):
    records, rows = dict(results), table(overview_section(results), "Networks")
    assert list(rows) == ["train-0", "small-0", "spike-plain", "spike-l4:1", "train-1", "small-1"]
    small, spiking, judged = records["small-0"], records["spike-plain"], records["judged"]
    assert rows["train-0"]["accuracy"] == judged.accuracy.value
    assert rows["train-0"]["parameters"] == records["train-0"].parameters == small.whole.parameters
    assert rows["train-0"]["against its parent"] is None
    assert rows["small-0"]["MACs"] == small.reduced.macs
    assert rows["small-0"]["against its parent"] == small.measured.cost.difference
    assert rows["small-0"]["energy"] == spiking.cost.network_energy
    assert rows["spike-plain"]["energy"] == spiking.cost.energy
    assert rows["spike-plain"]["ACs"] == round(float(spiking.cost.accumulates[-1]))
    assert rows["spike-plain"]["MACs"] is None
    assert rows["spike-plain"]["parameters"] == small.reduced.parameters
    assert rows["spike-plain"]["digest"] == spiking.result[:12]


def test_accuracies_stand_with_their_intervals_and_images(results):
    records, shown = dict(results), texts(overview_section(results), "Networks")
    found = records["small-1"].measured.reduced
    written = f"{100 * found.value:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    assert shown["small-1"]["accuracy"] == written
    assert shown["small-1"]["images"] == "360 test"
    assert shown["spike-plain"]["images"] == "60 test"


def test_the_energy_of_macs_that_no_run_counted_says_so(results):
    shown, rows = (read(overview_section(results), "Networks") for read in (texts, table))
    assert shown["train-0"]["energy"].startswith("≈ ")
    assert rows["train-0"]["energy"] == Prices().mac * rows["train-0"]["MACs"]
    assert not shown["small-0"]["energy"].startswith("≈")


def test_energies_leave_out_the_padding_whether_a_run_counted_them_or_not():
    data = ws.data.load("digits")
    run = ws.train("cnn:4,6", data, epochs=1)
    small = ws.reduce(run, data, by="magnitude", target="params:0.5", random=0, rows=100, latency=False)
    spiking = ws.spike(small.network, data, steps=2, test_rows=10, watch=0)
    alone = [("run", run.record), ("small", small.record)]
    assumed, counted = (
        table(overview_section(each), "Networks")["small"] for each in (alone, [*alone, ("spikes", spiking.record)])
    )
    assert assumed["energy"] == pytest.approx(counted["energy"]) == pytest.approx(spiking.record.cost.network_energy)
    assert counted["energy"] < Prices().mac * counted["MACs"]  # those include the padding


def test_without_one_price_for_all_no_energy_is_assumed(results):
    records = dict(results)
    dear = dataclasses.replace(records["spike-plain"].cost, prices=Prices(multiply=9.0))
    records["spike-plain"] = dataclasses.replace(records["spike-plain"], cost=dear)
    rows = table(overview_section(list(records.items())), "Networks")
    assert rows["train-0"]["energy"] is None
    assert rows["spike-plain"]["energy"] == dear.energy


def test_the_most_images_of_the_test_split_judge(results):
    records = dict(results)
    digest = records["small-0"].result
    more = dataclasses.replace(
        records["judged"],
        images=9999,
        accuracy=wilson(1, 9999),
        origin=Origin(inputs={"network": digest}, versions={}),
    )
    section = overview_section([*results, ("more", more)])
    assert table(section, "Networks")["small-0"]["accuracy"] == 1 / 9999
    aside = dataclasses.replace(more, split="train")
    assert table(overview_section([*results, ("more", aside)]), "Networks")["small-0"]["images"] == 360


def test_both_figures_have_a_named_point_for_each_network(results):
    section = overview_section(results)
    for title, column in (("parameters", "parameters"), ("energy", "energy_picojoule")):
        drawing, rows = part(section, f"Accuracy against {title}"), table(section, "Networks")
        assert drawing.how.startswith("How to read it: ")
        assert [row["network"] for row in drawing.rows] == list(rows)
        assert [row[column] for row in drawing.rows] == [row[title] for row in rows.values()]
        assert all(row["low"] <= row["accuracy"] <= row["high"] for row in drawing.rows)
        labels = {line.get_label() for line in drawing.figure().axes[0].get_lines()}
        assert set(rows) <= labels


def test_the_ancestry_leads_from_the_first_weights_to_the_last_network(results):
    drawing, records = part(overview_section(results), "Ancestry"), dict(results)
    start = records["train-0"].origin.inputs["network"]
    assert [(row["generation"], row["network"], row["parent"]) for row in drawing.rows] == [
        (0, start[:12], None),
        (1, "train-0", start),
        (2, "small-0", "train-0"),
        (3, "spike-plain", "small-0"),
        (3, "spike-l4:1", "small-0"),
        (0, records["train-1"].origin.inputs["network"][:12], None),
        (1, "train-1", records["train-1"].origin.inputs["network"]),
        (2, "small-1", "train-1"),
    ]
    assert drawing.rows[0]["made"] == "before training"
    assert drawing.figure().axes


def test_seeds_versions_and_digests_are_all_there(results):
    section, records = overview_section(results), dict(results)
    rows = table(section, "Results")
    assert set(rows) == set(records)
    assert rows["small-0"]["network in"] == records["train-0"].network[:12]
    assert rows["small-0"]["network out"] == records["small-0"].result[:12]
    assert rows["small-1"]["seed"] == 1
    assert rows["grades"]["record"] == records["grades"].digest()[:12]
    (facts,) = parts(section, Facts)
    assert ("seeds", "0, 1") in facts.pairs
    assert ("weightsmith", ws.__version__) in facts.pairs


def test_the_lead_names_the_best_and_what_it_would_cost_less_to_run(results):
    section = overview_section(results)
    best = max((row["accuracy"], name) for name, row in table(section, "Networks").items())
    assert section.lead.startswith("8 results of 6 networks (2 trained, 2 reduced, 2 spiking).")
    assert f"The most accurate is {best[1]} with {100 * best[0]:.1f} % [" in section.lead
    assert dict(section.chips)["networks"] == "6"


def test_what_cannot_be_compared_is_noted(results):
    (rows,) = notes(overview_section(results))
    assert rows.startswith(
        "Accuracies were measured on different rows: train-0, small-0, train-1, small-1 on 360 images"
    )
    assert rows.endswith("spike-plain, spike-l4:1 on 60 images (test).")
    records = dict(results)
    alone = overview_section([("train-0", records["train-0"])])
    assert notes(alone) == ["train-0 was not judged on any rows: the results hold no accuracy with an interval."]
    assert not [each for each in parts(alone, Drawing) if each.title.startswith("Accuracy")]
    older = dataclasses.replace(records["train-0"], origin=Origin(0, {}, {"weightsmith": "0.0.1"}))
    mixed = notes(overview_section([("old", older), ("small-1", records["small-1"])]))
    assert mixed[-1] == f"The results were computed by different versions of weightsmith: 0.0.1, {ws.__version__}."


def test_a_network_that_came_in_is_called_by_its_file(results):
    records = dict(results)
    graded = dataclasses.replace(records["grades"], source="nets/big.safetensors")
    rows = table(overview_section([("small-0", records["small-0"]), ("grades", graded)]), "Networks")
    assert list(rows) == ["big", "small-0"]
    assert rows["big"]["made"] == "original"
    unnamed = table(overview_section([("small-0", records["small-0"])]), "Networks")
    assert list(unnamed) == [f"mlp:12 ({records['train-0'].network[:6]})", "small-0"]


def test_networks_of_kinds_from_elsewhere_join(results):
    records = dict(results)
    parent = records["train-0"].network
    other = KnownNetwork(
        "f" * 64, "mine", "tailored", "tailored: by hand", parent, judged=Judged(wilson(5, 10), "test", 10), energy=7.0
    )
    more = dataclasses.replace(
        other, digest=parent, parent=None, energy=1.0, judged=Judged(wilson(1, 10), "test", 9999)
    )
    shown = table(overview_section(results, [more]), "Networks")
    assert shown["train-0"]["energy"] == 1.0  # which no record counted
    assert shown["train-0"]["images"] == 360  # as its own results say
    section = overview_section(results, [other])
    assert table(section, "Networks")["mine"]["energy"] == 7.0
    assert ("train-0", "mine") in [(row["parent"], row["network"]) for row in part(section, "Ancestry").rows]


def test_parents_come_before_children_whatever_the_order(results):
    wanted = in_order(results)
    names = [name for name, _ in wanted]
    assert names[:4] == ["train-0", "judged", "grades", "small-0"]
    for seed in range(5):
        mixed = random.Random(seed).sample(results, len(results))
        order = [name for name, _ in in_order(mixed)]
        assert sorted(order) == sorted(names)
        for before, after in (
            ("train-0", "judged"),
            ("judged", "grades"),
            ("grades", "small-0"),
            ("small-0", "spike-plain"),
            ("train-1", "small-1"),
        ):
            assert order.index(before) < order.index(after)


def test_nothing_cannot_be_overlooked():
    with pytest.raises(UsageError, match="no results were given"):
        overview_section([])


def test_stages_over_seeds_have_mean_and_spread(results):
    section, records = compared_section(results), dict(results)
    values = [records[f"small-{seed}"].measured.reduced.value for seed in (0, 1)]
    row, text = table(section, "Over seeds")["small"], texts(section, "Over seeds")["small"]
    assert row["seeds"] == 2
    assert row["accuracy"] == statistics.mean(values)
    assert text["accuracy"] == f"{100 * row['accuracy']:.1f} % ± {100 * statistics.stdev(values):.1f}"
    ends = mean_interval(values)
    low, high = 100 * max(0, ends.low), 100 * min(1, ends.high)
    assert text["interval"] == f"[{low:.1f}, {high:.1f}]"
    assert set(table(section, "Over seeds")) == {"train", "small"}
    drawing = part(section, "Accuracy over seeds")
    assert [row["seed"] for row in drawing.rows] == [0, 1, 0, 1]
    assert drawing.figure().axes


def test_other_settings_are_another_stage(results):
    records = dict(results)
    other = dataclasses.replace(records["small-1"], settings={**records["small-1"].settings, "by": "angles:30"})
    names = table(compared_section([*results[:-1], ("small-1", other)]), "Over seeds")
    assert set(names) == {"train"}
    trained = dataclasses.replace(records["train-1"], settings={**records["train-1"].settings, "epochs": 3})
    changed = [(name, trained if name == "train-1" else record) for name, record in results]
    assert not [each for each in compared_section(changed).parts if each.title == "Over seeds"]  # nor its children


@pytest.mark.parametrize(
    ("names", "stage"),
    [
        (("train-0", "train-1"), "train"),
        (("train, seed 0", "train, seed 1"), "train"),
        (("train (seed 0)", "train (seed 1)"), "train"),
        (("seed-0/angles", "seed-1/angles"), "angles"),
        (("a", "b"), "mlp:12 trained on digits, 2 epochs"),
    ],
)
def test_a_stage_is_called_by_what_its_names_share(results, names, stage):
    records = dict(results)
    called = zip(names, (records["train-0"], records["train-1"]), strict=True)
    others = [(name, record) for name, record in results if not name.startswith("train")]
    assert stage in table(compared_section([*called, *others]), "Over seeds")


def test_reductions_are_compared_by_size(results):
    section, records = compared_section(results), dict(results)
    rows = table(section, "Reductions")
    first = records["small-0"]
    assert rows["small-0"]["parameters left"] == first.reduced.parameters / first.whole.parameters
    assert rows["small-0"]["random masks"] == pytest.approx(first.random.mean / 100)
    ps = holm([records[name].measured.cost.p for name in ("small-0", "small-1")])
    assert [rows[name]["p"] for name in ("small-0", "small-1")] == ps
    drawing = part(section, "Accuracy against size of all reductions")
    assert [row["network"] for row in drawing.rows] == ["small-0", "small-1"]
    assert drawing.figure().axes


def test_random_masks_stand_beside_reductions_of_one_network(results):
    record = dict(results)["small-0"]
    other = dataclasses.replace(record, result="e" * 64)
    drawing = part(compared_section([("a", record), ("b", other)]), "Accuracy against size of all reductions")
    assert [row["network"] for row in drawing.rows].count("random masks, untrained") == 2
    labels = [text.get_text() for text in drawing.figure().legends[0].get_texts()]
    assert labels[0] == f"unreduced: {100 * record.measured.whole.value:.1f} %"


def test_conversions_are_compared_step_by_step(results):
    section, records = compared_section(results), dict(results)
    drawing = part(section, "Accuracy after each step")
    assert len(drawing.rows) == 2 * 4
    last = [row for row in drawing.rows if row["step"] == 4]
    assert [row["accuracy"] for row in last] == [
        pytest.approx(records[name].decisions.spiking.value, rel=1e-5) for name in ("spike-plain", "spike-l4:1")
    ]
    assert drawing.figure().axes
    assert part(section, "Energy after each step").figure().axes
    row = table(section, "Spiking networks")["spike-plain"]
    assert row["of its network"] == records["spike-plain"].cost.ratio
    assert row["steps needed"] == records["spike-plain"].decisions.steps_within(0.5)


def test_losses_of_trainings_are_drawn_together(results):
    drawing = part(compared_section(results), "Loss of all trainings")
    assert [(row["run"], row["epoch"]) for row in drawing.rows] == [
        ("train-0", 1),
        ("train-0", 2),
        ("train-1", 1),
        ("train-1", 2),
    ]
    assert drawing.figure().axes


def test_many_runs_are_cut_in_figures_and_not_in_tables(results):
    record = dict(results)["spike-plain"]
    section = compared_section([(f"run {number}", record) for number in range(15)])
    drawing = part(section, "Accuracy after each step")
    assert len({row["run"] for row in drawing.rows}) == 12
    assert drawing.how.endswith("The first 12 of 15 are drawn.")
    assert len(table(section, "Spiking networks")) == 15


def test_one_of_each_is_not_compared(results):
    one_each = [(name, record) for name, record in results if name in ("train-0", "small-0", "spike-plain", "judged")]
    assert compared_section(one_each) is None
    assert graded_section(one_each) is None


def test_graded_networks_are_ordered_by_their_accuracies(results):
    graded = dict(results)["grades"]
    several, judged = [], []
    for number in range(3):
        origin = Origin(0, {"network": str(number) * 64}, {})
        measures = tuple(
            dataclasses.replace(each, value=None if each.value is None else each.value + number)
            for each in graded.measures
        )
        several.append((f"net {number}", dataclasses.replace(graded, origin=origin, measures=measures)))
        accuracy = {"accuracy": wilson(50 + number, 100), "origin": origin}
        judged.append((f"judged {number}", dataclasses.replace(dict(results)["judged"], **accuracy)))
    section = graded_section([*several, *judged])
    measures = next(each for each in parts(section, Table) if each.title == "Measures of all networks")
    assert [column.head for column in measures.columns][1:5] == ["net 0", "net 1", "net 2", "τ"]
    assert measures.caption == "Accuracies as given: net 0 50.0 %, net 1 51.0 %, net 2 52.0 %."
    plain = next(each for each in parts(graded_section(several), Table) if each.title == "Measures of all networks")
    assert "τ" not in [column.head for column in plain.columns]
    odd = dataclasses.replace(several[0][1], settings={**graded.settings, "conv": "slices"})
    assert graded_section([("odd", odd), *several[1:], *judged]) is not None


def test_a_transfer_comes_from_its_base():
    base = ws.networks.mlp(64, 8, 10, seed=1)
    record = ws.transfer(base, ws.data.load("digits"), epochs=1, rate=0.1, unfreeze=1).record
    section = overview_section([("moved", record)])
    best = record.stages[record.best]
    row = table(section, "Networks")["moved"]
    assert (row["accuracy"], row["images"]) == (best.accuracy.value, record.stages[1].gain.n)
    assert row["parameters"] == best.training.parameters
    assert [(each["generation"], each["network"]) for each in part(section, "Ancestry").rows] == [
        (0, f"network ({record.origin.inputs['base'][:6]})"),
        (1, "moved"),
    ]
