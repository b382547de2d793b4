from __future__ import annotations

import inspect

import pytest

import weightsmith as ws
from weightsmith.chain.stages import KINDS, VERBS, Stage, checked, uses_search
from weightsmith.core.errors import UnknownName, UsageError

LINKS = {("train", "preset"), ("train", "watch")}  # options of a recipe that are none of the verb


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_one_of_the_verb(kind):
    known = inspect.signature(VERBS[kind]).parameters
    assert [key for key in KINDS[kind] if key not in known and (kind, key) not in LINKS] == []


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("grade", {"normalise", "method", "base"}), ("angles", {"centre", "short"}), ("sweep", {"delay", "mean_rows"})],
)
def test_a_recipe_can_set_what_the_verb_can(kind, keys):
    assert keys <= set(KINDS[kind])


def test_what_surrounds_a_call_and_functions_are_no_options_of_a_stage():
    every = {key for options in KINDS.values() for key in options}
    assert not every & {
        "seed",
        "threads",
        "device",
        "workers",
        "cluster",
        "out",
        "progress",
        "hooks",
        "fitness",
        "latency",
    }


@pytest.mark.parametrize(
    ("kind", "key", "given", "kept"),
    [
        ("train", "clip", "none", None),
        ("grade", "evidence", "none", "none"),
        ("train", "penalties", "l2:1e-4", ["l2:0.0001"]),
        ("train", "schedule", 0.05, "constant:0.05"),
        ("train", "network", "mypackage.nets:build", "mypackage.nets:build"),
        ("reduce", "layers", "dense*", ["dense*"]),
        ("spike", "neuron", "lif:0.95,reset=hard", "lif:0.95,reset=hard"),
        ("sweep", "steps", 75, [75]),
        ("reduce", "by", ws.Groups(), "groups"),
        ("train", "schedule", ws.Cosine(0.1), "cosine:0.1"),
        ("train", "network", ws.spike_ready("mlp:8").architecture, "mlp:8,bias=false"),
        ("spike", "adjust", ws.L4(1.0), "l4:1.0"),
    ],
)
def test_values_are_kept_in_their_shortest_form(kind, key, given, kept):
    assert checked(kind, key, given) == kept


@pytest.mark.parametrize(
    ("kind", "key", "given", "said"),
    [
        ("train", "diagnose", 1, "true or false"),
        ("train", "validation", 1.0, "must be a number ≥ 0, < 1, not 1.0"),
        ("train", "validation", True, "must be a number ≥ 0, < 1, not True"),
        ("train", "schedule", "cosine:-1", "rate"),
        ("reduce", "scratch", "rewind:2", "fine-tune"),
        ("spike", "steps", 2.5, "whole number"),
        ("spike", "precision", "int4", "int8"),
        ("grade", "evidence", "", "unknown evidence"),
        ("reduce", "by", ws.Cosine(0.1), "method must be one of"),
    ],
)
def test_wrong_values_are_named(kind, key, given, said):
    with pytest.raises(UsageError, match=said):
        checked(kind, key, given)


def test_an_unknown_option_suggests_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'recover'"):
        checked("reduce", "recovery", "fine-tune:3")


def test_only_searches_have_a_price():
    assert uses_search(Stage("reduce", "a", None, {"by": "pareto"}))
    assert not uses_search(Stage("reduce", "a", None, {"by": "angles:45"}))
