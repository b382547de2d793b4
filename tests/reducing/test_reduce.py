"""The verb: smaller real networks of every kind, by every method, that are used like any other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reducing.networks import KINDS, inputs, network
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import card_of
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.reduce import reduce
from weightsmith.training.run import TrainRun

QUICK: dict[str, Any] = {"latency": False, "random": 0}
METHODS = (
    ("angles:60", None),
    ("groups:60", None),
    ("genetic:50,population=12,generations=2", None),
    ("pareto:population=12,generations=2", None),
    ("angles:90", "params:0.5"),
    ("groups", "macs:0.5"),
    ("genetic:0,population=12,generations=2", "params:0.5"),
    ("magnitude", "params:0.5"),
    ("random", "macs:0.5"),
)


def _data(kind: str, rows: int = 60) -> Data:
    """Random inputs with what the network says of them, half of the time."""
    x = inputs(kind, rows)
    with torch.no_grad():
        y = network(kind)(x).argmax(dim=1)
    y = torch.where(torch.arange(rows) % 2 == 0, y, torch.arange(rows) % 5)
    return Data(kind, train=Split(x, y), test=Split(x.flip(0), y.flip(0)))


@pytest.mark.parametrize(("by", "target"), METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_cuts_every_kind_of_network(kind: str, by: str, target: str | None) -> None:
    whole, data = network(kind), _data(kind)
    before = {name: value.clone() for name, value in whole.state_dict().items()}
    small = reduce(whole, data, by=by, target=target, **QUICK)
    record = small.record
    assert all(torch.equal(value, before[name]) for name, value in whole.state_dict().items())
    assert not any(site.refused for site in small.sites)
    assert all(1 <= site.after <= site.before for site in small.sites)
    assert record.reduced.parameters == sum(value.numel() for value in small.network.parameters())
    assert small.network(inputs(kind, 3)).shape == (3, 5)
    if target is not None:
        name, _, share = target.partition(":")
        sizes = [record.whole, record.reduced]
        first, second = [size.parameters for size in sizes] if name == "params" else [size.macs for size in sizes]
        assert second <= float(share) * first
        assert second > (float(share) - 0.25) * first


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_reduced_networks_save_load_train_and_export(kind: str, tmp_path: Path) -> None:
    data = _data(kind)
    small = reduce(network(kind), data, by="magnitude", target="params:0.6", **QUICK)
    x = inputs(kind, 4)
    with torch.no_grad():
        expected = small.network(x)
    file = ws.save(small.network, tmp_path / "small.safetensors")
    np.save(tmp_path / "x.npy", x.numpy())
    script = (
        "import sys, json, numpy as np, torch, weightsmith as ws\n"
        "n = ws.load(sys.argv[1]); x = torch.from_numpy(np.load(sys.argv[2]))\n"
        "print(json.dumps(n(x).tolist()))"
    )
    command = [sys.executable, "-c", script, str(file), str(tmp_path / "x.npy")]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    torch.testing.assert_close(torch.tensor(answer), expected, rtol=1e-5, atol=1e-5)
    run = ws.train(small.network, data, epochs=1, schedule=0.01)
    assert run.network(x).shape == expected.shape
    exported = torch.export.export(small.network, (x,))
    torch.testing.assert_close(exported.module()(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "vgg with batch norm", "resnet conv"])
def test_reduced_networks_export_to_onnx(kind: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    small = reduce(network(kind), _data(kind), by="groups", target="params:0.6", **QUICK)
    x = inputs(kind, 2)
    torch.onnx.export(small.network, (x,), tmp_path / "small.onnx", dynamo=True, verbose=False)
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(onnx.load(tmp_path / "small.onnx"))
    (answer,) = session.run(None, {session.input_names[0]: x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(answer, small.network(x).numpy(), rtol=1e-4, atol=1e-4)


def _planted(trained: TrainRun, seed: int) -> tuple[nn.Module, int]:
    """The trained network with twins and complements of some of its units among them, computing the same function.

    A twin has the input weights of its original and takes a part of its output weights; a complement has opposite
    input weights, so that σ(−z) = 1 − σ(z).
    """
    generator = np.random.default_rng(seed)
    source = trained.network.state_dict()
    originals = generator.choice(40, int(generator.integers(1, 8)), replace=False)
    kinds = generator.random(len(originals)) < 0.5
    wide = mlp(64, 40 + len(originals), 10, activation="sigmoid")
    order = torch.from_numpy(generator.permutation(40 + len(originals)))
    rows, biases = [source["dense1.weight"]], [source["dense1.bias"]]
    outputs, output_bias = source["output.weight"].clone(), source["output.bias"].clone()
    columns = []
    for unit, twin in zip(originals.tolist(), kinds, strict=True):
        sign = 1.0 if twin else -1.0
        rows.append(sign * source["dense1.weight"][unit : unit + 1])
        biases.append(sign * source["dense1.bias"][unit : unit + 1])
        column = torch.from_numpy(generator.normal(size=10)).float() * 0.3
        columns.append(column)
        outputs[:, unit] -= sign * column
        if not twin:
            output_bias -= column
    with torch.no_grad():
        wide.dense1.weight.copy_(torch.cat(rows)[order])
        wide.dense1.bias.copy_(torch.cat(biases)[order])
        wide.output.weight.copy_(torch.cat([outputs, torch.stack(columns, dim=1)], dim=1)[:, order])
        wide.output.bias.copy_(output_bias)
    return wide.eval(), len(originals)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
@pytest.mark.parametrize("merge", ["scaled", "outputs"])
def test_planted_twins_and_complements_go_without_a_trace(
    trained: TrainRun, digits: Data, merge: str, seed: int
) -> None:
    wide, planted = _planted(trained, seed)
    normalisation = card_of(trained.network).normalisation
    x = normalisation.apply(digits.split("train").x).flatten(1)
    rows = Data("rows", train=Split(x, digits.split("train").y))
    small = reduce(wide, rows, by=f"angles:0.5,merge={merge}", **QUICK)
    (site,) = small.sites
    assert site.after == 40
    assert {removal.reason for removal in site.removals} <= {"similar", "complementary"}
    assert len(site.removals) == planted
    with torch.no_grad():
        before, after = wide.double()(x.double()), small.network.double()(x.double())
    assert float((before - after).abs().max()) < 1e-6 * max(1.0, float(before.abs().max()))


def test_random_masks_and_scratch_stand_beside_the_result(trained: TrainRun, digits: Data) -> None:
    small = reduce(
        trained, digits, by="angles:60", random=5, scratch="fine-tune:3,rate=0.05", scratch_seeds=(0, 1), latency=True
    )
    record = small.record
    assert record.random is not None
    assert record.scratch is not None
    assert record.random.counts == tuple(site.after for site in small.sites)
    assert len(record.random.accuracies) == 5
    assert record.scratch.parameters == record.reduced.parameters
    assert record.scratch.split == record.measured.split
    assert record.reduced.file_bytes < record.whole.file_bytes
    assert small.latency is not None
    assert small.latency.at(64).median > 0


def test_only_the_layers_named_lose_units(digits: Data) -> None:
    run = ws.train("mlp:30,20", digits, epochs=1, schedule=0.05)
    small = reduce(run, digits, by="random", target="params:0.6", layers="dense1", **QUICK)
    assert small.network.dense2.out_features == 20
    assert small.network.dense1.out_features < 30
    with pytest.raises(UnknownName, match="dense7"):
        reduce(run, digits, by="angles:45", layers="dense7", **QUICK)
    with pytest.raises(UsageError, match="output: cannot be cut: gives the output of the network"):
        reduce(run, digits, by="angles:45", layers="output", **QUICK)


def test_the_users_own_fitness_and_price(trained: TrainRun, digits: Data) -> None:
    """A price that makes the first half of the units dear drives them out."""
    dear = np.where(np.arange(40) < 20, 10.0, 0.01)
    by = "genetic:50,population=40,generations=15"
    small = reduce(trained, digits, by=by, price=lambda masks: masks @ dear, **QUICK)
    kept = np.array(small.sites[0].kept)
    assert (kept < 20).sum() < (kept >= 20).sum() / 2
    most = reduce(trained, digits, by=by, fitness=lambda accuracy, masks: masks.sum(axis=1), **QUICK)
    assert most.sites[0].after > 35


def test_a_run_in_a_folder_goes_on_and_ends_with_the_same_bytes(
    trained: TrainRun, digits: Data, tmp_path: Path
) -> None:
    by = "genetic:20,population=20,generations=6"
    kwargs: dict[str, Any] = {"by": by, "recover": "fine-tune:2", "latency": False, "random": 3}
    first = reduce(trained, digits, out=tmp_path / "a", **kwargs)

    class Stop(Exception):
        pass

    def stop(stage: str, done: int, _total: int) -> None:
        if stage.startswith("genetic") and done == 3:
            raise Stop

    with pytest.raises(Stop):
        reduce(trained, digits, out=tmp_path / "b", progress=stop, **kwargs)
    second = reduce(trained, digits, out=tmp_path / "b", **kwargs)
    assert first.record == second.record
    for name in ("record.json", "network.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    loaded = ws.load(tmp_path / "b")
    assert loaded.dense1.out_features == first.network.dense1.out_features
    with pytest.raises(UsageError, match="another call"):
        reduce(trained, digits, out=tmp_path / "b", **{**kwargs, "by": "angles:45"})


def test_same_seed_same_bytes(trained: TrainRun, digits: Data) -> None:
    by = "genetic:20,population=20,generations=3"
    first, again, other = (reduce(trained, digits, by=by, seed=seed, **QUICK) for seed in (0, 0, 1))
    assert first.record == again.record
    assert first.record.sites != other.record.sites


def test_a_module_of_the_users_own_reloads_through_its_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reduced_own_net.py").write_text(
        "from torch import nn\ndef make(): return nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 5))\n"
    )
    whole = ws.networks.build("reduced_own_net:make")
    small = reduce(whole, _data("mlp"), by="random", target="params:0.5", **QUICK)
    ws.save(small.network, tmp_path / "own.safetensors")
    again = ws.load(tmp_path / "own.safetensors", network="reduced_own_net:make")
    x = inputs("mlp", 3)
    assert torch.equal(again(x), small.network(x))
    assert again[0].out_features < 30


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"by": "angles:200"}, OptionError, "angle must be ≤ 90"),
        ({"by": "genetic:50,population=0"}, OptionError, "population must be"),
        ({"by": "magnitude"}, UsageError, "does not determine how much"),
        ({"by": "magnitude", "plan": "uniform"}, UsageError, "needs a target"),
        ({"by": "magnitude", "target": "params:1.5"}, OptionError, "keep must be < 1"),
        ({"by": "magnitude", "target": "params:0.001"}, UsageError, "cannot be met: one unit per layer"),
        ({"by": "angles:45", "fitness": len}, UsageError, "only genetic search does"),
        ({"by": "groups", "price": len}, UsageError, "only genetic search does"),
        ({"by": "pareto", "fitness": len}, UsageError, "give it a price"),
        ({"by": "groups", "plan": "alpha", "target": "params:0.5"}, UsageError, "ws.alpha_plan"),
        ({"by": "angles:45", "test_rows": 0}, UsageError, "test_rows must be a whole number"),
        ({"by": "angles:45", "rows": 0}, UsageError, "rows must be a whole number"),
        ({"by": "angles:45", "random": -1}, UsageError, "random must be"),
        ({"by": "angles:45", "scratch": "rewind:1"}, UsageError, "scratch must be one of fine-tune, not rewind:1"),
        ({"by": "angles:45", "recover": "retrain"}, UnknownName, "retrain"),
        ({"by": 45}, OptionError, "method must be one of"),
        ({"by": "angles:45", "plan": "no-such-file.json"}, ws.FileRefused, "no such file"),
    ],
)
def test_bad_options_are_named(
    trained: TrainRun, digits: Data, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        reduce(trained, digits, **{**QUICK, **options})


def test_a_network_without_hidden_layer_has_nothing_to_lose(digits: Data) -> None:
    with pytest.raises(UsageError, match="nothing can be removed"):
        reduce(mlp(64, 10), Data("d", train=digits.split("train")), by="angles:45", **QUICK)


def test_a_layer_of_one_unit_keeps_it() -> None:
    x = torch.randn(30, 4)
    data = Data("d", train=Split(x, (x[:, 0] > 0).long()))
    for by, target in (("angles:90", None), ("groups:90", None), ("genetic:1000,population=8,generations=2", None)):
        small = reduce(mlp(4, 1, 2), data, by=by, target=target, **QUICK)
        assert small.sites[0].after == 1


def test_wrong_data_are_refused(trained: TrainRun) -> None:
    with pytest.raises(DataMismatch):
        reduce(trained, (torch.randn(20, 7), torch.arange(20) % 3), by="angles:45", **QUICK)


def test_a_network_changed_since_it_was_built_is_cut_as_it_is_and_said_so() -> None:
    whole = mlp(10, 16, 4, activation="sigmoid")
    whole.activation1 = nn.ReLU()
    x = torch.randn(200, 10)
    y = whole(x).argmax(dim=1)
    small = reduce(whole, (x, y), by="magnitude", target="params:0.95", **QUICK)
    assert isinstance(small.network.activation1, nn.ReLU)
    assert small.record.difference < 1e-5
    assert any("was changed since it was built" in note for note in small.record.notes)


def test_units_read_at_several_positions_of_a_row(trained: TrainRun) -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 16), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.relu(self.first(x.view(-1, 2, 5)))).mean(1)

    whole, x = Tokens(), torch.randn(60, 10)
    data = Data("tokens", train=Split(x, torch.arange(60) % 4))
    for by, target in (("angles:45", None), ("genetic:20,population=8,generations=2", None), ("random", "params:0.5")):
        small = reduce(whole, data, by=by, target=target, random=2, latency=False)
        assert small.network(x).shape == (60, 4)


def test_recoveries_that_cannot_be_are_refused_before_the_search(trained: TrainRun, digits: Data) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("searched")

    for options, words in (
        ({"recover": "recalibrate"}, "no batch norm"),
        ({"recover": "rewind:5"}, "kept epoch"),
        ({"recover": "iterate:2", "price": lambda masks: masks.sum(axis=1)}, "changes in each round"),
        ({"device": "nowhere"}, "device 'nowhere'"),
    ):
        with pytest.raises(ws.WeightsmithError, match=words):
            reduce(trained, digits, by="genetic:20,population=8,generations=2", progress=never, **QUICK, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("by", ["angles:60", "groups:60", "genetic:50,population=8,generations=2"])
def test_networks_of_other_types(
    trained: TrainRun, digits: Data, dtype: torch.dtype, by: str, computable: Callable[[torch.dtype], None]
) -> None:
    computable(dtype)
    whole = ws.networks.with_card(copied(trained.network).to(dtype), card_of(trained.network))
    small = reduce(whole, digits, by=by, latency=False, random=2)
    assert {value.dtype for value in small.network.parameters()} == {dtype}
    assert small.record.random is not None
    assert small.record.measured.reduced.value > 0.3


def test_a_target_that_a_refused_site_leaves_unmet_is_said() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 1), nn.Linear(8 * 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.relu(self.second(torch.relu(self.first(x)))).reshape(-1, 32))

    data = Data("d", train=Split(torch.randn(30, 3, 2, 2), torch.arange(30) % 3))
    small = reduce(Fixed(), data, by="magnitude", target="params:0.5", **QUICK)
    assert any(site.refused for site in small.sites)
    assert any("the target was not met" in note for note in small.record.notes)
    _, missed, *left = str(small).splitlines()
    assert missed.startswith("the target was not met: ")
    assert any("second was left whole: " in line and "x.flatten(1) can" in line for line in left)


def test_fewer_test_rows_judge_where_asked(trained: TrainRun, digits: Data) -> None:
    small = reduce(trained, digits, by="angles:45", test_rows=50, **QUICK)
    assert small.record.measured.images == 50
    assert small.record.settings["test_rows"] == 50


def test_a_price_is_a_function_and_says_who_makes_one() -> None:
    wanted = "price must be a function, not 'synaptic'; ws.price_of"
    with pytest.raises(UsageError, match=wanted):
        reduce(mlp(64, 8, 10), "digits", by="genetic:30", price="synaptic")  # type: ignore[arg-type]


def test_the_cut_is_refitted_and_random_masks_with_it(trained: TrainRun, digits: Data) -> None:
    options: dict[str, Any] = {"by": "magnitude", "target": "params:0.3", "random": 3, "latency": False}
    plain = reduce(trained.network, digits, refit="none", **options).record
    small = reduce(trained.network, digits, **options)
    record = small.record
    assert plain.refit is None
    assert plain.measured.unfitted is None
    assert plain.settings["refit"] == "none"
    assert record.refit is not None
    assert [layer.layer for layer in record.refit.layers] == ["output"]
    assert record.refit.rows == len(digits.train)  # fewer than the 2,000 that a refit takes
    assert record.settings["refit"] == "least-squares"
    assert record.measured.unfitted == plain.measured.cut
    assert record.measured.cut.value > plain.measured.cut.value + 0.05
    assert record.random is not None
    assert plain.random is not None
    assert record.random.mean > plain.random.mean + 5
    assert type(record).from_json(record.to_json()) == record
    assert reduce(trained.network, digits, rows=300, **options).record.refit.rows == 300  # type: ignore[union-attr]


def test_batch_norms_measured_anew_after_a_refit_are_warned_of() -> None:
    whole, data = network("resnet conv"), _data("resnet conv")
    options: dict[str, Any] = {"by": "magnitude", "target": "params:0.6", "recover": "recalibrate:rows=40,batch=20"}
    assert any("after a refit" in note for note in reduce(whole, data, **options, **QUICK).record.notes)
    assert not reduce(whole, data, refit="none", **options, **QUICK).record.notes


class _Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.sum()) > 1e9:  # a branch on values, which torch.fx cannot follow
            return self.b(self.a(-x).mean(dim=(2, 3)))  # type: ignore[no-any-return]
        return self.b(torch.relu(self.a(x)).mean(dim=(2, 3)))  # type: ignore[no-any-return]


def test_what_cannot_be_refitted_stays_as_cut_and_is_said() -> None:
    record = reduce(_Untraceable(), _data("vgg"), by="magnitude", target="params:0.6", **QUICK).record
    assert record.refit is None
    assert record.measured.unfitted is None
    assert any(note.startswith("not refitted: _Untraceable: its data flow cannot be traced") for note in record.notes)
