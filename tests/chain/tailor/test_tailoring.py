from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.chain.tailor import runner as workbench
from weightsmith.chain.tailor.choosing import violation
from weightsmith.chain.tailor.results import TailorRecord, Verdict
from weightsmith.chain.tailor.rows import divided
from weightsmith.chain.tailor.tailoring import tailor
from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.core.statistics import mcnemar
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import weights_digest, with_card
from weightsmith.networks.editing.copying import copied
from weightsmith.spiking.files import load_spiking, spiking_digest
from weightsmith.spiking.network import SpikingNetwork

QUICK = {"recover": None, "steps": 8, "rows": 200, "encode": "constant", "test_rows": 100}


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits").with_validation(0.2)


@pytest.fixture(scope="module")
def network(digits_mlp):
    return ws.load(digits_mlp)


@pytest.fixture(scope="module")
def both(network, digits):
    """A search whose limits on accuracy and energy neither reducing nor converting alone keeps to."""
    # A wide margin, so that the verdict does not hang on a few rows that another processor may answer otherwise.
    prices = "picojoule:neurons=false,draw=0"  # what neurons and draws add would leave a network this small no room
    options = {"recover": "fine-tune:1", "rows": 300, "steps": 16, "prices": prices}
    return tailor(network, digits, accuracy=0.82, energy=0.07, margin=3, **options)


def test_digits_meet_limits_that_neither_reducing_nor_converting_alone_meets(both):
    record = both.record
    assert both.met
    assert record.best.kind == "reduced and spiking"
    assert [each.kind for each in record.alone] == ["reduced", "spiking"]
    assert not any(each.met for each in record.alone)
    assert record.only_together
    assert isinstance(both.network, SpikingNetwork)
    assert record.judged.accuracy.value >= 0.82
    assert record.judged.energy <= 0.07 * record.energy


def test_the_verdict_can_be_checked_with_the_network_that_comes_back(both, network, digits):
    record = both.record
    responses = both.network.run(digits.test.x, record.best.steps, seed=0, first=record.selection.rows)
    right = responses.correct(digits.test.y.numpy())[:, -1]
    assert record.judged.accuracy.value == right.mean()
    whole = ws.evaluate(network, digits)
    assert record.whole == whole.accuracy
    assert record.judged.cost.difference == pytest.approx(right.mean() - whole.accuracy.value)
    assert record.judged.cost.method == mcnemar([1], [1]).method
    assert spiking_digest(both.network) == record.result


def test_the_validation_split_chooses_and_the_test_split_judges(both, digits):
    record = both.record
    assert (record.selection.split, record.selection.rows) == ("validation", len(digits.validation))
    assert (record.judging.split, record.judging.rows) == ("test", len(digits.test))
    assert record.train.sha256 == digits.train.digest()
    assert record.origin.inputs["judging"] == digits.test.digest()


@pytest.mark.slow
def test_nothing_is_trained_on_rows_that_choose_or_judge(network, digits, monkeypatch):
    seen = []
    real = workbench.reduce

    def watched(network, data, **more):
        seen.append(data)
        return real(network, data, **more)

    monkeypatch.setattr(workbench, "reduce", watched)
    tailor(network, digits, accuracy=0.5, params=0.3, recover="fine-tune:1", rows=300)
    held_out = {tuple(row.flatten().tolist()) for row in torch.cat([digits.validation.x, digits.test.x])}
    train = {tuple(row.flatten().tolist()) for row in digits.train.x}
    assert seen
    for data in seen:
        assert data.validation is None
        rows = {tuple(row.flatten().tolist()) for row in data.train.x}
        assert rows <= train
        assert not rows & (held_out - train)


def test_the_record_survives_json(both):
    assert TailorRecord.from_json(both.record.to_json()) == both.record


def test_the_network_that_comes_in_is_not_changed(network, digits):
    before = weights_digest(network)
    tailor(network, digits, accuracy=0.5, params=0.5, **QUICK)
    assert weights_digest(network) == before


@pytest.mark.choice
def test_only_the_size_is_limited_so_that_nothing_spikes_unless_asked(network, digits):
    found = tailor(network, digits, accuracy=0.8, params=0.5, **QUICK)
    assert {each.kind for each in found.record.candidates} == {"whole", "reduced"}
    assert found.record.best.kind == "reduced"
    assert found.record.best.parameters <= 0.5 * found.record.parameters
    assert isinstance(found.network, nn.Module)
    assert weights_digest(found.network) == found.record.result
    assert [each.candidate is None for each in found.record.alone] == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("spiking", [True, False])
