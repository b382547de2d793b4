from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.chain.tailor.configurations import Configuration, Conversion, PruningStep
from weightsmith.chain.tailor.rows import divided
from weightsmith.chain.tailor.runner import CandidateRunner, Conditions
from weightsmith.core.errors import UsageError
from weightsmith.core.journal import Journal
from weightsmith.networks.rounding import to_int8
from weightsmith.spiking.energy.cost import Prices
from weightsmith.spiking.network import SpikingNetwork

CUT = PruningStep("error", "params", 0.5, "error")
SPIKES = Conversion("constant", "percentile", 2, None, "graded:5", "weights")
CONDITIONS = Conditions(Prices(), seed=0, batch=64, threads=1)


@pytest.fixture
def start(digits_mlp, tmp_path):
    """A runner on the digits, with its journal in a folder that later ones find again."""
    journals = []

    def runner(network=None, conditions=CONDITIONS):
        for journal in journals:
            journal.close()
        rows = divided(ws.data.load("digits"), rows=200, test_rows=50, seed=0)
        journals.append(Journal(tmp_path / "journal.jsonl", {"call": "test"}))
        return CandidateRunner(network or ws.load(digits_mlp), rows, conditions, tmp_path / "candidates", journals[-1])

    yield runner
    journals[-1].close()


def test_the_costs_of_each_way_to_compute(start):
    runner = start()
    whole, rounded = runner.go(Configuration(), "whole"), runner.go(Configuration(numbers="int8"), "int8")
    assert (whole.correct, whole.divergence, whole.energy_share, whole.params_share) == (50, 0.0, 1.0, 1.0)
    assert whole.energy == pytest.approx(4.6 * whole.macs)
    assert rounded.energy == pytest.approx(0.23 * whole.macs)
    assert 0.25 < rounded.bytes / whole.bytes < 0.3
    assert 0 < rounded.divergence < 0.01
    cut = runner.go(Configuration(CUT), "cutting")
    assert cut.parameters <= 0.5 * whole.parameters
    assert cut.energy == pytest.approx(4.6 * cut.macs)
    both = runner.go(Configuration(CUT, numbers="int8"), "cutting")
    assert (both.parameters, both.macs) == (cut.parameters, cut.macs)
    assert both.energy == pytest.approx(0.05 * cut.energy)
    spikes = runner.go(Configuration(None, SPIKES), "spiking")
    assert (spikes.steps, spikes.parameters) == (2, whole.parameters)
    assert spikes.divergence < 0.5
    assert isinstance(runner.made(spikes.way), SpikingNetwork)
    assert [each.number for each in runner.candidates] == [0, 1, 2, 3, 4]


def test_what_is_in_the_journal_is_not_made_again(start, monkeypatch):
    first = start()
    ways = (Configuration(), Configuration(CUT), Configuration(None, SPIKES))
    before = [first.go(way, "a") for way in ways]
    answers = first.judged(before[1])
    outputs = first.made(ways[1])(torch.zeros(1, 1, 8, 8))
    again = start()
    monkeypatch.setattr("weightsmith.chain.tailor.cutting.Cutter.cut", None)  # to call it would fail
    monkeypatch.setattr("weightsmith.chain.tailor.runner.prepare", None)
    assert [again.go(way, "a") for way in ways] == before
    assert again.judged_before == 1
    assert (again.judged(before[1]).right == answers.right).all()
    assert torch.equal(again.made(ways[1])(torch.zeros(1, 1, 8, 8)), outputs)
    assert isinstance(again.made(ways[2]), SpikingNetwork)
    assert again.spent == pytest.approx(first.spent)


def test_what_cannot_be_done_is_refused_and_remembered(start):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 10)).eval()
    runner = start(network)
    assert runner.go(Configuration(None, SPIKES), "spiking") is None
    assert runner.knows(Configuration(None, SPIKES))
    assert "gelu" in runner.refusals[0].reason.lower()
    assert runner.go(Configuration(numbers="int8"), "int8") is not None


def test_time_is_measured_only_where_it_is_asked_for(start):
    runner = start(conditions=Conditions(Prices(), seed=0, batch=64, threads=1, timed=True))
    assert runner.go(Configuration(), "whole").time == 1.0
    assert runner.go(Configuration(CUT), "cutting").time > 0
    assert runner.go(Configuration(numbers="int8"), "int8").time is None


def test_a_network_without_operations_is_refused(start):
    with pytest.raises(UsageError, match="nothing to remove"):
        start(nn.Sequential(nn.Flatten(), nn.ReLU()))


def test_prices_of_ones_own_hold_for_both_numbers(start):
    runner = start(conditions=Conditions(Prices(0.1, 2.0), seed=0, batch=64, threads=1))
    whole, rounded = runner.go(Configuration(), "whole"), runner.go(Configuration(numbers="int8"), "int8")
    assert whole.energy == rounded.energy == pytest.approx(2.0 * whole.macs)


def test_int8_is_that_of_the_rows_looked_at(start):
    runner = start()
    made = runner.made(Configuration(numbers="int8"))
    expected = to_int8(runner.network, runner.rows.choosing.train.x[:256])
    x = runner.rows.judging.test.x
    assert torch.equal(made(x), expected(x))
