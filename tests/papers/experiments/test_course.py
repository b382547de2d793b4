from __future__ import annotations

import pytest

from weightsmith.networks.models.building import build
from weightsmith.papers.experiments.course import EXPERIMENT, PROTOCOL, RUNS, measure
from weightsmith.training.schedules import Schedule, Span
from weightsmith.training.schedules.check import check_schedule

BY_NAME = {run.name: run for run in RUNS}
SCHEDULES = {run.name: Schedule.of(run.schedule) for run in RUNS}
EPOCHS = EXPERIMENT.full.all["epochs"]


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
    span = Span(rows // PROTOCOL["batch"], EPOCHS)
    assert (rows, span.steps) == (42_000, 2_625)
    assert [name for name, schedule in SCHEDULES.items() if check_schedule(schedule, span)] == ["exponential, as run"]
    # s was to be twice the run in steps; the course divided the number of batches by the batch size once more.
    assert SCHEDULES["exponential, as intended"].s == 2 * span.total
    assert SCHEDULES["exponential, as run"].s == round(2 * span.total / PROTOCOL["batch"])


def test_power_is_the_decay_of_the_course():
    span = Span(2_625, 10)
    rates = [SCHEDULES["power"].at(t, span) for t in (0, 10_000)]
    assert rates == pytest.approx([0.01, 0.01 / (1 + 1e-4 * 10_000)])


def test_a_row_has_its_difference_to_the_course_s_figure_where_there_is_one():
    row = measure(seed=0, data="digits", path=None, run="power", course=0.8663, epochs=1, rows=100)
    assert row["difference"] == pytest.approx(row["validated"] - 0.8663)
    assert measure(seed=0, data="digits", path=None, run="ELU", course=None, epochs=1, rows=100)["difference"] is None


def test_verdicts_follow_what_is_planted(verdicts):
    def away(points):
        def row(seed, run, course):
            moved = points if run == "power" else 0.001 * seed
            return {
                "validated": None if course is None else course + moved,
                "difference": None if course is None else moved,
                "best": 0.9,
                "tested": 0.9,
                "epochs_run": 10,
            }

        return row

    assert verdicts(EXPERIMENT, away(0.014)) == {"table": "holds"}
    assert verdicts(EXPERIMENT, away(0.016)) == {"table": "in part"}


@pytest.mark.data
@pytest.mark.slow
def test_the_mistaken_schedule_freezes_where_the_course_s_did():
    row = measure(seed=0, data="fashion-mnist", path=None, run="exponential, as run", course=0.81, epochs=EPOCHS)
    assert abs(row["difference"]) < 0.015
