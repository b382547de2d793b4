from __future__ import annotations

import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

import weightsmith as ws
from weightsmith.chain import _running as module
from weightsmith.chain.pipeline import pipeline
from weightsmith.chain.results import ChainRecord
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.journal import Journal
from weightsmith.reducing.results import ReductionRecord

RECIPE = """
data = "digits"
report = false
[train]
network = "mlp:20,12,bias=false"
optimiser = "adam"
schedule = 0.01
epochs = 4
keep = [1]
watch = ["alpha"]
[[grade]]
evidence = "fast"
[[angles]]
[[reduce]]
name = "small"
by = "angles:45"
recover = "fine-tune:2"
random = 3
[[reduce]]
name = "searched"
by = "genetic:50,generations=12,population=12,rows=300"
price = "synaptic"
random = 3
[[spike]]
of = "small"
encode = "poisson"
adjust = "l4:1.0"
steps = 12
"""
DURATIONS = "journal.jsonl"  # the one place for them


def files(folder):
    """Every file of a chain by its name, but for what tells how long things took, and what was not finished."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != DURATIONS and path.suffix not in (".lock", ".part")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, pipeline(RECIPE, folder)


def test_the_record_says_what_lies_where(whole):
    folder, run = whole
    assert ChainRecord.from_json((folder / "record.json").read_text()) == run.record
    assert [stage.folder for stage in run.record.stages] == ["train", "grade", "angles", "small", "searched", "spike"]
    for stage in run.record.stages:
        assert (folder / stage.folder / "record.json").exists()
    assert run.page is None
    assert set(run.seconds) == {(0, stage.name) for stage in run.record.stages}
    small = ReductionRecord.from_json((run.place("small") / "record.json").read_text())
    assert ws.evaluate(ws.load(run.place("small")), "digits").accuracy == small.measured.reduced


class Stop(Exception):
    pass


STAGES = ("train", "grade", "angles", "small", "searched", "spike")


def stop_at(monkeypatch, what, calls):
    """Let the nth call of ``what`` fail before it does its work."""
    real = getattr(*what)
    count = 0

    def failing(*args, **options):
        nonlocal count
        count += 1
        if count == calls:
            raise Stop
        return real(*args, **options)

    monkeypatch.setattr(*what, failing)


def stop_before_noting(monkeypatch, stage):
    """Let the chain fail when the work of a stage is done and only its line in the journal is missing."""
    real = Journal.append

    def failing(journal, key, *rest, **options):
        if key == f"seed 0: {stage}":
            raise Stop
        return real(journal, key, *rest, **options)

    monkeypatch.setattr(Journal, "append", failing)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_stopped_at_any_stage_it_ends_with_the_same_bytes(whole, tmp_path, monkeypatch, when, stage):
    with monkeypatch.context() as patched, pytest.raises(Stop):
        if when == "before":
            stop_at(patched, (module, "run_stage"), STAGES.index(stage) + 1)
        else:
            stop_before_noting(patched, stage)
        pipeline(RECIPE, tmp_path)
    assert (tmp_path / stage / "record.json").exists() == (when == "after")
    assert not (tmp_path / "record.json").exists()
    pipeline(RECIPE, tmp_path)
    assert files(tmp_path) == files(whole[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_it_ends_with_the_same_bytes(whole, tmp_path, seed):
    """A process that is killed for good, at moments drawn by the seed, until it gets through."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    folder = tmp_path / "out"
    call = [sys.executable, "-m", "weightsmith", "pipeline", str(recipe), "--out", str(folder), "--quiet"]
    draw = random.Random(seed)
    for _ in range(3):
        process = subprocess.Popen(call, stderr=subprocess.PIPE, start_new_session=True)
        try:
            time.sleep(2.0 + 6 * draw.random())
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert files(folder) == files(whole[0])


