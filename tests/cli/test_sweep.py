from __future__ import annotations

import csv
import io

import pytest

import weightsmith as ws
from weightsmith.cli import sweep as command
from weightsmith.cli.sweep import read_vary
from weightsmith.core.errors import OptionError
from weightsmith.training.sweeping import train_once

WORDS = ("sweep", "train", "digits", "--network", "mlp:8", "--epochs", 1, "--seeds", "0,1")


def test_values_to_vary():
    assert read_vary(["batch=16,32"]) == {"batch": (16, 32)}
    assert read_vary(["hidden=[8,8],[16]"]) == {"hidden": ((8, 8), (16,))}
    assert read_vary(["normalise=none,0.5/0.5"]) == {"normalise": ("none", "0.5/0.5")}
    for wrong, message in (
        (["rate"], "write a name and its values"),
        (["=1"], "write a name and its values"),
        (["rate="], "write a name and its values"),
        (["schedule=power:0.1,s=20"], "double quotes"),
        (["rate=1", "rate=2"], "names rate twice"),
    ):
        with pytest.raises(OptionError, match=message):
            read_vary(wrong)


def test_mean_and_spread_over_seeds(run, tmp_path):
    folder = tmp_path / "s"
    answer = run(*WORDS, "--vary", "rate=0.1,0.01", "--vary", "clip=none,norm:1", "--out", folder)
    assert answer.code == 0
    table = ws.SweepTable.from_json((folder / "record.json").read_text())
    assert len(table.rows) == 8
    found = list(csv.DictReader(io.StringIO((folder / "sweep.csv").read_text())))
    assert [float(row["test_accuracy"]) for row in found] == list(table.column("test_accuracy"))
    for summary in table.summary("test_accuracy"):
        assert f"{100 * summary.mean:.2f} ± {100 * summary.deviation:.2f} %" in answer.out
    best = max(table.summary("validation_accuracy"), key=lambda each: each.mean)
    marked = next(line for line in answer.out.splitlines() if "← best" in line)
    assert marked.split()[:2] == [str(best.setting["rate"]), str(best.setting["clip"] or "none")]
    assert "sweep: 8 of 8" in answer.err
    row = next(row for row in table.rows if (row["rate"], row["clip"], row["seed"]) == (0.01, "norm:1", 1))
    same = train_once(data="digits", seed=1, network="mlp:8", rate=0.01, clip="norm:1", epochs=1, validation=0.1)
    assert {name: row[name] for name in same} == same


def test_the_same_command_goes_on(run, tmp_path, monkeypatch):
    words = (*WORDS, "--vary", "width=4,8", "--out", tmp_path)
    whole = run(*words, "--json", "--quiet").out
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[:3]))
    from weightsmith.training import sweeping

    calls = []
    real = sweeping.train
    monkeypatch.setattr(sweeping, "train", lambda *a, **k: calls.append(k["seed"]) or real(*a, **k))
    assert run(*words, "--json", "--quiet").out == whole
    assert calls == [0, 1]
    other = run(*WORDS, "--vary", "width=4,8", "--batch", 64, "--out", tmp_path, "--quiet")
    assert (other.code, len(other.lines)) == (2, 1)
    assert "inputs.batch" in other.err


def test_an_interrupt_tells_how_to_go_on(run, tmp_path, monkeypatch):
    def interrupted(*_, on_row, **__):
        on_row({})
        raise KeyboardInterrupt

    monkeypatch.setattr("weightsmith.training.sweep.train_sweep", interrupted)
    answer = run(*WORDS, "--vary", "width=4,8", "--out", tmp_path)
    assert answer.code == 130
    assert f"1 of 4 runs are done; {tmp_path} keeps them" in answer.err
    assert "nothing is kept" in run(*WORDS, "--vary", "width=4,8").err


def test_runs_that_diverge_are_counted_and_not_averaged(run):
    answer = run(*WORDS, "--vary", "rate=1e30,0.1")
    lost, best = answer.out.split("Trainings")[1].splitlines()[2:4]
    assert answer.code == 0
    assert "2 of 2 diverged" in lost
    assert lost.split()[1:4] == ["–", "–", "–"]
    assert "← best" in best
    lost = run(*WORDS, "--vary", "rate=1e30,1e31", "--quiet")
    assert (lost.code, len(lost.lines)) == (1, 1)
    assert "every run diverged" in lost.err


def test_sick_gradients_are_told(run):
    deep = "[" + ",".join(["8"] * 12) + "]"
    answer = run(*WORDS, "--vary", f"hidden={deep}", "--vary", "activation=sigmoid,selu")
    sick, well = answer.out.split("Trainings")[1].splitlines()[2:4]
    assert "2 of 2 vanishing" in sick
    assert "vanishing" not in well


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--vary", "colour=1,2"), "unknown thing to vary 'colour'"),
        (("--vary", "activation=relu,slu"), "did you mean 'selu'"),
        (("--vary", "clip=nrm:1"), "did you mean 'norm'"),
        (("--vary", "rate=-1,1"), "rate must be > 0"),
        (("--vary", "width=4", "--seeds", "a"), "seeds are a list such as 0,1,2"),
        ((), "Missing option '--vary'"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, options, message):
    answer = run(*WORDS, *options, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err


def test_one_seed_has_no_spread(run):
    answer = run(*WORDS[:-1], "3-3", "--vary", "width=4")
    assert "±" not in answer.out
    assert "1 seed;" in answer.out


def test_the_group_without_a_command_shows_help(run):
    assert "Usage: weightsmith sweep" in run("sweep").out
    assert command.app.info.help in run("sweep").out
