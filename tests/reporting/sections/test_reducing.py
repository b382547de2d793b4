"""The section of a reduction holds the numbers of its record, and only the parts that the record has something for."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import weightsmith as ws
from weightsmith.core.statistics import mcnemar
from weightsmith.reducing.latency import Latency, LatencyComparison, Ratio, Timing
from weightsmith.reducing.results import Reduction, ReductionRecord, RemovedUnit
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice
from weightsmith.reporting.sections.reducing import chosen_of_front, points_of, reduction_section

SEARCH = "population=10,generations=3,rows=200"


@pytest.fixture(scope="module")
def trained():
    return ws.train("mlp:24,12,activation=sigmoid", "digits", optimiser="adam", schedule=0.02, epochs=3)


@pytest.fixture(scope="module")
def record(trained) -> ReductionRecord:
    """Everything at once: recovery, random masks, and networks from scratch."""
    found = ws.reduce(
        trained,
        "digits",
        by="angles:60",
        recover="fine-tune:2",
        random=4,
        scratch="fine-tune:1",
        scratch_seeds=(0, 1),
        latency=False,
    )
    return found.record


@pytest.fixture(scope="module")
def searched(trained) -> ReductionRecord:
    return ws.reduce(trained, "digits", by=f"pareto:{SEARCH}", random=1, latency=False).record


@pytest.fixture(scope="module")
def bare(record) -> ReductionRecord:
    """The same cut without anything beside it."""
    settings = record.settings | {"recover": None}
    return dataclasses.replace(
        record, settings=settings, random=None, scratch=None, training=(), obstacles={}, notes=(), recovery=()
    )


def six_digits(rows):
    return all(value == float(f"{value:.6g}") for row in rows for value in row.values() if isinstance(value, float))


def test_the_lead_says_by_what_how_much_smaller_and_what_it_cost(record):
    section = reduction_section(record, "small")
    before, after, measured = record.whole, record.reduced, record.measured
    assert section.title == "Reduction: small"
    assert section.lead.startswith(
        f"angles:60.0 removed {before.units - after.units} of {before.units} units from mlp:24,12,activation=sigmoid "
        f"and left {100 * after.parameters / before.parameters:.1f} % of its parameters. Accuracy on {measured.images} "
        f"rows (test) went from {100 * measured.whole.value:.1f} % to {100 * measured.reduced.value:.1f} % after "
        "fine-tune:epochs=2: "
    )
    ends = measured.cost.interval
    signed = [f"{100 * value:+.1f}".replace("-", "−") for value in (measured.cost.difference, ends.low, ends.high)]
    assert f"{signed[0]} points [{signed[1]}, {signed[2]}], McNemar’s p " in section.lead


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (1, "these 100 rows cannot exclude a loss of 4.3 points."),
        (30, "p < 0.0001: a loss of 20.2 to 38.7 points at 95 %."),
    ],
)
def test_the_lead_says_what_the_interval_excludes(record, wrong, said):
    cost = mcnemar([1] * (100 - wrong) + [0] * wrong, [1] * 100)
    measured = dataclasses.replace(record.measured, cost=cost)
    assert reduction_section(dataclasses.replace(record, measured=measured), "x").lead.endswith(said)


def test_chips_are_accuracies_with_intervals_and_sizes(record, read):
    chips = read(reduction_section(record, "small")).chips
    whole = record.measured.whole
    ends = f"{100 * whole.value:.1f} % [{100 * whole.low:.1f}, {100 * whole.high:.1f}]"
    assert chips["accuracy before"] == f"{ends} of 360 rows (test)"
    assert chips["parameters"] == f"{record.whole.parameters:,} → {record.reduced.parameters:,}"
    assert chips["units"] == f"{record.whole.units} → {record.reduced.units}"


def test_sizes_stand_beside_each_other_with_what_is_left(record, read):
    rows = {row["size"]: row for row in read(reduction_section(record, "small")).table("Sizes")}
    assert list(rows) == ["units", "parameters", "multiply–accumulates", "file"]
    for name, field in (("multiply–accumulates", "macs"), ("file", "file_bytes")):
        before, after = getattr(record.whole, field), getattr(record.reduced, field)
        assert rows[name] == {"size": name, "before": before, "after": after, "left": after / before}


def test_times_are_there_where_they_were_measured(trained, read):
    result = ws.reduce(trained, "digits", by="angles:60", random=0)
    texts = {row["size"]: row for row in read(reduction_section(result, "x")).texts("Sizes")}
    ratio = result.latency.at(64)
    spread = f"{100 * ratio.median:.1f} % [{100 * ratio.low:.0f}, {100 * ratio.high:.0f}]"
    assert texts["time per image, batch 64"]["left"] == spread


@pytest.mark.parametrize(
    ("target", "low", "said"), [("params:0.5", 1.1, True), ("params:0.5", 0.9, False), (None, 1.1, False)]
)
def test_a_smaller_network_that_is_slower_is_told_what_to_do(record, target, low, said):
    timing = Timing(1, 1e-3, 1e-3, 1e-3, 1e-3)
    times = Latency((timing,), "thread time", 1, 20)
    asked = dataclasses.replace(record, settings={**record.settings, "target": target})
    result = Reduction(asked, torch.nn.Identity(), LatencyComparison(times, times, (Ratio(1, 1.2, low, 1.3),)))
    sizes = next(part for part in reduction_section(result, "x").parts if getattr(part, "title", "") == "Sizes")
    assert ("batches of 1: give target=params:0.5,multiple=8" in sizes.caption) == said


def test_accuracy_against_size_has_everything_that_stands_beside(record, read):
    rows = {row["network"]: row for row in read(reduction_section(record, "x")).drawing("Accuracy against size").rows}
    share = record.reduced.parameters / record.whole.parameters
    assert list(rows) == ["before", "just cut", "recovered", "random masks, untrained", "from scratch"]
    assert rows["before"]["parameters_left"] == 1
    assert all(row["parameters_left"] == pytest.approx(share, rel=1e-5) for row in list(rows.values())[1:])
    by_name = {
        "just cut": record.measured.cut,
        "recovered": record.measured.reduced,
        "from scratch": record.scratch.mean,
    }
    for name, interval in by_name.items():
        found = [rows[name][key] for key in ("accuracy", "low", "high")]
        assert found == pytest.approx([interval.value, interval.low, interval.high], rel=1e-5)
    random = rows["random masks, untrained"]
    assert random["accuracy"] == pytest.approx(sum(record.random.accuracies) / 400, rel=1e-5)
    assert random["low"] == pytest.approx(record.random.interval.low / 100, rel=1e-5)
    assert six_digits(rows.values())


def test_a_single_mask_and_a_single_seed_have_a_place_too(record):
    random = dataclasses.replace(record.random, accuracies=(40.0,), mean=40.0, deviation=None, interval=None)
    first = record.scratch.accuracies[0]
    scratch = dataclasses.replace(record.scratch, accuracies=(first,), seeds=(0,), mean=None)
    points = points_of(dataclasses.replace(record, random=random, scratch=scratch))
    assert points["random masks, untrained"][1:] == (40.0, 40.0, 40.0)
    assert points["from scratch"][1:] == (100 * first.value, 100 * first.low, 100 * first.high)


def test_the_tables_are_those_of_the_record(record, read):
    reader = read(reduction_section(record, "x"))
    for row, site in zip(reader.table("Layers"), record.sites, strict=True):
        assert (row["layer"], row["before"], row["kept"]) == (site.name, site.before, len(site.kept))
        assert row["removed"] == site.before - len(site.kept) == len(site.removals)
        assert row["left"] == len(site.kept) / site.before
        reasons = [removal.reason for removal in site.removals]
        assert all(f"{reasons.count(reason)} {reason}" in row["what went"] for reason in set(reasons))
    accuracies = {row["network"]: row["accuracy"] for row in reader.table("Accuracies")}
    assert accuracies["recovered"] == record.measured.reduced.value
    assert accuracies["random masks"] == pytest.approx(record.random.mean / 100)
    assert reader.table("Layers that are never cut") == [{"why": record.obstacles["output"], "layers": "output"}]


def test_the_training_after_the_cut_is_drawn_and_of_several_rounds_one_at_a_time(record, read):
    (training,) = record.training
    drawing = read(reduction_section(record, "x")).drawing("Training after the cut")
    assert [row["train_loss"] for row in drawing.rows] == pytest.approx(training.history.column("train_loss"), rel=1e-5)
    several = read(reduction_section(dataclasses.replace(record, training=(training,) * 3), "x"))
    (choice,) = several.of(Choice)
    assert [label for label, _ in choice.options] == ["round 1", "round 2", "round 3"]
    assert choice.first == 2


def test_a_bare_record_leaves_out_what_it_has_not(bare, read):
    reader = read(reduction_section(bare, "x"))
    assert reader.drawings == ["Accuracy against size", "Units by layer"]
    assert [row["network"] for row in reader.drawing("Accuracy against size").rows] == ["before", "just cut"]
    assert [row["network"] for row in reader.table("Accuracies")] == ["before", "not refitted", "just cut"]
    assert "random" not in reader.drawing("Accuracy against size").how
    assert reader.notes == []
    reader.draw_all()


def test_nothing_taken_out_is_said_so(bare):
    whole = dataclasses.replace(bare, reduced=bare.whole)
    assert reduction_section(whole, "x").lead == (
        f"angles:60.0 removed nothing from mlp:24,12,activation=sigmoid: all {bare.whole.units} units are left."
    )


def test_a_search_has_its_trace_and_its_front(searched, read):
    reader = read(reduction_section(searched, "x"))
    rows = reader.drawing("The search by generation").rows
    assert [row["generation"] for row in rows] == [0, 1, 2, 3]
    assert [row["best"] for row in rows] == pytest.approx([row.best for row in searched.trace.rows], rel=1e-5)
    front = reader.drawing("The front of accuracy and size").rows
    assert [row["units"] for row in front] == sorted(point.units for point in searched.front)
    (chosen,) = [row for row in front if row["chosen"] == "yes"]
    assert chosen["units"] == searched.reduced.units == chosen_of_front(searched).units
    reader.draw_all()


def test_what_was_refused_or_remarked_must_be_looked_at(bare, read):
    first, second = bare.sites
    sites = (
        dataclasses.replace(first, refused="the output differs", kept=tuple(range(first.before)), removals=()),
        dataclasses.replace(second, notes=("two units are constant",)),
    )
    measured = dataclasses.replace(bare.measured, split="train")
    reader = read(
        reduction_section(dataclasses.replace(bare, sites=sites, notes=("few rows",), measured=measured), "x")
    )
    assert reader.section.look_at == ("dense1 was left whole: the output differs",)
    assert reader.notes[:2] == ["few rows", "dense2: two units are constant"]
    assert "training rows" in reader.notes[2]
    rows = reader.table("Layers")
    assert [row["refused"] for row in rows] == ["the output differs", None]
    assert [row["notes"] for row in rows] == [None, "two units are constant"]


def test_the_facts_hold_settings_seed_and_digests(record, read):
    facts = read(reduction_section(record, "x")).facts
    assert facts["network"] == record.network
    assert facts["recover"] == "fine-tune:epochs=2"
    assert facts["seed"] == "0"
    assert facts["SHA-256 of network"] == record.origin.inputs["network"]
    assert facts["SHA-256 of the reduced network"] == record.result
    assert f"torch {record.origin.versions['torch']}" in facts["versions"]


def test_everything_can_be_drawn_and_names_cannot_act(record, read, hostile):
    sites = tuple(
        dataclasses.replace(
            site, name=f"{hostile}{index}", layers=(hostile, "b"), removals=(RemovedUnit(1, hostile),), notes=(hostile,)
        )
        for index, site in enumerate(record.sites)
    )
    changed = dataclasses.replace(
        record,
        sites=sites,
        network=hostile,
        settings=record.settings | {"by": hostile},
        notes=(hostile,),
        obstacles={hostile: hostile},
    )
    section = reduction_section(changed, hostile)
    read(section).draw_all()
    page = render(hostile, [section])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(("improved", "words"), [(True, "after fine-tune"), (False, "was no better")])
def test_a_recovery_that_was_no_better_is_not_credited(record, read, improved, words):
    recovery = tuple(dataclasses.replace(each, improved=improved) for each in record.recovery)
    section = reduction_section(dataclasses.replace(record, recovery=recovery), "net")
    rows = {row["network"]: row for row in read(section).texts("Accuracies")}
    assert words in rows["recovered"]["what it is"]
