from __future__ import annotations

import csv
import dataclasses
import io

import pytest

import weightsmith as ws
from weightsmith.core.errors import UnknownName
from weightsmith.core.statistics import wilson
from weightsmith.networks.models.building import build
from weightsmith.papers.course import EXPERIMENTS, PROTOCOL, TOLERANCE, CourseTable, run_course
from weightsmith.training.schedules import Span
from weightsmith.training.schedules.check import check_schedule

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}


@pytest.fixture(scope="module")
def digits():
    data = ws.data.load("digits")
    return dataclasses.replace(data, train=data.train.take(range(150)), test=data.test.take(range(100)))


@pytest.fixture(scope="module")
def table(digits):
    return run_course(data=digits, seeds=(0, 1), epochs=2)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_every_network_is_the_course_s_with_one_thing_changed(name):
    network = build(BY_NAME[name].network, input_shape=(1, 28, 28), classes=10)
    normed = 2 * (784 + 50 + 50) if "batch norm" in name else 0
    # The course's own summary prints 42,310 parameters, and 45,846 with the statistics of three batch norms.
    assert sum(value.numel() for value in network.parameters()) == 42_310 + normed
    assert (42_310 + 2 * normed == 45_846) == bool(normed)
    weight = network.dense1.weight
    bound = (6 / (784 + 50)) ** 0.5
    assert bool((weight.abs() <= bound).all()) == (name != "SELU")
    assert not network.dense1.bias.any()


def test_an_epoch_has_the_steps_of_the_course_and_the_check_knows_its_mistake():
    rows = round(60_000 * (1 - PROTOCOL["validation"]))
    span = Span(rows // PROTOCOL["batch"], PROTOCOL["epochs"])
    assert (rows, span.steps) == (42_000, 2_625)
    flagged = [name for name, experiment in BY_NAME.items() if check_schedule(experiment.schedule, span)]
    assert flagged == ["exponential, as run"]
    # s was to be twice the run in steps; the course divided the number of batches by the batch size once more.
    assert BY_NAME["exponential, as intended"].schedule.s == 2 * span.total
    assert BY_NAME["exponential, as run"].schedule.s == round(2 * span.total / PROTOCOL["batch"])


def test_power_is_the_decay_of_the_course():
    span, schedule = Span(2_625, 10), BY_NAME["power"].schedule
    assert [schedule.at(t, span) for t in (0, 10_000)] == pytest.approx([0.01, 0.01 / (1 + 1e-4 * 10_000)])


def test_rows_are_means_over_their_own_runs(table):
    assert [row.experiment for row in table.rows] == list(BY_NAME)
    for index, row in enumerate(table.rows):
        own = table.runs.rows[2 * index : 2 * index + 2]
        assert {run["network"] for run in own} == {row.network}
        assert {run["schedule"] for run in own} == {row.schedule}
        assert {run["clip"] for run in own} == {row.clip}
        found = [run["validation_accuracy"] for run in own]
        assert row.accuracy == pytest.approx(sum(found) / 2)
        assert row.deviation == pytest.approx(abs(found[0] - found[1]) / 2**0.5)
        assert row.best == pytest.approx(sum(run["best_validation_accuracy"] for run in own) / 2)
        assert row.test == wilson(round(sum(run["test_correct"] for run in own) / 2), 100)
        experiment = BY_NAME[row.experiment]
        if experiment.validation is None:
            assert (row.difference, row.within) == (None, None)
        else:
            assert row.difference == pytest.approx(row.accuracy - experiment.validation)
            assert row.within == (abs(row.difference) <= TOLERANCE)
    assert set(table.outside) <= {name for name, one in BY_NAME.items() if one.validation is not None}


def test_the_table_round_trips_and_has_a_line_per_experiment(table):
    assert CourseTable.from_json(table.to_json()) == table
    lines = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [line["experiment"] for line in lines] == list(BY_NAME)
    assert [float(line["accuracy"]) for line in lines] == [row.accuracy for row in table.rows]
    assert lines[0]["within"] in ("true", "false")
    assert [line["clip"] for line in lines] == [row.clip or "" for row in table.rows]


def test_some_of_the_experiments_and_going_on(digits, table, tmp_path):
    names = ["dropout", "clipnorm"]
    some = run_course(only=names, data=digits, seeds=(0, 1), epochs=2, journal=tmp_path / "j.jsonl")
    assert some.rows == tuple(row for row in table.rows if row.experiment in names)
    assert run_course(only=names, data=digits, seeds=(0, 1), epochs=2, journal=tmp_path / "j.jsonl") == some
    with pytest.raises(UnknownName, match="did you mean 'dropout'"):
        run_course(only=["droput"])


@pytest.mark.data
@pytest.mark.slow
def test_the_mistaken_schedule_freezes_where_the_course_s_did():
    row = run_course(only=["exponential, as run"], seeds=(0,)).rows[0]
    assert row.within
    assert "hardly learns" in row.check
