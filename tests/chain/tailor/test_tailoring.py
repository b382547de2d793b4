from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.chain.tailor.results import TailorRecord, Verdict
from weightsmith.chain.tailor.tailoring import tailor
from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.networks.weights import open_weights
from weightsmith.spiking.files import load_spiking, spiking_digest
from weightsmith.spiking.network import SpikingNetwork

QUICK = {"rows": 240, "test_rows": 120}


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def network(digits_mlp):
    return ws.load(digits_mlp)


@pytest.fixture(scope="module")
def half(network, digits):
    return tailor(network, digits, params="50%", accuracy=-20)


def test_the_answer_can_be_checked_with_the_network_that_comes_back(half, network, digits):
    record = half.record
    assert half.met
    assert record.best.kind == "reduced"
    assert sum(value.numel() for value in half.network.parameters()) == record.best.parameters <= record.limits.params
    assert record.judged.accuracy == ws.evaluate(half.network, digits).accuracy
    assert record.whole == ws.evaluate(network, digits).accuracy
    assert weights_digest(half.network) == record.result
    assert record.judging.rows == len(digits.test)


def test_no_label_of_a_training_row_is_read(half, network, digits):
    wrong = torch.zeros_like(digits.train.y)
    wrong[::2] = 1  # two classes, so that they are still classes
    other = ws.data.Data("digits", train=ws.data.Split(digits.train.x, wrong), test=digits.test, classes=digits.classes)
    found = tailor(network, other, params="50%", accuracy=-20)
    assert found.record.result == half.record.result
    assert [each.divergence for each in found.record.candidates] == [each.divergence for each in half.record.candidates]


def test_the_network_that_comes_in_is_not_changed(network, digits):
    before = weights_digest(network)
    tailor(network, digits, bytes="25%", **QUICK)
    assert weights_digest(network) == before


def test_a_quarter_of_the_bytes_is_an_int8_network_that_comes_back_from_its_folder(network, digits, tmp_path):
    found = tailor(network, digits, bytes="25%", **QUICK, out=tmp_path)
    assert found.record.best.kind == "reduced, int8"
    assert found.record.best.bytes <= 0.25 * found.record.bytes
    again = ws.load(tmp_path)
    assert torch.equal(again(digits.test.x[:9]), found.network(digits.test.x[:9]))
    assert weights_digest(open_weights(tmp_path / "network.safetensors")) == found.record.result
    stored = [entry for entry in open_weights(tmp_path / "network.safetensors").stored.values() if entry.dtype == "I8"]
    assert stored or any(
        "int8" in str(entry) for entry in open_weights(tmp_path / "network.safetensors").stored.values()
    )


def test_int8_is_returned_where_it_wins_and_the_text_says_so(network, digits):
    from weightsmith.reporting.describe import describe

    found = tailor(network, digits, energy="20%", accuracy=-20, **QUICK)
    assert found.record.best.kind == "int8"
    assert {"reduced", "spiking"} <= {each.kind for each in found.record.candidates}
    assert "The int8 network wins" in describe(found, "net").lead


def test_only_spiking_networks_are_taken_where_they_are_asked_for(network, digits, tmp_path):
    found = tailor(network, digits, energy="60%", spiking=True, **QUICK, out=tmp_path)
    assert isinstance(found.network, SpikingNetwork)
    assert found.record.judged.energy <= found.record.limits.energy
    assert spiking_digest(load_spiking(tmp_path)) == found.record.result
    right = found.network.run(digits.test.x[:1], found.record.best.steps, seed=0)
    assert right.steps == found.record.settings["steps"]


def test_an_accuracy_alone_is_met_by_the_cheapest_that_holds(network, digits):
    found = tailor(network, digits, accuracy=-30, rows=240)
    record = found.record
    assert found.met
    assert record.judged.energy < 0.05 * record.energy
    held = [each for each in record.judgements if each.holds(0.95)]
    assert record.judged.energy == min(each.energy for each in held)


def test_an_estimate_above_the_limit_is_not_enough_unless_it_is_said(network, digits):
    limit = {"accuracy": ws.evaluate(network, digits).accuracy.value - 0.001, "energy": "5%"}
    strict, lenient = (tailor(network, digits, **limit, margin=margin, rows=240) for margin in (0.95, None))
    if lenient.record.verdict is Verdict.BY_ESTIMATE:  # int8 may be right on a row less, on some processors
        assert lenient.met
    assert not strict.met


def test_limits_that_no_network_keeps_to_give_the_nearest(network, digits):
    found = tailor(network, digits, params=5, **QUICK)
    assert found.record.verdict is Verdict.NOT_MET
    assert found.record.unreachable == ("params",)
    assert not found.met
    assert found.network is not None


