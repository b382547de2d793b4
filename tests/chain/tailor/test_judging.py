from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.chain.tailor.choosing import LimitStatus
from weightsmith.chain.tailor.judging import Judgement, answered, judgement, right_answers
from weightsmith.chain.tailor.limits import Limits
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.spiking.energy.cost import Prices


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def run(digits):
    return ws.train("mlp:24", digits, optimiser="adam", schedule=0.01, epochs=4, seed=0)


def test_right_answers_are_those_that_evaluate_counts(run, digits):
    right = right_answers(run.network, digits)
    assert right.dtype == np.bool_
    assert len(right) == len(digits.test)
    assert int(right.sum()) == ws.evaluate(run.network, digits).correct


def test_an_answer_that_is_not_finite_is_wrong(digits):
    class Broken(nn.Module):
        def forward(self, x):
            return torch.full((len(x), 10), torch.nan)

    assert not right_answers(Broken(), digits).any()


def test_a_spiking_network_is_judged_after_its_steps_and_its_spikes_are_counted(run, digits):
    twin = ws.spike(run, digits, steps=12, watch=0)
    found = answered(twin.network, digits, 7, precision="float32", prices=Prices(), seed=0, first=0)
    assert int(found.right.sum()) == twin.record.decisions.correct[6]
    assert found.energy == pytest.approx(twin.record.cost.curve[6])


def test_rows_draw_their_spikes_by_the_number_of_the_first(run, digits):
    twin = ws.spike(run, digits, encode="poisson:0.5", steps=6, watch=0, test_rows=40)
    one, other = (
        answered(twin.network, digits, 6, precision="float32", prices=Prices(), seed=0, first=first)
        for first in (0, 500)
    )
    assert one.energy != other.energy


def test_a_judgement_is_wilson_mcnemar_and_the_limits():
    whole = np.arange(100) < 90
    right = np.arange(100) < 84
    found = judgement(3, right, whole, energy=30.0, params=50, limits=Limits(accuracy=0.8, energy=20.0, params=50))
    assert found.accuracy == wilson(84, 100)
    assert found.cost == mcnemar(right, whole)
    assert found.cost.difference == -0.06
    assert found.standing is LimitStatus.ESTIMATE
    assert found.missed == {"energy": pytest.approx(0.5)}
    assert not found.met
    assert Judgement.from_json(found.to_json()) == found


def test_a_judgement_within_all_limits_is_met():
    right = np.ones(100, bool)
    found = judgement(0, right, right, energy=1.0, params=1, limits=Limits(accuracy=0.9, energy=2.0, params=2))
    assert found.met
    assert found.standing is LimitStatus.ABOVE
