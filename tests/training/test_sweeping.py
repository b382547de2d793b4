from __future__ import annotations

import dataclasses
import pickle
import warnings
from pathlib import Path

import pytest
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.networks.models.mlp import Mlp
from weightsmith.training import sweeping
from weightsmith.training.clipping import ClipNorm
from weightsmith.training.loop import train
from weightsmith.training.schedules import Piecewise
from weightsmith.training.sweep import train_sweep
from weightsmith.training.sweeping import train_once, training_options


@pytest.mark.parametrize(
    ("setting", "network"),
    [
        ({"width": 20}, "mlp:20,20"),
        ({"depth": 3}, "mlp:50,50,50"),
        ({"width": 8, "depth": 1}, "mlp:8"),
        ({"depth": 2, "dropout": 0.5}, "mlp:50,50,dropout=0.5"),
        ({"hidden": (3, 4)}, "mlp:3,4"),
        ({"activation": "selu"}, "mlp:50,50,activation=selu"),
        ({"batch_norm": "before"}, "mlp:50,50,batch_norm=before"),
    ],
)
def test_words_for_the_shape_of_a_network(setting, network):
    assert str(training_options({"network": "mlp:50,50", **setting})["network"]) == network
    assert str(training_options({"network": Mlp((50, 50)), **setting})["network"]) == network


@pytest.mark.parametrize(
    ("schedule", "meant"),
    [
        (None, "constant:0.3"),
        (0.1, "constant:0.3"),
        ("0.1", "constant:0.3"),
        ("power:0.1,20", "power:0.3,20.0"),
        ("one-cycle:0.1", "one-cycle:0.3"),
        ("plateau:0.1,patience=2", "plateau:0.3,patience=2"),
    ],
)
def test_the_rate_is_that_of_the_schedule_whichever_it_is(schedule, meant):
    made = training_options({"network": "mlp:5", "schedule": schedule, "optimiser": "adam", "rate": 0.3})
    assert str(made["schedule"]) == meant


def test_a_penalty_comes_beside_those_that_are_fixed():
    for fixed, meant in (((), ("l2:1",)), ("l1:1", ("l1:1", "l2:1")), (["l1:1"], ("l1:1", "l2:1"))):
        assert training_options({"network": "mlp:5", "penalties": fixed, "penalty": "l2:1"})["penalties"] == meant
    assert training_options({"network": "mlp:5", "penalties": ("l1:1",), "penalty": None})["penalties"] == ("l1:1",)


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ({"network": "mlp:5", "actvation": "relu"}, UnknownName, "did you mean 'activation'"),
        ({"network": "mlp:5,6", "depth": 3}, UsageError, "width must be given beside depth"),
        ({"network": "vgg:11", "width": 3}, UsageError, "those of an mlp, not of vgg"),
        ({"network": Path(__file__), "width": 3}, UsageError, "is no architecture, so width cannot be varied"),
        ({"network": "mlp:5", "schedule": Piecewise((1, 0.1), (5,)), "rate": 1.0}, OptionError, "no single rate"),
        ({"rate": 0.1}, UsageError, "a network is needed"),
    ],
)
def test_what_cannot_be_varied_is_named(setting, error, message):
    with pytest.raises(error, match=message):
        training_options(setting)


def test_a_wrong_value_is_reported_before_the_first_run(monkeypatch):
    monkeypatch.setattr("weightsmith.training.sweeping.train_once", None)
    for setting in ({"clip": "nrm:1"}, {"batch": 0}, {"network": "mpl:5"}, {"activation": "rlu"}, {"schedule": -1.0}):
        with pytest.raises(UsageError):
            train_sweep("digits", [{"width": 5}, {"width": 6, **setting}], network="mlp:5")


def test_a_row_is_what_the_run_says():
    data = ws.data.load("digits")
    options = {"schedule": 0.1, "stop": "early:1", "epochs": 6, "validation": 0.1}
    row = train_once(data="digits", seed=2, network="mlp:12", clip=ClipNorm(1.0), **options)
    run = train("mlp:12", data, clip="norm:1", seed=2, **options)
    losses, accuracies = run.history.column("validation_loss"), run.history.column("validation_accuracy")
    test = ws.evaluate(run.network, data)
    assert row == {
        "epochs": len(losses),
        "stopped": run.stopped.value,
        "restored": run.record.restored,
        "train_loss": run.history.rows[-1].train_loss,
        "train_accuracy": run.history.rows[-1].train_accuracy,
        "validation_loss": losses[-1],
        "validation_accuracy": accuracies[-1],
        "best_validation_loss": min(losses),
        "best_validation_accuracy": max(accuracies),
        "test_accuracy": test.accuracy.value,
        "test_correct": test.correct,
        "test_images": 360,
        "gradients": "healthy",
        "parameters": 64 * 12 + 12 + 12 * 10 + 10,
        "warnings": None,
    }


