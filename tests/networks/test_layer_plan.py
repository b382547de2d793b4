from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import FileRefused, OptionError, UnknownName, UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.networks.layer_plan import LayerPlan, norm_plan


@pytest.fixture
def network():
    made = ws.networks.mlp(6, 4, 4, 2, seed=0)
    for layer, scale in (("dense1", 1.0), ("dense2", 2.0), ("output", 3.0)):
        weight = made.get_submodule(layer).weight.data
        weight.copy_(scale * torch.where(torch.arange(weight.numel()).reshape(weight.shape) % 2 == 0, 1.0, -1.0))
    return made


def test_a_uniform_plan_keeps_the_same_of_every_layer(network):
    plan = LayerPlan.uniform(network, 0.3)
    assert plan.values == {"dense1": 0.3, "dense2": 0.3, "output": 0.3}
    assert plan.parameters == {"dense1": 24, "dense2": 16, "output": 8}
    assert (plan.source, plan.target, plan.unscored) == ("uniform", 0.3, ())
    assert plan.mean == pytest.approx(0.3, abs=1e-15)
    assert plan.origin.inputs == {"network": weights_digest(network)}


def test_the_norm_plan_in_closed_form(network):
    # Root mean squares 1, 2, 3 → ratios 0.4, 0.5, 0.6; their mean over 24, 16, 8 parameters is 22.4/48.
    plan = norm_plan(network, 0.5, spread=0.2)
    factor = 0.5 / (22.4 / 48)
    assert list(plan.values.values()) == pytest.approx([0.4 * factor, 0.5 * factor, 0.6 * factor], rel=1e-6)
    assert plan.mean == pytest.approx(0.5, abs=1e-12)
    assert plan.source == "root mean square of the weights, spread 0.2"


def test_what_would_exceed_the_whole_layer_stays_whole():
    # Ratios 0.4 and 1.2 of equal sizes: the second is cut to 1, so the first takes 0.6.
    plan = LayerPlan.from_scores({"a": 0, "b": 1}, {"a": 10, "b": 10}, keep=0.8, spread=0.5, source="test")
    assert plan.values == pytest.approx({"a": 0.6, "b": 1.0})


def test_a_layer_without_a_score_keeps_the_target_and_is_named(network):
    network.dense2.weight.data[1, 1] = math.nan
    plan = norm_plan(network, 0.5)
    assert plan.values["dense2"] == 0.5
    assert plan.unscored == ("dense2",)
    assert plan.values["dense1"] < 0.5 < plan.values["output"]
    assert plan.mean == pytest.approx(0.5, abs=1e-12)


def test_a_zero_layer_keeps_least(network):
    network.dense2.weight.data.zero_()
    plan = norm_plan(network, 0.5)
    assert min(plan.values, key=plan.values.get) == "dense2"
    assert plan.unscored == ()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_the_weights_plays_no_part(network, scale):
    before = norm_plan(network)
    with torch.no_grad():
        for weight in (network.dense1.weight, network.dense2.weight, network.output.weight):
            weight.mul_(scale)
    assert norm_plan(network).values == pytest.approx(before.values, rel=1e-5)


def test_equal_scores_give_the_uniform_plan():
    plan = LayerPlan.from_scores(
        {"a": 2.0, "b": 2.0, "c": None}, {"a": 1, "b": 5, "c": 7}, keep=0.4, spread=0.9, source=""
    )
    assert plan.values == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.4}, abs=1e-15)
    assert plan.unscored == ("c",)