def test_whether_networks_spike_can_be_said(network, digits, spiking):
    limit = {"params": 0.3} if spiking else {"energy": 0.3}
    found = tailor(network, digits, accuracy=0.8, **limit, spiking=spiking, **QUICK)
    assert ("reduced and spiking" in {each.kind for each in found.record.candidates}) == spiking


@pytest.mark.choice
def test_limits_that_cannot_be_met_together_name_what_would_do(network, digits):
    # Far apart: the whole network is right on all of these rows, and what costs so little on three quarters of them.
    found = tailor(network, digits, accuracy=0.95, energy=0.04, **{**QUICK, "encode": "poisson"})
    record = found.record
    assert not found.met
    assert record.verdict is Verdict.NOT_MET
    assert record.unreachable == ()
    by_name = {each.limit: each for each in record.relaxations}
    assert by_name["accuracy"].to < 0.95
    assert by_name["energy"].to > record.limits.energy
    for name, each in by_name.items():
        relaxed = dataclasses.replace(record.limits, **{name: each.to})
        assert record.candidates[each.candidate].excess(relaxed) == {}
    least = min(violation(each.excess(record.limits)) for each in record.candidates)
    assert violation(record.best.excess(record.limits)) == least
    assert found.network is not None


def test_a_limit_beyond_everything_is_named(network, digits):
    found = tailor(network, digits, accuracy=1.0, params=0.2, **{**QUICK, "test_rows": None})
    assert found.record.unreachable == ("accuracy",)
    assert found.record.verdict is Verdict.NOT_MET


@pytest.mark.slow
def test_an_accuracy_alone_is_met_by_the_cheapest(network, digits):
    found = tailor(network, digits, accuracy=0.8, margin=0, **QUICK)
    record = found.record
    cheaper = [each for each in record.candidates if each.energy < record.best.energy]
    assert all(each.share < 0.8 for each in cheaper)


def test_a_file_and_a_folder_are_read(network, digits, tmp_path):
    ws.save(network, tmp_path / "network.safetensors")
    records = [
        tailor(given, digits, accuracy=0.5, params=0.3, **QUICK).record
        for given in (network, tmp_path, str(tmp_path / "network.safetensors"))
    ]
    assert len({record.to_json() for record in records}) == 1


RESUMED = {**QUICK, "accuracy": 0.85, "energy": 0.2, "recover": "fine-tune:1", "steps": 6, "test_rows": 60}


