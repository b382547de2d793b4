from __future__ import annotations

import dataclasses
import functools
import types

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.spiking.choosing import Wish, _best, _ways
from weightsmith.spiking.neurons import Neuron
from weightsmith.spiking.results import SpikeRecord

POINTS = [(5.0, 0.1), (1.0, 0.3), (0.9, 0.5), (-0.1, 1.2)]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish(1.0, None, nir=False), (1, True)),  # the least energy that loses no more
        (Wish(0.0, None, nir=False), (3, True)),
        (Wish(None, 0.6, nir=False), (2, True)),  # the least loss that costs no more
        (Wish(2.0, 0.4, nir=False), (1, True)),
        (Wish(-1.0, None, nir=False), (3, False)),  # not met: the least loss
        (Wish(None, 0.05, nir=False), (0, False)),  # not met: the least energy
        (Wish(0.95, 0.2, nir=False), (2, False)),  # not both: the least energy within the points
        (Wish(-1.0, 0.2, nir=False), (3, False)),  # neither: the least loss
        (Wish(None, None, nir=False), (1, True)),  # the knee
    ],
)
def test_the_best_by_a_wish(wish, expected):
    assert _best(POINTS, range(4), wish) == expected


def test_only_those_that_are_allowed():
    assert _best(POINTS, [0, 2], Wish(1.0, None, nir=False)) == (2, True)


@functools.cache
def digits():
    return ws.data.load("digits")


@functools.cache
def trained():
    return ws.train("mlp:32", digits(), optimiser="adam", schedule=0.01, epochs=8, seed=0).network


def test_in_integers_all_kinds_are_tried_and_priced_so():
    run = ws.spike(trained(), digits(), watch=0, precision="int8", within=1.0)
    assert {candidate.neuron for candidate in run.record.choice.candidates} == {"graded:5", "if:signed=true", "if"}
    assert run.record.cost.prices.numbers == "int8"
    assert run.record.choice.chosen.energy == pytest.approx(run.record.cost.ratio, rel=0.1)
    assert run.record.choice.met
    assert run.network.encode.step == pytest.approx(1 / 127, rel=1e-3)


def test_nothing_given_takes_the_knee_and_tests_it_once(tmp_path):
    run = ws.spike(trained(), digits(), watch=0, out=tmp_path / "snn")
    choice = run.record.choice
    assert choice.wish == "the knee of the front"
    assert {candidate.neuron for candidate in choice.candidates} == {"graded:5", "if:signed=true", "if"}
    taken = choice.chosen
    assert taken.front
    settings = run.record.settings
    assert (settings["neuron"], settings["balance"], settings["calibrate"], settings["steps"]) == (
        taken.neuron,
        taken.balance,
        taken.calibrate,
        taken.steps,
    )
    assert str(run.network.neuron) == taken.neuron
    assert run.record.steps == taken.steps == run.record.calibration.steps
    assert choice.best_exportable.neuron == "if"
    again = SpikeRecord.from_json((tmp_path / "snn" / "record.json").read_text(encoding="utf-8"))
    assert again == run.record


def test_within_points_the_least_energy():
    run = ws.spike(trained(), digits(), within=1.0, watch=0)
    choice = run.record.choice
    good = [candidate for candidate in choice.candidates if candidate.loss <= 1.0]
    assert choice.met
    assert choice.chosen.energy == min(candidate.energy for candidate in good)
    assert run.record.decisions.cost.difference > -0.05


def test_the_verdict_of_the_test_rows():
    record = ws.spike(trained(), digits(), within=1.0, energy=0.9, watch=0).record
    verdict, cost = record.verdict, record.decisions.cost
    assert (verdict.within, verdict.limit, verdict.rows) == (1.0, 0.9, len(digits().test.x))
    assert (verdict.loss, verdict.energy) == (-100 * cost.difference, record.cost.ratio)
    assert (verdict.low, verdict.high) == (-100 * cost.interval.high, -100 * cost.interval.low)
    assert record.notes[-1] == str(verdict)
    assert ws.spike(trained(), digits(), steps=4, watch=0, test_rows=10).record.verdict is None


def test_settling_and_exits_are_chosen_and_used():
    data = digits()
    record = ws.spike(trained(), data, neuron="if", steps=64, energy=0.9, watch=0).record
    tried = {(each.settle, each.early) for each in record.choice.candidates}
    assert (0, None) in tried
    assert (0, "margin:3.0") in tried
    taken = record.choice.chosen
    assert (record.settings["settle"], record.settings["early"]) == (taken.settle, taken.early)
    sooner = min(record.choice.candidates, key=lambda each: each.energy)
    assert sooner.early is not None  # images that end take no more energy
    assert taken.early is None or record.decisions.ended < 64
    nir = ws.spike(trained(), data, neuron="if", steps=64, exportable="nir", watch=0, test_rows=10).record.choice
    assert [(each.settle, each.early) for each in nir.candidates] == [(0, None)]