@given(
    layers=st.lists(st.tuples(st.none() | st.floats(0, 100), st.integers(0, 10**6)), min_size=1, max_size=30).filter(
        lambda layers: any(size for _, size in layers)
    ),
    keep=st.floats(0.001, 1),
    spread=st.floats(0, 0.99),
)
def test_any_plan_keeps_its_target_in_the_order_of_the_scores(layers, keep, spread):
    scores = {f"layer{i}": score for i, (score, _) in enumerate(layers)}
    sizes = {f"layer{i}": size for i, (_, size) in enumerate(layers)}
    plan = LayerPlan.from_scores(scores, sizes, keep=keep, spread=spread, source="test")
    assert all(0 < share <= 1 for share in plan.values.values())
    scored = [name for name, score in scores.items() if score is not None]
    if any(sizes[name] for name in scored) or not scored:
        assert plan.mean == pytest.approx(keep, rel=1e-9)
    for one in scored:
        for other in scored:
            if scores[one] < scores[other]:
                assert plan.values[one] <= plan.values[other] * (1 + 1e-12)
    assert LayerPlan.from_json(plan.to_json()) == plan


def test_tied_weights_are_counted_once_and_kept_alike():
    network = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 2))
    network[1].weight = network[0].weight
    plan = norm_plan(network, 0.5)
    assert sum(plan.parameters.values()) == 35
    shares = [plan.values[name] for name in plan.values if name != "2"]
    assert len(set(shares)) == 1
    assert plan.mean == pytest.approx(0.5, abs=1e-12)


def test_module_state_dict_and_file_give_the_same_plan(network, tmp_path):
    path = ws.save(network, tmp_path / "n.safetensors")
    assert norm_plan(network) == norm_plan(network.state_dict()) == norm_plan(path) == norm_plan(str(path))


def test_what_has_no_values_is_passed_over():
    network = nn.Sequential(nn.Linear(8, 8), nn.LazyLinear(4))
    assert list(LayerPlan.uniform(network).values) == list(norm_plan(network).values) == ["0"]
    state = {**ws.networks.mlp(4, 3, 2).state_dict(), "epoch": 7}
    assert len(norm_plan(state).values) == 2


def test_only_the_layers_asked_for(network):
    assert list(LayerPlan.uniform(network, layers="dense*").values) == ["dense1", "dense2"]
    assert list(norm_plan(network, layers="dense*").values) == ["dense1", "dense2"]
    with pytest.raises(UnknownName):
        LayerPlan.uniform(network, layers="conv*")


def test_saved_and_loaded_it_is_the_same(network, tmp_path):
    plan = norm_plan(network)
    path = plan.save(tmp_path / "plans" / "norm.json")
    assert LayerPlan.load(path) == plan
    assert json.loads(path.read_text())["target"] == 0.5


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"values": {"a": 2.0}}', "\ud800", "[" * 100_000])
def test_a_file_that_is_no_plan_is_refused(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_bytes(content.encode(errors="surrogatepass"))
    with pytest.raises(FileRefused, match="is not a plan of layers"):
        LayerPlan.load(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileRefused, match="no such file"):
        LayerPlan.load(tmp_path / "gone.json")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"values": {"a": 0.0}}, "the share kept of a must be > 0 and ≤ 1, not 0.0"),
        ({"values": {"a": 1.1}}, "the share kept of a must be"),
        ({"values": {"a": math.nan}}, "the share kept of a must be"),
        ({"target": 0.0}, "the target of a plan must be"),
        ({"parameters": {"b": 1}}, "'a' is not in all of its parts"),
        ({"unscored": ("c",)}, "'c' is not in all of its parts"),
        ({"values": {}, "parameters": {}}, "there are no layers"),
    ],
)
def test_a_plan_that_makes_no_sense_cannot_be_made(fields, message):
    whole = {"values": {"a": 0.5}, "parameters": {"a": 3}, "source": "test", "target": 0.5, **fields}
    with pytest.raises(UsageError, match=message):
        LayerPlan(**whole)


@pytest.mark.parametrize("values", [{"keep": 0}, {"keep": 1.5}, {"spread": 1}, {"spread": -0.1}])
def test_options_out_of_range_are_named(network, values):
    with pytest.raises(OptionError, match=f"{next(iter(values))} must be"):
        norm_plan(network, **values)
