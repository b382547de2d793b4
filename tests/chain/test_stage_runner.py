from __future__ import annotations

import json

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.chain.recipe import Recipe
from weightsmith.chain.stage_runner import StageContext, evaluate_given, run_stage
from weightsmith.chain.stages import VERBS
from weightsmith.core.verbs import parameters
from weightsmith.reducing.inspecting import AnglesRecord
from weightsmith.spiking.sweep.results import SpikeSweep

RECIPE = """
data = "digits"
[train]
network = "mlp:20,12"
optimiser = "adam"
schedule = 0.01
epochs = 3
keep = [1]
watch = ["alpha", "angles"]
[[grade]]
evidence = "none"
[[angles]]
angle = 40.0
[[reduce]]
name = "rewound"
by = "angles:45"
recover = "rewind:1"
random = 0
[[reduce]]
name = "planned"
by = "groups"
target = "params:0.6"
plan = "alpha"
random = 0
[[reduce]]
name = "priced"
by = "genetic:50,generations=3,population=6,rows=200"
price = "synaptic"
random = 0
[[spike]]
of = "planned"
steps = 8
watch = 0
test_rows = 60
[[sweep]]
of = "planned"
balance = "percentile"
leaks = [1.0]
resets = ["soft"]
factors = [1.0]
smoothings = [1.0]
steps = [8]
rows = 30
test_rows = 30
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    context = StageContext(Recipe.parse(RECIPE), ws.data.load("digits"), 0, tmp_path_factory.mktemp("chain"))
    made = {stage.name: run_stage(stage, context) for stage in context.recipe.stages}
    return context, made


def test_every_stage_leaves_its_record(context):
    context, made = context
    for name, found in made.items():
        text = (context.stage_folder(name) / "record.json").read_text()
        assert type(found.record).from_json(text) == found.record


def test_training_is_that_of_the_verb_with_a_tenth_held_out(context):
    context, made = context
    same = ws.train(
        "mlp:20,12", ws.data.load("digits"), optimiser="adam", schedule=0.01, epochs=3, validation=0.1, seed=0
    )
    assert made["train"].network == same.record.network
    assert {"alpha", "alpha/dense1", "redundant/dense1"} <= set(made["train"].record.history.columns)
    judged = json.loads((context.stage_folder("train") / "evaluation.json").read_text())
    assert judged["correct"] == ws.evaluate(same.network, "digits").correct


def test_links_give_what_they_give_by_hand(context):
    context, made = context
    network, data = ws.load(context.stage_folder("train")), ws.data.load("digits")
    plan = ws.alpha_plan(ws.grade(network, evidence="none"), keep=0.6)
    by_hand = ws.reduce(network, data, by="groups", target="params:0.6", plan=plan, latency=False, random=0)
    assert made["planned"].network == by_hand.record.result
    uniform = ws.reduce(network, data, by="groups", target="params:0.6", latency=False, random=0)
    assert made["planned"].network != uniform.record.result
    assert "price" in made["priced"].record.trace.fitness
    (again,) = made["rewound"].record.training
    assert [row.epoch for row in again.history.rows] == [1, 2, 3]


def test_angles_are_kept_as_arrays(context):
    context, made = context
    assert isinstance(made["angles"].record, AnglesRecord)
    degrees = np.load(context.stage_folder("angles") / "arrays.npz", allow_pickle=False)
    expected = ws.angles(ws.load(context.stage_folder("train")), "digits", angle=40).degrees("dense1")
    np.testing.assert_allclose(degrees["dense1"], expected, rtol=1e-6)


def test_later_stages_take_the_network_they_name(context):
    context, made = context
    assert made["spike"].record.origin.inputs["network"] == made["planned"].network
    assert made["grade"].record.source == "train"
    assert isinstance(made["sweep"].record, SpikeSweep)


def test_a_network_from_a_file_is_evaluated_as_it_is(tmp_path):
    data = ws.data.load("digits")
    run = ws.train("mlp:12", data, schedule=0.05, epochs=1)
    ws.save(run.network, tmp_path / "net.safetensors")
    recipe = Recipe.from_tables({"data": "digits", "network": str(tmp_path / "net.safetensors"), "grade": {}})
    context = StageContext(recipe, data, 0, tmp_path / "out")
    made = evaluate_given(context, context.stage_folder("given"))
    assert made.network == run.record.network
    assert made.record.correct == ws.evaluate(run.network, data).correct
    (stage,) = recipe.stages
    assert run_stage(stage, context).record.source == "net.safetensors"


def test_a_preset_brings_its_architecture_normalisation_and_penalty(tmp_path):
    recipe = Recipe.from_tables(
        {
            "data": "digits",
            "train": {"network": "mlp:12", "preset": "spike-ready", "epochs": 1, "penalties": ["l2:1e-4"]},
        }
    )
    context = StageContext(recipe, ws.data.load("digits"), 0, tmp_path)
    settings = run_stage(recipe.stages[0], context).record.settings
    assert "bias=false" in settings["network"]
    assert settings["penalties"] == ["l4-balance:1.0", "l2:0.0001"]
    assert settings["normalise"] == "0.5/0.5"


def test_progress_is_told_under_the_name_of_the_stage(tmp_path):
    calls = []
    recipe = Recipe.from_tables(
        {
            "data": "digits",
            "train": {"network": "mlp:8", "epochs": 1, "name": "first"},
            "spike": {"steps": 4, "watch": 0},
        }
    )
    context = StageContext(recipe, ws.data.load("digits"), 0, tmp_path, progress=lambda *step: calls.append(step))
    for stage in recipe.stages:
        run_stage(stage, context)
    assert {name.partition(":")[0] for name, _, _ in calls} == {"first", "spike"}
    assert all(0 <= done <= total for _, done, total in calls)


def test_what_surrounds_a_call_is_given_to_verbs_that_have_it(tmp_path):
    recipe = Recipe.parse(RECIPE)
    context = StageContext(recipe, ws.data.load("digits"), 7, tmp_path, threads=2, device="meta")
    whole = {"seed": 7, "threads": 2, "device": "meta"}
    assert context.surrounding(ws.grade) == whole
    assert context.surrounding(ws.spike) == {name: whole[name] for name in ("seed", "device")}
    for function in VERBS.values():
        around = {name for name, each in parameters(function).items() if each.doc.surrounds}
        around -= {"workers", "cluster"}  # those of the pipeline hold for all that it calls
        assert set(context.surrounding(function)) == around
