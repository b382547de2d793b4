"""What is chosen where nothing is said, that it learns more than what was taken before, and who is left alone by it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import weightsmith
from weightsmith.data.datasets import load
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.resnet import resnet
from weightsmith.training.loop import train
from weightsmith.training.schedules import Span
from weightsmith.training.starting import starting
from weightsmith.training.stopping import EarlyStopping

LONG = Span(steps=100, epochs=10)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.mark.parametrize(
    ("network", "optimiser", "schedule"),
    [
        (resnet(20), "nesterov", "one-cycle:0.05"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)), "adamw", "one-cycle:0.003"),
        (mlp(4, 8, 2, batch_norm="before"), "adamw", "one-cycle:0.003"),
        (nn.LSTM(3, 4), "adamw", "one-cycle:0.003"),
    ],
)
def test_the_kind_of_network_decides(network, optimiser, schedule):
    choice = starting(network, LONG)
    assert (str(choice.optimiser), str(choice.schedule)) == (optimiser, schedule)
    assert str(choice.stop) == str(EarlyStopping(5, monitor="validation_accuracy"))
    assert "validation rows" in choice.reason


def test_a_longer_run_waits_longer_and_a_very_short_one_does_not_rise():
    assert starting(mlp(4, 2), Span(steps=9, epochs=40)).stop.patience == 20
    brief = starting(mlp(4, 2), Span(steps=19, epochs=1))
    assert str(brief.schedule) == "one-cycle:0.01,warm=0.0"
    assert "falls to almost 0 in a short run" in brief.reason
    peaks = [starting(mlp(4, 2), Span(steps=steps, epochs=10)).schedule.rate for steps in (50, 51)]
    assert peaks == [0.01, 0.003]  # in few steps only a high rate gets anywhere
    assert starting(mlp(4, 2), LONG, validation=False).stop is None


def test_the_record_says_what_was_chosen_and_why(digits):
    run = train("mlp:32", digits, validation=0.1, epochs=2)
    settings = run.record.settings
    assert (settings["optimiser"], settings["schedule"]) == ("adamw", "one-cycle:0.01")
    assert settings["stop"] == str(EarlyStopping(5, monitor="validation_accuracy"))
    assert any(note.startswith("chosen: adamw, one-cycle:0.01: ") for note in run.record.notes)
    assert train("mlp:32", digits, epochs=1).record.settings["stop"] is None  # nothing to watch: no row is taken away


@pytest.mark.parametrize(
    ("given", "optimiser", "schedule"),
    [
        ({"schedule": 0.05}, "momentum", "constant:0.05"),
        ({"optimiser": "momentum"}, "momentum", "constant:0.01"),
        ({"optimiser": "adam"}, "adam", "constant:0.001"),
    ],
)
def test_whoever_names_one_of_them_gets_that_and_nothing_else(digits, given, optimiser, schedule):
    run = train("mlp:8", digits, validation=0.1, epochs=1, **given)
    settings = run.record.settings
    assert (settings["optimiser"], settings["schedule"], settings["stop"]) == (optimiser, schedule, None)
    assert not any("chosen" in note for note in run.record.notes)


def test_a_stop_that_is_given_stays(digits):
    settings = train("mlp:8", digits, stop="early:3", epochs=1).record.settings
    assert (settings["optimiser"], settings["stop"]) == ("adamw", str(EarlyStopping(3)))


def test_a_trained_network_goes_on_at_a_low_rate(digits):
    first = train("mlp:8", digits, schedule=0.05, epochs=1).network
    settings = train(first, digits, epochs=1).record.settings
    assert (settings["optimiser"], settings["schedule"]) == ("momentum", "constant:0.01")


@pytest.mark.parametrize("network", ["mlp:16", "mlp:64,32", "mlp:64,32,activation=sigmoid"])
def test_it_learns_more_than_the_constant_rate_of_before(digits, network):
    for seed in range(3):
        chosen, before = (
            train(network, digits, epochs=5, seed=seed, **given).history.rows[-1].train_loss
            for given in ({}, {"optimiser": "momentum", "schedule": 0.01})
        )
        assert chosen < 0.8 * before


def test_a_folder_begun_before_there_was_a_choice_goes_on_as_it_began(digits, tmp_path):
    given = {"network": "mlp:8", "data": digits, "epochs": 2, "out": tmp_path / "run"}
    old = train(**given, optimiser="momentum", schedule=0.01)
    (tmp_path / "run" / "record.json").unlink()
    again = train(**given)
    assert again.record.to_json() == old.record.to_json()
    assert json.loads((tmp_path / "run" / "record.json").read_text())
    fresh = train("mlp:8", digits, epochs=2, out=tmp_path / "other")
    assert fresh.record.settings["optimiser"] == "adamw"
    assert train("mlp:8", digits, epochs=2, out=tmp_path / "other").record.to_json() == fresh.record.to_json()


def test_the_experiments_of_the_documents_state_optimiser_and_schedule():
    calls = []
    for path in (Path(weightsmith.__file__).parent / "papers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("train", "train_row", "train_once"):
                names = {keyword.arg for keyword in node.keywords}
                calls.append(path.name)
                passed_on = None in names  # **options, whose entries stand beside it
                assert passed_on or {"optimiser", "schedule"} <= names, f"{path.name}, line {node.lineno}"
    assert len(calls) > 8


def test_natural_images_are_told_apart_from_symbols():
    from weightsmith.data.augment import Augment, NoAugment
    from weightsmith.data.tensors import Split
    from weightsmith.training.suitability import augmentation_advice

    y = torch.zeros(2, dtype=torch.int64)
    colour, grey = Split(torch.zeros(2, 3, 32, 32), y), Split(torch.zeros(2, 1, 28, 28), y)
    assert "crop-flip:4" in augmentation_advice(resnet(20), colour, NoAugment())
    assert augmentation_advice(resnet(20), colour, Augment.parse("crop-flip:4")) is None
    assert augmentation_advice(resnet(20), grey, NoAugment()) is None
    assert augmentation_advice(mlp(3072, 10), colour, NoAugment()) is None
