from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

import weightsmith as ws
from weightsmith.cli import train as command
from weightsmith.cli.training_view import View
from weightsmith.core.statistics import wilson
from weightsmith.networks import Evaluation
from weightsmith.training.loop import train
from weightsmith.training.run import TrainRecord

SMALL = ("train", "digits", "--network", "mlp:16", "--schedule", "0.05", "--epochs", 2)


def test_the_run_is_that_of_the_library(run, tmp_path):
    options = ("--optimiser", "nesterov", "--clip", "norm:1", "--stop", "early:3", "--penalties", "l1:1e-5")
    more = ("--penalties", "l2:1e-4", "--batch", 64, "--seed", 5, "--validation", 0.2, "--normalise", "0.5/0.5")
    answer = run(*SMALL, *options, *more, "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    report = json.loads(answer.out)
    same = train(
        "mlp:16",
        ws.data.load("digits"),
        validation=0.2,
        optimiser="nesterov",
        schedule=0.05,
        clip="norm:1",
        stop="early:3",
        penalties=["l1:1e-5", "l2:1e-4"],
        batch=64,
        epochs=2,
        seed=5,
        normalise="0.5/0.5",
    )
    assert TrainRecord.from_dict(report["record"]) == same.record
    assert Evaluation.from_dict(report["test"]) == ws.evaluate(
        same.network, ws.data.load("digits").with_validation(0.2, seed=5)
    )
    last = same.history.rows[-1]
    assert report["validation"]["accuracy"]["value"] == pytest.approx(last.validation_accuracy)
    assert report["files"] == []


def test_what_is_printed(run):
    answer = run(*SMALL)
    assert answer.code == 0
    assert answer.lines[0] == "validation split: 144 of 1437 training rows, stratified, seed 0"
    assert [line.split(":")[0] for line in answer.lines[1:]] == ["epoch 1 of 2", "epoch 2 of 2"]
    report = json.loads(run(*SMALL, "--json", "--quiet").out)
    correct, images = report["test"]["correct"], report["test"]["images"]
    interval = wilson(correct, images)
    shown = f"{100 * interval.value:.1f} % [{100 * interval.low:.1f}, {100 * interval.high:.1f}] of 360 rows (test)"
    for text in (shown, "144 rows", "ran for 2 epochs", "healthy in all 2 layers", "The best by", "try next", "mlp:16"):
        assert text in answer.out


def test_the_folder_of_a_run(run, tmp_path):
    folder = tmp_path / "run"
    answer = run(*SMALL, "--keep", "0,1", "--out", folder)
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {
        "checkpoint.safetensors",
        "curves.svg",
        "epoch-0000.safetensors",
        "epoch-0001.safetensors",
        "evaluation.json",
        "gradients.svg",
        "history.csv",
        "journal.jsonl",
        "network.safetensors",
        "record.json",
    }
    assert all(name in answer.out for name in names)
    result = Evaluation.from_json((folder / "evaluation.json").read_text())
    assert ws.evaluate(ws.load(folder), ws.data.load("digits")).confusion == result.confusion
    assert (folder / "curves.svg").read_text().startswith("<?xml")
    assert run("evaluate", folder, "--data", "digits", "--quiet").code == 0
    assert "trained on digits" in run("log", folder).out


def test_an_interrupted_run_goes_on_with_the_same_command(run, tmp_path, monkeypatch):
    words = (*SMALL[:-1], 3, "--figures", "none", "--out")
    run(*words, tmp_path / "whole")

    @contextmanager
    def interrupted(quiet):
        def after(end):
            if end.row.epoch == 3:
                raise KeyboardInterrupt

        yield View(None, (after,))

    with monkeypatch.context() as patched:
        patched.setattr(command, "training_view", interrupted)
        answer = run(*words, tmp_path / "parts")
    assert answer.code == 130
    assert f"finished epochs are kept in {tmp_path / 'parts'}: the same command resumes" in answer.err
    assert not (tmp_path / "parts" / "record.json").exists()
    again = run(*words, tmp_path / "parts")
    assert again.code == 0
    assert "resuming after epoch 2" in again.err
    assert "epoch 3 of 3" in again.err
    assert "epoch 2 of 3" not in again.err
    for name in ("network.safetensors", "record.json", "history.csv"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interrupt_without_a_folder_says_that_nothing_is_kept(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("weightsmith.training.loop.train", interrupted)
    answer = run(*SMALL)
    assert answer.code == 130
    assert "nothing is kept without --out" in answer.err


def test_a_folder_takes_one_run_only(run, tmp_path):
    run(*SMALL, "--out", tmp_path, "--figures", "none")
    answer = run(*SMALL, "--seed", 1, "--out", tmp_path, "--quiet")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert "belongs to another call" in answer.err


def test_warnings_are_notes_before_the_work(run):
    answer = run(*SMALL[:-4], "--schedule", "exponential:0.1,s=5", "--epochs", 2)
    assert answer.code == 0
    warning = next(index for index, line in enumerate(answer.lines) if line.startswith("warning: exponential:0.1,5.0"))
    assert warning < next(index for index, line in enumerate(answer.lines) if line.startswith("epoch 1"))
    assert "hardly learns" in answer.err


def test_a_run_that_diverges_ends_with_code_1(run):
    answer = run(*SMALL[:-4], "--schedule", 1e30, "--epochs", 2)
    assert answer.code == 1
    assert answer.lines[-1].startswith("weightsmith: the loss is NaN or infinite in epoch 1")
    assert "The network has the weights from before training" in answer.out
    assert "--find-rate" in answer.out


def test_validation_by_default_none_and_as_asked(run):
    assert "144 of 1437" in run(*SMALL).err
    without = json.loads(run(*SMALL, "--validation", 0, "--json", "--quiet").out)
    assert without["record"]["history"]["rows"][0]["validation_loss"] is None
    assert "validation" not in without
    assert "719 of 1437" in run(*SMALL, "--validation", 0.5).err


def test_a_preset_says_what_it_changed(run, tmp_path):
    answer = run("train", "digits", "--network", "mlp:8,activation=elu", "--epochs", 1, "--preset", "spike-ready")
    assert answer.code == 0
    assert "spike-ready: activation=elu became relu" in answer.err
    for text in ("mlp:8,bias=false", "normalised by 0.5/0.5", "l4-balance"):
        assert text in answer.out
    assert run(*SMALL, "--preset", "spike").code == 2
    file = ws.save(ws.networks.mlp(64, 10), tmp_path / "n.safetensors")
    refused = run("train", "digits", "--network", file, "--preset", "spike-ready", "--quiet")
    assert (refused.code, "cannot take the file" in refused.err) == (2, True)


def test_training_goes_on_from_a_file_with_its_normalisation(run, tmp_path):
    run(*SMALL, "--normalise", "0.5/0.5", "--out", tmp_path / "a", "--figures", "none")
    words = ("train", "digits", "--network", tmp_path / "a", "--epochs", 1, "--json", "--quiet")
    report = json.loads(run(*words).out)
    assert report["record"]["settings"]["normalise"] == "0.5/0.5"
    before = json.loads((tmp_path / "a" / "record.json").read_text())
    assert report["record"]["history"]["rows"][0]["train_loss"] < before["history"]["rows"][0]["train_loss"]


def test_fewer_classes_than_outputs_are_judged_as_they_were_learnt(run, tmp_path):
    """Classes called 3 and 7, in a network without names: its first two outputs learn them, not those numbers."""
    rows = "".join(f"{3 * (row % 2)},{row % 5},{'37'[row % 2]}\n" for row in range(60))
    (tmp_path / "rows.csv").write_text(f"x,y,label\n{rows}")
    ws.save(ws.networks.build("mlp:8", input_shape=(2,), classes=10, seed=0), tmp_path / "net.safetensors")
    words = (
        "train",
        f"table:{tmp_path / 'rows.csv'},test=0.3",
        "--network",
        tmp_path / "net.safetensors",
        "--epochs",
        20,
    )
    answer = run(*words, "--out", tmp_path / "run", "--figures", "none", "--json", "--quiet")
    assert answer.code == 0
    assert "the data have 2 classes, the network 10 outputs" in answer.err
    report = json.loads(answer.out)
    assert report["test"]["accuracy"]["value"] == 1
    assert report["test"]["classes"] == ["3", "7", *(f"output {number}" for number in range(2, 10))]
    assert run("evaluate", tmp_path / "run", "--data", words[1]).code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--optimiser", "adm"), "did you mean 'adam'"),
        (("--schedule", "powr:0.1,20"), "did you mean 'power'"),
        (("--clip", "nrm:1"), "did you mean 'norm'"),
        (("--stop", "erly"), "did you mean 'early'"),
        (("--penalties", "l3:1"), "unknown penalty 'l3'"),
        (("--network", "mpl:3"), "did you mean 'mlp'"),
        (("--keep", "0,x"), "--keep must be a whole number ≥ 0, not 'x'"),
        (("--keep", "7"), "keep names the epoch 7"),
        (("--validation", "1"), "--validation"),
        (("--batch", "0"), "--batch"),
        (("--device", "moon"), "device 'moon'"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, options, message):
    answer = run("train", "digits", "--network", "mlp:4", "--epochs", 1, "--quiet", *options)
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err


def test_none_is_the_absence_of_an_option(run):
    words = ("--clip", "none", "--stop", "none", "--schedule", "none", "--augment", "none", "--optimiser", "momentum")
    settings = json.loads(run(*SMALL[:4], "--epochs", 1, *words, "--json", "--quiet").out)["record"]["settings"]
    assert (settings["clip"], settings["stop"], settings["schedule"]) == (None, None, "constant:0.01")


def test_tensorboard_gets_every_epoch(run, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    report = json.loads(run(*SMALL, "--tensorboard", tmp_path / "log", "--json", "--quiet").out)
    events = EventAccumulator(str(tmp_path / "log")).Reload()
    written = [(event.step, event.value) for event in events.Scalars("validation_loss")]
    rows = report["record"]["history"]["rows"]
    assert written == [(row["epoch"], pytest.approx(row["validation_loss"])) for row in rows]


@pytest.mark.slow
def test_two_processes_train_one_network_and_one_of_them_speaks(run, tmp_path):
    alone = json.loads(run(*SMALL, "--json", "--quiet").out)
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "weightsmith"]
    words = [*map(str, SMALL), "--json", "--quiet", "--out", str(tmp_path / "two"), "--figures", "none"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run([*start, *words], capture_output=True, text=True, check=True, env=environment)
    report = json.loads(answer.stdout)
    losses = [[row["train_loss"] for row in each["record"]["history"]["rows"]] for each in (alone, report)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert (tmp_path / "two" / "network.safetensors").exists()


def test_what_is_watched_stands_in_the_history(run, tmp_path):
    options = ("--network", "mlp:16", "--epochs", 2, "--figures", "none", "--quiet")
    assert run("train", "digits", *options, "--out", tmp_path / "plain").code == 0
    answer = run("train", "digits", *options, "--watch", "alpha,angles", "--out", tmp_path / "seen")
    assert answer.code == 0
    head = (tmp_path / "seen" / "history.csv").read_text().splitlines()[0]
    assert "alpha/dense1" in head
    assert "redundant/dense1" in head
    weights = [(tmp_path / name / "network.safetensors").read_bytes() for name in ("plain", "seen")]
    assert weights[0] == weights[1]
    assert (
        "--watch must be one of alpha, angles, rates, not 'alfa'"
        in run("train", "digits", *options, "--watch", "alfa").err
    )
