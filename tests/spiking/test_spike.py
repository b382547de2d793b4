from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError, WeightsmithError
from weightsmith.core.journal import Journal
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.networks.evaluating import evaluate
from weightsmith.spiking._recording import decisions_of
from weightsmith.spiking.conversion.balance import MaxCurrent, Percentile
from weightsmith.spiking.conversion.preparing import ConversionSettings
from weightsmith.spiking.conversion.subject import read_subject
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.files import load_spiking, spiking_digest
from weightsmith.spiking.l4.adjust import L4
from weightsmith.spiking.neurons import LIF, Mismatch
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.simulation.exits import Exit, Margin
from weightsmith.spiking.simulation.responses import UNDECIDED, Responses
from weightsmith.spiking.spike import spike


class Small(nn.Module):
    """Convolutions with batch norm, max and average pooling, ReLU as a function."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.last = nn.Conv2d(8, 16, 3, padding=1), nn.Linear(64, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return self.last(nn.functional.avg_pool2d(torch.relu(self.second(x)), 2).flatten(1))


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def trained(digits):
    """A dense network for inputs at 0.5/0.5, which Poisson spikes can carry."""
    return ws.train("mlp:24", digits, optimiser="adam", schedule=0.01, epochs=6, normalise="0.5/0.5", seed=1)


@pytest.fixture(scope="module")
def convolutional(digits):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Small()
    return ws.train(network, digits, optimiser="adam", schedule=0.01, epochs=3, seed=1)


@pytest.fixture(scope="module")
def run(trained, digits):
    return spike(trained, digits, steps=48, seed=3)


# What comes out


def test_a_dense_network_keeps_its_accuracy(run, trained, digits):
    decisions = run.record.decisions
    plain = evaluate(trained.network, digits)
    assert decisions.network == plain.accuracy
    assert plain.accuracy.value > 0.9
    assert abs(decisions.cost.difference) <= 0.015
    assert (decisions.split, decisions.images, run.record.steps) == ("test", 360, 48)


def test_a_convolutional_network_keeps_its_accuracy(convolutional, digits):
    run = spike(convolutional, digits, steps=64, watch=2)
    assert run.record.decisions.network.value > 0.85
    assert run.record.decisions.cost.difference > -0.03
    assert [population.layer for population in run.record.populations] == ["first", "second"]
    assert set(run.record.paths) == {"first", "second", "last"}
    assert run.record.paths["first"] == "once"
    assert run.record.network == "Small"


def test_all_figures_are_those_of_a_run(run, digits):
    record, labels = run.record, digits.split("test").y.numpy()
    got = run.network.run(digits.split("test").x, 48, seed=3)
    right = got.answers == labels[:, None]
    assert np.array_equal(record.decisions.correct, right.sum(axis=0))
    assert np.array_equal(record.decisions.undecided, (got.answers == UNDECIDED).sum(axis=0))
    assert record.decisions.spiking == wilson(int(right[:, -1].sum()), 360)
    assert record.decisions.ended == 48
    assert record.paths == got.paths
    for population in record.populations:
        assert population.rate == got.rates()[population.name]
        assert population.spikes_per_image == got.spikes()[population.name] / 360
        assert population.units == 24
        node = run.network.node(population.name)
        assert population.threshold.least == float(node.threshold.min())
        assert population.threshold.largest == float(node.threshold.max())
    assert record.result == spiking_digest(run.network)
    assert record.origin.seed == 3
    assert set(record.origin.inputs) == {"network", "data"}
    assert record.cost.images == 360
    assert (record.cost.layers[0].name, record.cost.layers[0].multiplies_once) == ("dense1", 64 * 24)


def test_the_network_is_the_child_of_the_one_that_came_in(run):
    lineage = run.network.card.lineage
    assert lineage.operation == "spike if, constant"
    assert lineage.parent == run.record.origin.inputs["network"]


def test_what_is_watched(run, trained, digits):
    watched = run.record.watched
    assert watched.activity.images == watched.correspondence.images == 8
    assert watched.raster.images == (0,)
    assert watched.correspondence.populations[0].correlation > 0.95
    assert spike(trained, digits, steps=4, test_rows=10, watch=0).record.watched is None
    assert spike(trained, digits, steps=4, test_rows=3, watch=50).record.watched.activity.images == 3


def test_the_network_and_the_data_stay_as_they_are(trained, digits):
    network = trained.network
    before = {name: value.clone() for name, value in network.state_dict().items()}
    x, y = digits.split("train").x.clone(), digits.split("train").y.clone()
    network.train()
    spike(network, digits, steps=8, adjust=L4(1.0), encode=Poisson(), test_rows=20)
    assert network.training
    network.eval()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert torch.equal(digits.split("train").x, x)
    assert torch.equal(digits.split("train").y, y)


def test_the_same_seed_gives_the_same_bytes(trained, digits):
    options = {"steps": 10, "encode": "poisson", "adjust": "l4:1", "test_rows": 30, "mismatch": "mismatch:0.1"}
    one, again, other = (spike(trained, digits, seed=seed, **options) for seed in (1, 1, 2))
    assert one.record.to_json() == again.record.to_json()
    assert one.record.to_json() != other.record.to_json()
    assert one.record.result == again.record.result != other.record.result


def test_text_forms_and_objects_are_one(trained, digits):
    texts = spike(
        trained, digits, neuron="lif:0.95,reset=hard", encode="poisson:0.5", balance="percentile:99,half=false",
        adjust="l4:2", early="margin:3,least=4", mismatch="mismatch:0.05,leak=0.1", steps=9, test_rows=12,
    )  # fmt: skip
    objects = spike(
        trained, digits, neuron=LIF(0.95, reset="hard"), encode=Poisson(0.5), balance=Percentile(99.0, half=False),
        adjust=L4(2.0), early=Margin(3.0, least=4), mismatch=Mismatch(0.05, 0.1), steps=9, test_rows=12,
    )  # fmt: skip
    assert texts.record.to_json() == objects.record.to_json()
    settings = texts.record.settings
    assert settings["neuron"] == "lif:0.95,reset=hard"
    assert Exit.parse(settings["early"]) == Margin(3.0, least=4)
    assert {field.name for field in dataclasses.fields(ConversionSettings)} <= set(settings)


def test_the_folder_can_be_read_again(trained, digits, tmp_path):
    run = spike(trained, digits, steps=8, test_rows=20, adjust="l4:1", encode="poisson", out=tmp_path / "snn")
    again = load_spiking(tmp_path / "snn")
    assert spiking_digest(again) == run.record.result
    assert SpikeRecord.from_json((tmp_path / "snn" / "record.json").read_text()) == run.record
    json.loads((tmp_path / "snn" / "record.json").read_text())
    x = digits.split("test").x[:20]
    assert np.array_equal(again.run(x, 8).scores, run.network.run(x, 8).scores)
    assert sorted(path.name for path in (tmp_path / "snn").iterdir()) == [
        "journal.jsonl",
        "network.safetensors",
        "record.json",
    ]
    assert again.card.lineage == run.network.card.lineage


def test_progress(trained, digits):
    calls = []
    spike(trained, digits, steps=4, test_rows=10, progress=lambda *news: calls.append(news))
    assert {stage for stage, _, _ in calls} == {"balancing", "running"}
    for stage in ("balancing", "running"):
        done = [(at, total) for name, at, total in calls if name == stage]
        assert done[-1][0] == done[-1][1]


# Options together


def test_images_are_drawn_and_more_than_there_are_is_all(trained, digits):
    few, all_of_them = (spike(trained, digits, steps=4, test_rows=images, watch=0) for images in (7, 10_000))
    assert few.record.decisions.images == 7
    assert all_of_them.record.decisions.images == 360
    assert (
        all_of_them.record.to_dict()["decisions"]
        == spike(trained, digits, steps=4, watch=0).record.to_dict()["decisions"]
    )


@pytest.mark.parametrize("encode", ["poisson", "constant"])
def test_8_bits_early_exit_and_adjustment_together(trained, digits, encode):
    run = spike(
        trained, digits, encode=encode, precision="int8", early="margin:3", adjust="l4:1", steps=64, test_rows=200
    )
    decisions = run.record.decisions
    assert decisions.cost.difference > -0.05
    assert 8 <= decisions.ended < 64
    weights = [node.weight for node in run.network.synapses]
    assert all(torch.equal(weight, weight.round()) and float(weight.abs().max()) <= 127 for weight in weights)
    assert run.record.adjustment.populations[0].layer == "dense1"
    noted = any("no variance to adjust for" in note for note in run.record.notes)
    assert noted == (encode == "constant")


def test_mismatch_gives_every_neuron_its_own(trained, digits):
    plain = spike(trained, digits, neuron="lif:0.9", steps=8, test_rows=20)
    varied = spike(trained, digits, neuron="lif:0.9", steps=8, test_rows=20, mismatch="mismatch:0.2,leak=0.2")
    node = varied.network.populations[0]
    ratio = node.threshold / plain.network.populations[0].threshold
    assert float(ratio.log().std()) == pytest.approx(0.2, abs=0.1)
    assert node.leak.shape == (24,)
    assert plain.network.populations[0].leak is None


def test_mismatch_with_adjustment_and_early_exit(trained, digits):
    options = {"encode": "poisson", "adjust": "l4:1", "mismatch": "mismatch:0.05", "early": "margin:2"}
    run = spike(trained, digits, steps=40, test_rows=60, **options)
    assert run.record.adjustment is not None
    assert run.record.decisions.ended < 40
    assert run.record.decisions.spiking.value > 0.8


def test_mismatch_and_8_bits_are_refused_together(trained, digits):
    with pytest.raises(UsageError, match="mismatch gives thresholds that are not integers; use precision float32 or"):
        spike(trained, digits, precision="int8", mismatch="mismatch:0.1", steps=4, test_rows=4)


def test_double_precision(trained, digits):
    single, double = (spike(trained, digits, precision=kind, steps=16, test_rows=40) for kind in ("float32", "float64"))
    assert np.abs(single.record.decisions.correct - double.record.decisions.correct).max() <= 1
    assert double.record.settings["precision"] == "float64"


def test_max_current_is_for_networks_without_bias(trained, digits):
    with pytest.raises(UsageError, match="dense1 has a bias .* balance=percentile"):
        spike(trained, digits, balance=MaxCurrent(), steps=4, test_rows=4)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 12, bias=False), nn.ReLU(), nn.Linear(12, 10, bias=False))
    found = ws.train(network, digits, optimiser="adam", schedule=0.01, epochs=3, seed=0)
    run = spike(found, digits, balance="max-current:images=64,steps=20,factor=0.6", encode="poisson", steps=60)
    assert run.record.decisions.cost.difference > -0.1


# How answers are counted


def _subject(trained, digits):
    return read_subject(trained, digits, images=30, seed=0)


def test_decisions_by_hand(trained, digits):
    subject = _subject(trained, digits)
    labels = subject.judged.y.numpy()
    wrong = (labels + 1) % 10
    answers = np.full((30, 5), UNDECIDED, np.int16)
    answers[:, 1] = wrong
    answers[:, 2:] = labels[:, None]
    answers[:4, 4] = wrong[:4]  # these change once more
    answers[29] = labels[29]  # and this is right at once
    responses = Responses(5, answers, np.zeros((30, 10)), np.full(30, 5, np.int32), {}, {}, {}, None, {})
    found = decisions_of(subject, responses)
    assert found.correct.tolist() == [1, 1, 30, 30, 26]
    assert found.undecided.tolist() == [29, 0, 0, 0, 0]
    assert found.settled == 3
    plain = subject.answers.numpy() == labels
    right = np.arange(30) >= 4
    assert found.cost == found.cost_after(5) == mcnemar(right, plain)
    assert found.only_network.tolist() == [int((plain & (answers[:, step] != labels)).sum()) for step in range(5)]
    assert (found.spiking, found.network) == (wilson(26, 30), wilson(int(plain.sum()), 30))
    assert int(found.confusion.matrix.sum()) == 30
    assert found.ended == 5.0


def test_settled_is_the_median_of_the_last_changes(trained, digits):
    subject = _subject(trained, digits)
    answers = np.zeros((30, 6), np.int16)
    for image in range(30):
        answers[image, : image % 6] = 1  # the last other answer is that after step image % 6
    responses = Responses(6, answers, np.zeros((30, 10)), np.full(30, 6, np.int32), {}, {}, {}, None, {})
    assert decisions_of(subject, responses).settled == int(np.median([image % 6 + 1 for image in range(30)]))


# What is refused


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"neuron": "lif:0"}, OptionError, "leak must be > 0"),
        ({"neuron": "lif:1.1"}, OptionError, "leak must be .*≤ 1"),
        ({"neuron": "lif"}, OptionError, "leak"),
        ({"neuron": "izhikevich"}, UnknownName, "izhikevich"),
        ({"encode": "poisson:2"}, OptionError, "scale must be"),
        ({"encode": "rate"}, UnknownName, "rate"),
        ({"balance": "percentile:0"}, OptionError, "percent must be"),
        ({"balance": Constant()}, WeightsmithError, "constant|Constant"),
        ({"adjust": "l4:-1"}, OptionError, "smoothing must be"),
        ({"adjust": "l4:1,layers=9"}, UsageError, "has 1 populations, fewer than the 9 to adjust"),
        ({"early": "margin:0"}, OptionError, "errors must be"),
        ({"mismatch": "mismatch:-1"}, OptionError, "threshold must be"),
        ({"steps": 0}, UsageError, "steps must be a whole number ≥ 1, not 0"),
        ({"steps": 2.5}, UsageError, "steps must be a whole number ≥ 1, not 2.5"),
        ({"test_rows": 0}, UsageError, "test_rows must be a whole number ≥ 1, not 0"),
        ({"seed": -1}, UsageError, "seed must be a whole number ≥ 0, not -1"),
        ({"watch": -1}, UsageError, "watch must be a whole number ≥ 0, not -1"),
        ({"precision": "bf16"}, UsageError, "precision must be"),
        ({"device": "abacus"}, UsageError, "device 'abacus' cannot be used here"),
        ({"prices": "joule"}, UnknownName, "joule"),
    ],
)
def test_options_that_are_refused(trained, digits, options, error, message):
    with pytest.raises(error, match=message) as caught:
        spike(trained, digits, **{"steps": 3, "test_rows": 5, **options})
    assert "\n" not in str(caught.value)


def _net(*layers):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), *layers, nn.Linear(8, 10))


def _broken(value):
    network = _net(nn.ReLU())
    with torch.no_grad():
        network[1].weight[2, 3] = value
    return network


def _dead():
    network = _net(nn.ReLU())
    with torch.no_grad():
        network[1].bias.fill_(-1e3)
    return network


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        (_broken(torch.nan), DataMismatch, "1: its weight holds NaN or infinity"),
        (_broken(torch.inf), DataMismatch, "1: its weight holds NaN or infinity"),
        (_dead(), DataMismatch, r"dead layer: 2 \(after 1\) gives only zeros on the calibration images"),
        (_net(nn.ReLU(), nn.Softmax(dim=1)), UsageError, "3.* cannot be made spiking: remove the softmax"),
        (_net(nn.Sigmoid()), UsageError, "2.* cannot be made spiking: only ReLU converts"),
        (_net(nn.ReLU(), nn.LayerNorm(8)), UsageError, "3.* cannot be made spiking: normalises by the values"),
        (nn.Sequential(*_net(nn.ReLU()), nn.ReLU()), UsageError, "4: a ReLU follows the last layer"),
        (_net(nn.Identity()), UsageError, "the network has no ReLU: nothing in it would spike"),
        (nn.Linear, UsageError, "a network is a module, a result that holds one, a file or a folder, not type"),
    ],
)
def test_networks_that_are_refused(digits, network, error, message):
    with pytest.raises(error, match=message) as caught:
        spike(network, digits, steps=3, test_rows=5)
    assert "\n" not in str(caught.value)


def test_inputs_beyond_one_as_poisson_spikes(digits):
    wide = dataclasses.replace(digits.split("train"), x=3 * digits.split("train").x)
    with pytest.raises(DataMismatch, match=r"between −1 and 1, these reach 3; .*encode=constant"):
        spike(_net(nn.ReLU()), dataclasses.replace(digits, train=wide), encode="poisson", steps=3, test_rows=5)
    with pytest.raises(DataMismatch, match=r"between −1 and 1, these reach 3; .*encode=constant"):
        spike(_net(nn.ReLU()), dataclasses.replace(digits, test=wide), encode="poisson", steps=3)


def test_data_without_training_rows(trained, digits):
    with pytest.raises(DataMismatch, match="digits has no training rows, which are needed to find thresholds"):
        spike(trained, dataclasses.replace(digits, train=None), steps=3)


def test_inputs_that_are_no_numbers(digits):
    broken = digits.split("train").x.clone()
    broken[:, 0, 2, 2] = torch.nan
    part = dataclasses.replace(digits.split("train"), x=broken)
    with pytest.raises(DataMismatch, match="image 0 holds NaN or infinity"):
        spike(_net(nn.ReLU()), dataclasses.replace(digits, train=part), steps=3, test_rows=5)


def test_data_of_another_shape(trained, digits):
    with pytest.raises(DataMismatch, match="shape"):
        spike(trained, (torch.zeros(9, 1, 7, 7), torch.zeros(9, dtype=torch.int64)), steps=3)


@pytest.mark.parametrize("name", ["record.json", "journal.jsonl"])
def test_a_folder_with_results_of_another_verb(trained, digits, tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(UsageError, match="holds other results, such as a sweep; give another folder"):
        spike(trained, digits, steps=3, test_rows=5, out=tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "{}")]


def test_a_folder_with_a_network_that_is_not_spiking(trained, digits, tmp_path):
    ws.save(trained.network, tmp_path / "network.safetensors")
    before = (tmp_path / "network.safetensors").read_bytes()
    with pytest.raises(UsageError, match="holds a network that is not spiking, which would be lost"):
        spike(trained, digits, steps=3, test_rows=5, out=tmp_path)
    with pytest.raises(UsageError, match="is a file; out is a folder"):
        spike(trained, digits, steps=3, test_rows=5, out=tmp_path / "network.safetensors")
    assert (tmp_path / "network.safetensors").read_bytes() == before


def test_the_folder_of_another_call_is_refused_and_the_same_call_goes_on(tmp_path):
    data = ws.data.load("digits")
    network = ws.networks.mlp(64, 8, 10)
    made = ws.spike(network, data, steps=4, test_rows=10, out=tmp_path / "a")
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.is_file()}
    with pytest.raises(UsageError, match="another call"):
        ws.spike(network, data, steps=5, test_rows=10, out=tmp_path / "a")
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.is_file()} == before
    again = ws.spike(network, data, steps=4, test_rows=10, out=tmp_path / "a")
    assert again.record.to_json() == made.record.to_json()


def test_two_processes_in_one_folder_are_refused(tmp_path):
    data, network = ws.data.load("digits"), ws.networks.mlp(64, 8, 10)
    other = Journal(tmp_path / "a" / "journal.jsonl", {"verb": "spike"})
    try:
        with pytest.raises(UsageError, match="in use by another process"):
            ws.spike(network, data, steps=4, test_rows=10, out=tmp_path / "a")
    finally:
        other.close()