@pytest.fixture(scope="module")
def uninterrupted(network, digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tailored") / "whole"
    tailor(network, digits, **RESUMED, out=folder)
    return folder


@pytest.mark.parametrize(
    "stop_after", [12, *(pytest.param(stop_after, marks=pytest.mark.slow) for stop_after in (0, 20, 26))]
)
def test_stopped_anywhere_and_run_again_it_ends_with_the_same_bytes(
    network, digits, uninterrupted, tmp_path, stop_after
):
    calls = 0

    def stop(*_):
        nonlocal calls
        calls += 1
        if calls > stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tailor(network, digits, **RESUMED, out=tmp_path, progress=stop)
    assert not (tmp_path / "record.json").exists()
    tailor(network, digits, **RESUMED, out=tmp_path)
    for name in ("record.json", "network.safetensors"):
        assert (tmp_path / name).read_bytes() == (uninterrupted / name).read_bytes()


@pytest.mark.slow
def test_with_and_without_a_folder_the_record_is_the_same(network, digits, tmp_path):
    options = {"accuracy": 0.8, "energy": 0.3, **QUICK}
    kept = tailor(network, digits, **options, out=tmp_path / "out")
    assert tailor(network, digits, **options).record.to_json() == kept.record.to_json()
    assert type(wanted := kept.record).from_json((tmp_path / "out" / "record.json").read_text()) == wanted


KILLED = """
import sys, weightsmith as ws
from weightsmith.chain.tailor.tailoring import tailor
digits = ws.data.load("digits").with_validation(0.2)
limits = {"accuracy": 0.85, "energy": 0.2}
tailor(sys.argv[1], digits, **limits, recover="fine-tune:2", rows=300, steps=6, test_rows=60, out=sys.argv[2])
"""


@pytest.mark.slow
def test_killed_outright_and_run_again_it_ends_with_the_same_bytes(network, digits, tmp_path):
    ws.save(network, tmp_path / "n.safetensors")
    words = [sys.executable, "-c", KILLED, str(tmp_path / "n.safetensors")]
    journal = tmp_path / "parts" / "journal.jsonl"
    for lines in (3, 9, 15):
        process = subprocess.Popen([*words, str(tmp_path / "parts")])
        while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= lines):
            time.sleep(0.01)
        process.kill()
        process.wait()
    subprocess.run([*words, str(tmp_path / "parts")], check=True)
    subprocess.run([*words, str(tmp_path / "whole")], check=True)
    for name in ("record.json", "network.safetensors"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_other_limits_use_what_is_known_and_say_that_the_rows_were_asked_before(network, digits, tmp_path, monkeypatch):
    tailor(network, digits, accuracy=0.85, energy=0.3, **QUICK, out=tmp_path)
    calls = []
    real = workbench.spike
    monkeypatch.setattr(workbench, "spike", lambda *given, **more: calls.append(1) or real(*given, **more))
    again = tailor(network, digits, accuracy=0.85, energy=0.3, **QUICK, out=tmp_path)
    assert not calls
    assert not any("asked about before" in note for note in again.record.notes)
    other = tailor(network, digits, accuracy=0.6, energy=0.3, **QUICK, out=tmp_path)
    assert any("asked about before" in note for note in other.record.notes)
    assert other.record.best.energy < again.record.best.energy


@pytest.mark.slow
def test_a_budget_ends_the_search_early_and_says_what_was_not_tried(network, digits, tmp_path):
    options = {"accuracy": 0.8, "energy": 0.3, **QUICK}
    short = tailor(network, digits, **options, budget="1e-9s", out=tmp_path / "out")
    record = short.record
    assert [each.kind for each in record.candidates] == ["whole"]
    assert record.verdict is Verdict.NOT_MET
    assert record.untried[0] == "groups, macs:0.3, uniform"
    assert record.untried[-1] == "refining at last: not begun"
    longer = tailor(network, digits, **options, budget="1h", out=tmp_path / "out")
    assert longer.record.untried == ()
    assert longer.met


def test_a_network_that_cannot_be_converted_is_reduced_and_says_so(digits):
    tanh = ws.train("mlp:24,activation=tanh", digits, optimiser="adam", schedule=0.01, epochs=4, seed=0)
    found = tailor(tanh, digits, accuracy=0.7, energy=0.5, **QUICK)
    assert found.record.best.kind == "reduced"
    assert any("cannot be converted" in note and "only ReLU converts" in note for note in found.record.notes)
    assert [each.candidate is None for each in found.record.alone] == [False, True]


class Rigid(nn.Module):
    """Nothing in it can be taken out: one layer from inputs to classes."""

    def __init__(self):
        super().__init__()
        self.flatten, self.only = nn.Flatten(), nn.Linear(64, 10)

    def forward(self, x):
        return self.only(self.flatten(x))


class Wavy(Rigid):
    def forward(self, x):
        return torch.sin(super().forward(x))


def test_a_network_for_which_nothing_is_left_is_refused_with_the_reasons(digits):
    with pytest.raises(UsageError, match="neither be reduced nor converted") as refused:
        tailor(Wavy(), digits, accuracy=0.1, energy=0.5, **QUICK)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_module_of_the_users_own_is_tailored(digits):
    torch.manual_seed(0)
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    run = ws.train(own, digits, optimiser="adam", schedule=0.01, epochs=4, seed=0)
    found = tailor(run.network, digits, accuracy=0.6, energy=0.4, **QUICK)
    assert found.met
    assert found.record.network == "Sequential"


@pytest.mark.slow
def test_a_residual_network_is_cut_and_converted(digits):
    run = ws.train("resnet:8,widths=[4,8,8],shortcut=conv", digits, schedule=0.05, epochs=1, seed=0)
    found = tailor(run, digits, accuracy=0.15, energy=0.6, recover=None, rows=100, steps=6, test_rows=40, budget="60s")
    assert {"whole", "reduced", "spiking"} <= {each.kind for each in found.record.candidates}


@pytest.mark.slow
def test_int8_and_other_prices_go_through(network, digits):
    found = tailor(
        network, digits, accuracy=0.7, energy=0.5, **QUICK, precision="int8", prices="picojoule:0.1,3.2",
    )  # fmt: skip
    assert found.record.settings["precision"] == "int8"
    assert found.record.energy == pytest.approx(3.2 * found.record.macs)
    assert {each.way.conversion.encode for each in found.record.candidates if each.way.conversion} == {"constant"}


def test_a_folder_with_something_else_in_it_is_left_alone(network, digits, tmp_path):
    ws.save(network, tmp_path / "network.safetensors")
    with pytest.raises(UsageError, match="which would be lost"):
        tailor(network, digits, accuracy=0.5, out=tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        tailor(network, digits, accuracy=0.5, out=tmp_path / "file")
    ws.reduce(network, digits, by="groups", latency=False, random=0, out=tmp_path / "reduced")
    with pytest.raises(UsageError, match="belongs to another call"):
        tailor(network, digits, accuracy=0.5, out=tmp_path / "reduced")


def test_equal_weights_that_are_fed_otherwise_are_another_network(network, digits, tmp_path):
    options = {"params": 0.3, **QUICK, "budget": "1e-9s", "out": tmp_path}
    tailor(network, digits, **options)
    other = with_card(copied(network), dataclasses.replace(network.card, normalisation=Normalisation((0.5,), (0.5,))))
    with pytest.raises(UsageError, match="belongs to another call"):
        tailor(other, digits, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, UsageError, "at least one of them"),
        ({"accuracy": 90}, OptionError, "written 90%"),
        ({"accuracy": 0.9, "margin": -1}, OptionError, "margin must be a number ≥ 0, not -1"),
        ({"accuracy": 0.9, "margin": float("nan")}, OptionError, "margin must be a number ≥ 0, not nan"),
        ({"accuracy": 0.9, "recover": "rewind:3"}, OptionError, "recover must be one of fine-tune, not rewind:3"),
        ({"accuracy": 0.9, "recover": "fine"}, UsageError, "unknown recover"),
        ({"accuracy": 0.9, "budget": "soon"}, OptionError, "budget"),
        ({"accuracy": 0.9, "steps": 0}, UsageError, "steps"),
        ({"accuracy": 0.9, "balance": "best"}, UsageError, "unknown balance"),
        ({"accuracy": 0.9, "encode": "morse"}, UsageError, "unknown"),
        ({"accuracy": 0.9, "precision": "int4"}, UsageError, "precision"),
        ({"accuracy": 0.9, "test_rows": 0}, OptionError, "test_rows must be a whole number ≥ 1, not 0"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused_before_any_work(digits, options, error, words):
    with pytest.raises(error, match=words):
        tailor("no such file.safetensors", digits, **options)


@pytest.mark.parametrize("given", [3, nn.Linear])
def test_what_is_no_network_is_refused(digits, given):
    with pytest.raises(UsageError, match="a module, a training run, a file or a folder"):
        tailor(given, digits, accuracy=0.9)


def test_a_spiking_network_is_refused(network, digits, tmp_path):
    twin = ws.spike(network, digits, steps=4, watch=0, test_rows=4, out=tmp_path / "snn").network
    for given in (twin, tmp_path / "snn"):
        with pytest.raises(UsageError, match="spiking network already"):
            tailor(given, digits, accuracy=0.9)


def test_data_without_rows_to_judge_by_are_refused(network, digits):
    with pytest.raises(DataMismatch, match="with_test"):
        tailor(network, ws.Data("half", train=digits.train), accuracy=0.9)


@pytest.mark.choice
@pytest.mark.slow
def test_what_is_written_can_be_used(network, digits, tmp_path):
    found = tailor(network, digits, accuracy=0.8, energy=0.2, **QUICK, out=tmp_path / "snn")
    assert spiking_digest(load_spiking(tmp_path / "snn")) == found.record.result
    small = tailor(network, digits, accuracy=0.8, params=0.4, **QUICK, out=tmp_path / "small")
    assert weights_digest(ws.load(tmp_path / "small")) == small.record.result
    assert f"reduced by {small.record.best.way.cut.by}" in str(ws.load(tmp_path / "small").card.lineage)


def test_one_line_tells_what_came_of_it(both):
    text = str(both)
    assert both.record.verdict.value in text
    assert "reduced and spiking" in text
    assert "% of the energy" in text
    assert repr(both).startswith("Tailored(")


@pytest.mark.data
@pytest.mark.slow
def test_a_vgg_is_tailored_within_a_budget(shared_data, tmp_path):
    network = ws.load(Path(shared_data) / "weights" / "vgg5_fc512.safetensors")
    found = tailor(
        network, ws.data.load("cifar10"), accuracy=0.6, energy=0.3, test_rows=50, tune_rows=500, rows=200, recover=None,
        steps=8, budget="40s",
    )  # fmt: skip
    assert found.record.selection.rows == found.record.judging.rows == 50
    assert found.record.best.energy_share < 1
    assert divided("cifar10", test_rows=50, tune_rows=500, seed=0).inputs["judging"] == found.record.judging.sha256
