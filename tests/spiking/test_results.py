from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.spiking.monitors.correspondence import confusion
from weightsmith.spiking.results import Decisions, SpikeRecord
from weightsmith.spiking.spike import spike


def _decisions(correct, images=20, network=15):
    """Decisions in which so many answers are right after each step."""
    right = np.arange(images) < correct[-1]
    answers = np.zeros(images, np.int64)
    return Decisions(
        split="test",
        images=images,
        network=wilson(network, images),
        spiking=wilson(correct[-1], images),
        cost=mcnemar(right, np.arange(images) < network),
        correct=np.array(correct),
        undecided=np.zeros(len(correct), np.int64),
        only_network=np.array([max(0, network - right) for right in correct]),
        confusion=confusion(answers, answers, 2),
        settled=1,
        ended=float(len(correct)),
    )


def test_accuracy_after_some_steps():
    found = _decisions([0, 5, 12, 14])
    for steps, right in ((1, 0), (3, 12), (4, 14)):
        assert found.accuracy(steps) == wilson(right, 20)
    assert found.accuracy(4) == found.spiking
    assert found.cost.difference == pytest.approx(-0.05)
    for steps in (0, 5, -1):
        with pytest.raises(UsageError, match="the network was run for 4 steps"):
            found.accuracy(steps)


def test_cost_after_some_steps():
    """Images of which 3 only the network, 2 only the spiking one and 10 both have right, in any order."""
    plain = np.array([True] * 13 + [False] * 7)
    spiking = np.array([True] * 10 + [False] * 3 + [True] * 2 + [False] * 5)
    found = dataclasses.replace(
        _decisions([0, 12], network=13), only_network=np.array([13, 3]), cost=mcnemar(spiking, plain)
    )
    assert found.cost_after(2) == found.cost
    assert found.cost_after(1) == mcnemar(np.zeros(20, bool), plain)
    with pytest.raises(UsageError, match="the network was run for 2 steps"):
        found.cost_after(3)


@pytest.mark.parametrize(
    ("correct", "points", "steps"),
    [
        ([0, 5, 12, 15, 15], 0.0, 4),
        ([0, 5, 15, 12, 15], 0.0, 5),  # it must stay there
        ([0, 5, 15, 12, 15], 15.0, 3),
        ([0, 5, 12, 14, 14], 0.0, None),
        ([0, 5, 12, 14, 14], 5.0, 4),
        ([16, 15, 15, 20, 15], 0.0, 1),
        ([0, 0, 0, 0, 0], 75.0, 1),
    ],
)
def test_steps_from_which_on_it_is_good_enough(correct, points, steps):
    assert _decisions(correct).steps_within(points) == steps


@pytest.fixture(scope="module")
def run():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(60, 6, generator=generator)
    network = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        y = network(x).argmax(dim=1)
    return spike(network, (x, y), neuron="lif:0.95", steps=20, watch=3)


def test_a_run_says_what_it_is(run):
    record = run.record
    text = str(run)
    assert text.startswith("lif:0.95, constant: train accuracy 100.00% → ")
    assert f"→ {record.decisions.spiking.value:.2%} after 20 steps" in text
    assert f"{record.cost.energy / 1e6:.3g} µJ per image" in text
    assert repr(run) == f"SpikeRun({text})"
    assert "\n" not in text


def test_shortcuts(run):
    assert run.accuracy == run.record.decisions.spiking
    (population,) = run.record.populations
    assert run.rates == {population.name: population.rate}
    assert 0 < population.rate < 1


def test_a_record_reads_as_it_was_written(run):
    text = run.record.to_json(indent=1)
    again = SpikeRecord.from_json(text)
    assert again == run.record
    assert again.to_json(indent=1) == text
    assert np.array_equal(again.decisions.correct, run.record.decisions.correct)
    assert again.decisions.correct.dtype == run.record.decisions.correct.dtype
    assert again.watched.raster.populations[0].membranes is not None
    other = dataclasses.replace(run.record, steps=21)
    assert other != run.record
    assert other.digest() != run.record.digest()