def test_a_run_that_diverged_has_no_figures():
    row = train_once(data="digits", seed=0, network="mlp:8", rate=1e30, epochs=2, validation=0.1)
    assert row["stopped"] == "diverged"
    measured = [name for name in row if "loss" in name or "accuracy" in name or "test" in name]
    assert len(measured) == 9
    assert all(row[name] is None for name in measured)


def test_warnings_stand_in_the_row_and_nowhere_else():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = train_once(data="digits", seed=0, network="mlp:8", schedule="exponential:0.1,5", epochs=1)
    assert "hardly learns" in row["warnings"]
    assert row["validation_accuracy"] is None  # none was asked for


def test_data_without_a_test_split():
    data = dataclasses.replace(ws.data.load("digits"), test=None)
    row = train_once(data=data, seed=0, network="mlp:4", epochs=1, validation=0.2)
    assert (row["test_accuracy"], row["test_images"]) == (None, None)
    assert row["validation_accuracy"] > 0


def test_a_setting_wins_over_what_is_fixed_and_the_journal_knows_both(tmp_path):
    journal = tmp_path / "j.jsonl"
    settings = [{"batch": 64, "width": 4}, {"batch": 32, "width": 4}]
    table = train_sweep("digits", settings, network="mlp:9", batch=16, epochs=1, seeds=(0,), journal=journal)
    assert table.column("parameters") == (64 * 4 + 4 + 4 * 10 + 10,) * 2
    assert len(set(table.column("train_loss"))) == 2
    again = train_sweep("digits", settings, network="mlp:9", batch=16, epochs=1, seeds=(0,), journal=journal)
    assert again.to_json() == table.to_json()
    with pytest.raises(UsageError, match=r"inputs\.epochs"):
        train_sweep("digits", settings, network="mlp:9", batch=16, epochs=2, seeds=(0,), journal=journal)


def test_data_are_read_once_and_noticed_when_they_change(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("label,a,b\n" + "".join(f"{i % 2},{i},{i % 3}\n" for i in range(40)))
    reads, real = [], sweeping.load_all
    monkeypatch.setattr(sweeping, "load_all", lambda *a, **k: reads.append(a) or real(*a, **k))
    settings = {"network": "mlp:3", "epochs": 1}
    digest = real(path).digest()
    for seed in (0, 1):
        train_once(data=path, seed=seed, digest=digest, **settings)
    assert len(reads) == 1
    path.write_text("label,a,b\n" + "".join(f"{i % 2},{i * i},{i % 3}\n" for i in range(40)))
    assert train_once(data=path, seed=0, **settings) != train_once(data=path, seed=0, digest=digest, **settings)
    with pytest.raises(DataMismatch, match="has changed since the sweep began"):
        train_once(data=str(path), seed=0, digest=digest, **settings)


def square(scores, labels):
    return (scores**2).mean() + nn.functional.cross_entropy(scores, labels)


def test_the_journal_knows_networks_by_their_weights_and_functions_by_their_names(tmp_path):
    words = {"data": "digits", "settings": [{"batch": 64}], "epochs": 1, "journal": tmp_path / "j.jsonl"}
    first = train_sweep(**words, network=ws.networks.mlp(64, 4, 10, seed=1), loss=square)
    assert "test_sweeping.square " in first.origin.inputs["loss"]
    assert train_sweep(**words, network=ws.networks.mlp(64, 4, 10, seed=1), loss=square) == first
    with pytest.raises(UsageError, match=r"inputs\.network"):
        train_sweep(**words, network=ws.networks.mlp(64, 4, 10, seed=2), loss=square)


@pytest.mark.slow
def test_the_same_bytes_on_two_workers():
    settings = [{"rate": 0.1}, {"rate": 0.01}]
    tables = [
        train_sweep("digits", settings, network="mlp:9,dropout=0.2", seeds=(0, 1), epochs=1, workers=workers)
        for workers in (1, 2)
    ]
    assert tables[0].to_json() == tables[1].to_json()
    pickle.dumps(train_once)