@pytest.mark.parametrize(
    ("neuron", "steps", "expected"),
    [
        ("if", 32, [(0, True), (3, False), (3, True)]),
        ("if", 8, [(3, False)]),  # no image ends before its eighth step
        ("if", 4, []),
        ("if:signed=true", 32, [(0, True)]),
        ("graded:5", 4, []),
    ],
)
def test_ways_to_run(neuron, steps, expected):
    network = types.SimpleNamespace(populations=[types.SimpleNamespace(name="last")])
    spikes = np.array([0, 0, 1, *[9] * (steps - 3)])
    found = types.SimpleNamespace(spikes_per_step={"last": spikes})
    recipe = types.SimpleNamespace(neuron=Neuron.of(neuron), steps=steps)
    assert [(settle, early is not None) for settle, early in _ways(recipe, network, found)] == expected


def test_at_most_this_energy_the_least_loss():
    every = ws.spike(trained(), digits(), energy=10.0, watch=0, test_rows=20).record.choice.candidates
    limit = float(np.median([candidate.energy for candidate in every]))
    choice = ws.spike(trained(), digits(), energy=limit, watch=0, test_rows=20).record.choice
    allowed = [candidate for candidate in choice.candidates if candidate.energy <= limit]
    assert 0 < len(allowed) < len(every)
    assert choice.met
    assert choice.chosen.loss == min(candidate.loss for candidate in allowed)
    run = ws.spike(trained(), digits(), energy=1e-6, watch=0, test_rows=20)
    assert not run.record.choice.met
    assert any("no candidate meets the wish (at most 0.0001 % of the energy)" in note for note in run.record.notes)


def test_for_nir_what_is_chosen_can_be_written(tmp_path):
    run = ws.spike(trained(), digits(), within=2.0, exportable="nir", watch=0, test_rows=20)
    assert run.record.choice.chosen.obstacle is None
    assert run.record.choice.taken == run.record.choice.exportable
    ws.export_nir(run.network, tmp_path / "net.nir", x=digits().test.x[:2], steps=run.record.steps)


def test_what_is_given_stays():
    choice = ws.spike(
        trained(), digits(), within=1.0, neuron="if:signed=true", steps=4, watch=0, test_rows=20
    ).record.choice
    assert [(each.neuron, each.balance, each.steps) for each in choice.candidates] == [("if:signed=true", "mse", 4)]
    plain = ws.spike(trained(), digits(), steps=4, watch=0, test_rows=20).record
    assert plain.choice is None
    assert (plain.settings["neuron"], plain.settings["balance"], plain.calibration) == ("if", "percentile", None)
    assert ws.spike(trained(), digits(), neuron="if", watch=0, test_rows=20).record.steps == 64


def test_rows_that_choose_do_not_calibrate_and_test_rows_are_not_looked_at():
    """Other test rows leave the choice as it is."""
    data = digits()
    flipped = ws.data.Split(data.test.x.flip(0)[:30], data.test.y.flip(0)[:30])
    other = dataclasses.replace(data, test=flipped)
    one = ws.spike(trained(), data, watch=0, test_rows=10).record.choice
    assert ws.spike(trained(), other, watch=0).record.choice == one


class _Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.relu, self.pool = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        self.out = nn.Linear(64, 3)

    def forward(self, x):
        return self.out(self.pool(self.relu(self.conv(x))).flatten(1))


def test_networks_with_max_pooling_are_chosen_for_without_graded_neurons():
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.random((80, 1, 8, 8), np.float32))
    y = torch.from_numpy(generator.integers(0, 3, 80))
    choice = ws.spike(_Pooled(), (x, y), watch=0, test_rows=10).record.choice
    assert {candidate.neuron for candidate in choice.candidates} == {"if:signed=true", "if"}
    assert choice.exportable is None
    assert choice.left_out == ("graded neurons were not tried: max pooling would give sizes that no spike has",)
    with pytest.raises(UsageError, match=r"no conversion of this network can be written as NIR: .*max pooling"):
        ws.spike(_Pooled(), (x, y), exportable="nir", watch=0, test_rows=10)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"within": 1.0, "early": "margin:3"}, "settle, early and adjust apply to a given conversion"),
        ({"energy": 0.3, "settle": 2}, "settle, early and adjust apply to a given conversion"),
        ({"within": -1.0}, "within must be a number ≥ 0"),
        ({"energy": 0.0}, "a share is a number above 0 such as 0.3 or 30%"),
        ({"exportable": "onnx"}, "exportable"),
        ({"exportable": "nirr"}, "exportable must be one of nir, not 'nirr'; did you mean 'nir'?"),
        ({"exportable": "nir", "neuron": "graded:5"}, "NIR has no form for graded:5"),
    ],
)
def test_wishes_that_cannot_be(options, reason):
    with pytest.raises(UsageError, match=reason):
        ws.spike(trained(), digits(), test_rows=10, **options)


def test_neurons_that_the_input_excludes_are_named():
    found = ws.spike(trained(), digits(), encode="poisson:0.25", energy=5.0, steps=4, watch=0, test_rows=10).record
    assert (
        "graded neurons were not tried: they read the input once, as values, not as poisson:scale=0.25 spikes"
        in found.notes
    )