def test_the_same_call_gives_the_same_record_and_goes_on_in_its_folder(network, digits, tmp_path):
    calls = {"params": "50%", "macs": "45%", **QUICK}

    def stop(stage, done, total):
        if stage.startswith("judging"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tailor(network, digits, **calls, out=tmp_path / "stopped", progress=stop)
    assert not (tmp_path / "stopped" / "record.json").exists()
    tailor(network, digits, **calls, out=tmp_path / "stopped")
    tailor(network, digits, **calls, out=tmp_path / "straight")
    for name in ("record.json", "network.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_an_interrupted_search_judges_the_best_so_far_and_goes_on_later(network, digits, tmp_path):
    def stop(stage, done, total):
        if stage.startswith("cutting"):
            raise KeyboardInterrupt

    found = tailor(network, digits, params="50%", **QUICK, out=tmp_path, progress=stop)
    assert found.record.best.kind in ("whole", "int8")
    assert not found.met
    assert "interruption" in found.record.untried[0]
    assert tailor(network, digits, params="50%", **QUICK, out=tmp_path).met


def test_other_limits_reuse_the_candidates(network, digits, tmp_path):
    tailor(network, digits, params="50%", **QUICK, out=tmp_path)
    lines = len((tmp_path / "journal.jsonl").read_text().splitlines())
    found = tailor(network, digits, params="50%", accuracy=-30, **QUICK, out=tmp_path)
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) == lines
    assert found.seconds > 0
    assert TailorRecord.from_json((tmp_path / "record.json").read_text()) == found.record


def test_a_module_of_ones_own_that_no_spikes_can_follow_is_cut_and_rounded(digits):
    torch.manual_seed(0)
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10)).eval()
    found = tailor(own, digits, energy="20%", **QUICK)
    assert found.record.best.kind == "int8"
    assert any("graded" in way for way in found.record.refused)


def test_another_folder_s_results_are_not_written_over(network, digits, tmp_path):
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(UsageError, match="would be overwritten"):
        tailor(network, digits, params=0.5, out=tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, UsageError, "at least one"),
        ({"params": "5kB"}, OptionError, "params"),
        ({"params": 0.5, "margin": 2}, OptionError, "margin"),
        ({"params": 0.5, "rows": 2000}, OptionError, "rows"),
        ({"params": 0.5, "budget": "soon"}, OptionError, "budget"),
    ],
)
def test_wrong_options_are_refused_before_any_work(network, digits, options, error, words):
    with pytest.raises(error, match=words):
        tailor(network, digits, **options)


def test_data_without_rows_to_judge_by_are_refused(network, digits):
    with pytest.raises(DataMismatch, match="others to judge by"):
        tailor(network, ws.data.Data("d", train=digits.train, classes=digits.classes), params=0.5)


def test_a_spiking_network_is_refused(digits, network):
    snn = ws.spike(network, digits, neuron="if", steps=2, test_rows=2, watch=0).network
    with pytest.raises(UsageError, match="spiking network already"):
        tailor(snn, digits, params=0.5)


class Own(nn.Module):
    """A module of one's own: batch norm, pooling, no architecture of ours."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.hidden, self.out = nn.Linear(8 * 16, 24), nn.Linear(24, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.first(x.reshape(-1, 1, 8, 8)))), 2)
        return self.out(torch.relu(self.hidden(x.flatten(1))))


def test_a_reduced_module_of_ones_own_in_int8_is_read_by_the_function_that_builds_it(digits, tmp_path):
    torch.manual_seed(0)
    found = tailor(Own().eval(), digits, bytes="20%", **QUICK, out=tmp_path)
    assert found.record.best.kind == "reduced, int8"
    assert weights_digest(open_weights(tmp_path / "network.safetensors")) == found.record.result
    again = ws.load(tmp_path, network=Own)
    assert torch.equal(again(digits.test.x[:9]), found.network(digits.test.x[:9]))
    with pytest.raises(UsageError, match="the function that builds it"):
        ws.load(tmp_path)


def test_an_int8_network_is_written_as_an_onnx_file_too(network, digits, tmp_path):
    pytest.importorskip("onnxruntime")
    from weightsmith.networks.runtime.onnx_network import OnnxNetwork

    found = tailor(network, digits, bytes="30%", **QUICK, out=tmp_path)
    assert found.record.best.kind == "int8"
    theirs = OnnxNetwork(tmp_path / "network-int8.onnx").scores(digits.test.x[:100])
    same = theirs.argmax(1) == found.network(digits.test.x[:100]).argmax(1)
    assert same.double().mean() > 0.95
    assert any("network-int8.onnx" in note for note in found.record.notes)
    tailor(network, digits, params="50%", **QUICK, out=tmp_path)
    assert not (tmp_path / "network-int8.onnx").exists()


def test_a_limit_beyond_every_cut_gives_the_smallest_one(network, digits):
    found = tailor(network, digits, params="0.1%", **QUICK)
    assert found.record.verdict is Verdict.NOT_MET
    assert found.record.best.kind == "reduced"
    assert {layer.out_features for layer in found.network.modules() if isinstance(layer, nn.Linear)} == {1, 10}