def test_stopped_before_its_page_is_made_it_makes_the_same_one(tmp_path, monkeypatch):
    tables = {"data": "digits", "train": {"network": "mlp:8", "epochs": 1}, "title": "A & B"}
    first, second = tmp_path / "a" / "chain", tmp_path / "b" / "chain"
    page = pipeline(tables, first).page
    with monkeypatch.context() as patched, pytest.raises(Stop):
        stop_at(patched, (module, "report"), 1)
        pipeline(tables, second)
    pipeline(tables, second)
    assert files(first) == files(second)
    assert page == first / "report.html"
    assert "A &amp; B" in page.read_text()
    with monkeypatch.context() as patched:
        patched.setattr(module, "report", lambda *_, **__: pytest.fail("the page was drawn again"))
        assert pipeline(tables, first).page == page
    written = page.read_bytes()
    page.write_text("lost")
    assert pipeline(tables, first).page.read_bytes() == written


def test_what_is_done_is_not_done_again(whole, monkeypatch):
    folder, run = whole
    monkeypatch.setattr(module, "run_stage", lambda *_: pytest.fail("a stage was run again"))
    again = pipeline(RECIPE, folder)
    assert again.record == run.record
    assert again.seconds == run.seconds


def test_another_recipe_is_refused_in_the_same_folder(whole):
    with pytest.raises(UsageError, match="another call|epochs"):
        pipeline(RECIPE.replace("epochs = 4", "epochs = 5"), whole[0])


def test_a_result_that_was_changed_is_not_taken_for_the_chain_s(tmp_path):
    tables = {"data": "digits", "train": {"network": "mlp:8", "epochs": 1}, "report": False}
    pipeline(tables, tmp_path)
    record = tmp_path / "train" / "record.json"
    record.write_text(record.read_text().replace("mlp:8", "mlp:9"))
    with pytest.raises(FileRefused, match="was changed since the chain wrote it"):
        pipeline(tables, tmp_path)


def test_a_network_that_was_changed_is_not_built_upon(tmp_path):
    tables = {"data": "digits", "train": {"network": "mlp:8", "epochs": 1}, "report": False}
    pipeline(tables, tmp_path)
    other = ws.train("mlp:8", ws.data.load("digits"), epochs=1, seed=7)
    ws.save(other.network, tmp_path / "train" / "network.safetensors")
    with pytest.raises(FileRefused, match="network.safetensors: was changed since the chain wrote it"):
        pipeline(tables, tmp_path)


