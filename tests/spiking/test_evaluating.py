from __future__ import annotations

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.statistics import wilson
from weightsmith.reporting.describe import describe
from weightsmith.spiking.evaluating import SpikingEvaluation, evaluate_spiking


@pytest.fixture(scope="module")
def converted():
    data = ws.data.load("digits")
    run = ws.train("mlp:20", data, optimiser="adam", schedule=0.01, epochs=3)
    return ws.spike(run.network, data, steps=12, test_rows=80, seed=5, watch=0, neuron="if", balance="percentile")


def test_it_is_the_accuracy_of_the_conversion(converted):
    found = evaluate_spiking(converted.network, "digits", steps=12, test_rows=80, seed=5)
    decisions = converted.record.decisions
    assert [row.accuracy for row in found.steps] == [right / 80 for right in decisions.correct.tolist()]
    assert np.array_equal([row.undecided for row in found.steps], decisions.undecided)
    last = wilson(int(decisions.correct[-1]), 80)
    assert (found.steps[-1].low, found.steps[-1].high) == (last.low, last.high)
    assert SpikingEvaluation.from_json(found.to_json()) == found


def test_the_description_says_how_right_it_is_after_how_many_steps(converted):
    found = evaluate_spiking(converted.network, "digits", steps=4, test_rows=30)
    section = describe(found, "net", least_accuracy=100.0)
    assert section.lead.endswith("of 30 rows of the test split of digits after 4 steps.")
    assert [row["steps"] for row in section["After so many steps"].to_rows()] == [1, 2, 4]
    assert any("is below the required 100 %" in line for line in section.look_at)


def test_without_steps_there_are_64(converted):
    assert len(evaluate_spiking(converted.network, "digits", test_rows=5).steps) == 64
