from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.training.finder import RateCurve, find_rate
from weightsmith.training.schedules import Power, Span

WORDS = ("train", "digits", "--network", "mlp:16")


def test_check_shows_the_run_and_trains_nothing(run, tmp_path):
    answer = run(*WORDS, "--schedule", "power:0.1,s=20", "--clip", "norm:2", "--check", "--out", tmp_path / "x")
    assert answer.code == 0
    assert not (tmp_path / "x").exists()
    assert "1,293 to train on, 144 for validation; 41 steps of 32 in each of 10 epochs" in answer.out
    span = Span(41, 10)
    for step in (0, 409):
        assert f"{Power(0.1, 20).at(step, span):.3g} at step {step}" in answer.out
    assert "clip        norm:threshold=2.0" in answer.out


def test_check_says_what_is_chosen_where_nothing_is_said_and_why(run):
    words = " ".join(run(*WORDS[:4], "--check").out.split())
    assert "optimiser adamw" in words
    assert "schedule one-cycle:0.003" in words
    assert "chosen: adamw, one-cycle:0.003" in words
    assert "the best weights on the validation rows are kept" in words


def test_check_ends_with_code_1_where_something_looks_wrong(run):
    answer = run(*WORDS, "--schedule", "exponential:0.1,s=5", "--check")
    assert answer.code == 1
    assert "hardly learns" in answer.out
    assert answer.err == "weightsmith: 1 warning before training; nothing was trained\n"
    printed = run(*WORDS, "--schedule", "exponential:0.1,s=5", "--check", "--json")
    facts = json.loads(printed.out)
    assert (printed.code, len(facts["warnings"]), facts["steps_per_epoch"]) == (1, 1, 41)
    assert facts["settings"]["schedule"] == "exponential:0.1,5.0"
    assert facts["rates"]["0"] == 0.1


def test_the_rate_that_is_suggested_is_that_of_the_library(run, tmp_path):
    answer = run(*WORDS, "--find-rate", "--out", tmp_path)
    curve = RateCurve.from_json((tmp_path / "rates.json").read_text())
    assert curve == find_rate("mlp:16", ws.data.load("digits").with_validation(0.1))
    assert answer.code == 0
    assert f"suggestion  {curve.suggestion:.2g}, where the loss falls most steeply" in answer.out
    assert f"--schedule {curve.suggestion:.2g}" in answer.out
    assert (tmp_path / "rates.svg").exists()
    assert RateCurve.from_dict(json.loads(run(*WORDS, "--find-rate", "--json").out)) == curve


@pytest.mark.parametrize("options", [("--json",), ()])
def test_no_suggestion_is_code_1(run, tmp_path, options):
    # Inputs without any relation to the labels: the loss falls nowhere.
    rows = "\n".join(f"{i % 2},{(i * 7919) % 13},{(i * 104729) % 11}" for i in range(200))
    (tmp_path / "t.csv").write_text("label,a,b\n" + rows + "\n")
    answer = run("train", tmp_path / "t.csv", "--network", "mlp:4", "--optimiser", "sgd", "--find-rate", *options)
    assert answer.code == 1
    assert "no rate is suggested" in answer.err