@pytest.mark.parametrize("name", ["record.json", "network.safetensors", "report.html"])
def test_what_is_not_a_chain_s_is_not_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=f"holds another {name}"):
        pipeline({"data": "digits", "train": {"network": "mlp:8", "epochs": 1}}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_module_of_one_s_own_goes_through_the_whole_chain(tmp_path, monkeypatch):
    (tmp_path / "mynets.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    tables = {
        "data": "digits",
        "report": False,
        "train": {"network": "mynets:build", "epochs": 3, "keep": [1]},
        "grade": {"evidence": "none"},
        "reduce": {"by": "angles:40", "recover": "rewind:1", "random": 0},
        "spike": {"steps": 6, "test_rows": 40, "watch": 0},
    }
    run = pipeline(tables, tmp_path / "out", allow_code=True)
    assert [stage.name for stage in run.record.stages] == ["train", "grade", "reduce", "spike"]
    assert pipeline(tables, tmp_path / "out", allow_code=True).record == run.record


@pytest.mark.parametrize("lost", ["record.json", "network.safetensors", None])
def test_what_was_lost_is_made_again(tmp_path, lost):
    tables = {"data": "digits", "train": {"network": "mlp:8", "epochs": 1}, "grade": {}, "report": False}
    pipeline(tables, tmp_path)
    before = files(tmp_path)
    if lost is None:
        shutil.rmtree(tmp_path / "grade")
    else:
        (tmp_path / "train" / lost).unlink()
    pipeline(tables, tmp_path)
    assert files(tmp_path) == before


def test_a_recipe_that_failed_may_be_mended_in_its_folder(tmp_path, monkeypatch):
    tables = {"data": "digits", "train": {"network": "mlp:8", "epochs": 1}, "grade": {}, "report": False}
    with monkeypatch.context() as patched, pytest.raises(Stop):
        stop_at(patched, (module, "run_stage"), 1)
        pipeline(tables, tmp_path)
    assert pipeline({**tables, "grade": {"evidence": "none"}}, tmp_path).record.stages[1].name == "grade"
    with pytest.raises(UsageError, match="evidence is 'none' in the journal"):
        pipeline({**tables, "grade": {"evidence": "fast"}}, tmp_path)
    (tmp_path / "journal.jsonl").unlink()  # as the error advises
    assert pipeline({**tables, "grade": {"evidence": "none"}}, tmp_path).record.stages[1].name == "grade"


def test_weights_that_are_fed_otherwise_are_another_network(tmp_path):
    run = ws.train("mlp:8", ws.data.load("digits"), epochs=1)
    ws.save(run.network, tmp_path / "net.safetensors")
    tables = {"data": "digits", "network": str(tmp_path / "net.safetensors"), "grade": {}, "report": False}
    pipeline(tables, tmp_path / "out")
    ws.save(ws.load(tmp_path / "net.safetensors", normalise="0.5/0.5"), tmp_path / "net.safetensors")
    with pytest.raises(UsageError, match="another call"):
        pipeline(tables, tmp_path / "out")


def test_an_edited_function_is_another_network(tmp_path, monkeypatch):
    layers = "nn.Flatten(), nn.Linear(64, 9), nn.{}(), nn.Linear(9, 10)"
    source = f"from torch import nn\ndef build():\n    return nn.Sequential({layers})\n"
    (tmp_path / "editednets.py").write_text(source.format("ReLU"))
    monkeypatch.chdir(tmp_path)
    tables = {"data": "digits", "report": False, "train": {"network": "editednets:build", "epochs": 1}}
    pipeline(tables, tmp_path / "out", allow_code=True)
    (tmp_path / "editednets.py").write_text(source.format("Tanh"))
    importlib.invalidate_caches()
    sys.modules.pop("editednets")
    with pytest.raises(UsageError, match="another call"):
        pipeline(tables, tmp_path / "out", allow_code=True)


def test_the_page_may_be_called_otherwise_afterwards(tmp_path):
    tables = {"data": "digits", "train": {"network": "mlp:8", "epochs": 1}, "report": False}
    pipeline(tables, tmp_path)
    page = pipeline({**tables, "report": True, "title": "Another name"}, tmp_path).page
    assert "Another name" in page.read_text()


def test_several_seeds_have_folders_of_their_own(tmp_path):
    tables = {
        "data": "digits",
        "seeds": [0, 1],
        "train": {"network": "mlp:8", "epochs": 1},
        "grade": {},
        "report": False,
    }
    run = pipeline(tables, tmp_path)
    assert [stage.folder for stage in run.record.stages] == [
        "seed-0/train",
        "seed-0/grade",
        "seed-1/train",
        "seed-1/grade",
    ]
    first, second = run.record.stages[0], run.record.stages[2]
    assert first.network != second.network
    alone = pipeline({**tables, "seeds": [1]}, tmp_path / "alone")
    assert alone.record.stages[0].network == second.network


def test_a_chain_may_start_with_a_file(tmp_path):
    net = ws.train("mlp:12", ws.data.load("digits"), schedule=0.05, epochs=1)
    ws.save(net.network, tmp_path / "net.safetensors")
    tables = {
        "data": "digits",
        "network": str(tmp_path / "net.safetensors"),
        "reduce": {"by": "angles:60", "random": 0},
    }
    run = pipeline(tables, tmp_path / "out")
    assert [(stage.name, stage.kind) for stage in run.record.stages] == [("given", "evaluate"), ("reduce", "reduce")]
    assert run.record.stages[0].network == net.record.network
    assert run.record.origin.inputs["network"] == net.record.network


def test_a_run_that_diverges_is_noted_and_the_chain_goes_on(tmp_path):
    tables = {
        "data": "digits",
        "report": False,
        "train": {"network": "mlp:8", "optimiser": "sgd", "schedule": 1e30, "epochs": 2, "loss": "squared-error"},
    }
    run = pipeline(tables, tmp_path)
    assert any(note.startswith("train: diverged") for note in run.record.notes)


@pytest.mark.parametrize(
    ("given", "said"), [(3, "a recipe is a file"), ("none.toml", "no such file"), ({"data": "digits"}, "needs")]
)
def test_what_is_no_recipe_is_refused_before_anything_is_made(tmp_path, given, said):
    with pytest.raises((UsageError, FileRefused), match=said):
        pipeline(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()
