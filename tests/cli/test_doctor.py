from __future__ import annotations

import importlib.metadata
import json
import subprocess

import pytest

from weightsmith.cli import doctor


@pytest.fixture
def answers(monkeypatch):
    """The probes of the processor, answered without a child process."""
    codes = dict.fromkeys(doctor._PROBES, 0)

    def run(words, **_):
        name = next(name for name, code in doctor._PROBES.items() if code in words[-1])
        return subprocess.CompletedProcess(words, codes[name], b"", b"Traceback\nRuntimeError: no kernel\n")

    monkeypatch.setattr(subprocess, "run", run)
    return codes


def test_what_is_there_is_listed_with_its_version(run, answers):
    answer = run("doctor")
    assert answer.code == 0
    assert importlib.metadata.version("torch") in answer.out
    assert "Everything needed is installed" in answer.out
    listed = json.loads(run("doctor", "--json").out)
    packages = next(table for table in listed["tables"] if table["title"] == "Packages")["rows"]
    assert {"torch", "numpy", "torch-pruning"} <= {row["package"] for row in packages}
    assert {row["data set"] for row in next(t for t in listed["tables"] if t["title"] == "Data")["rows"]} >= {
        "digits",
        "cifar10",
    }


def test_what_is_missing_has_a_way_out(run, answers, monkeypatch):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("scipy", "nir") else real(name))
    listed = json.loads(run("doctor", "--json").out)
    assert listed["answer"] == "Packages that weightsmith needs are missing: 1."
    assert listed["look_at"] == ["scipy is missing: pip install 'scipy>=1.13'"]
    assert (
        "pip install '.[nir]' in your clone of weightsmith, for spiking networks for other simulators"
        in listed["try_next"]
    )
    rows = {row["package"]: row for row in listed["tables"][0]["rows"]}
    assert (rows["nir"]["installed"], rows["scipy"]["installed"]) == ("missing", "missing")
    assert rows["nir"]["needed for"] == "optional: spiking networks for other simulators"
    assert rows["scipy"]["needed for"] == "everything"


def test_an_illegal_instruction_ends_the_child_and_is_told(run, answers):
    answers["bfloat16 products"] = -4
    answers["int8 products"] = 1
    listed = json.loads(run("doctor", "--json").out)
    assert listed["facts"]["This processor"] == {
        "float32 products": "yes",
        "bfloat16 products": "no: illegal instruction",
        "int8 products": "no: RuntimeError: no kernel",
    }
    assert any("ONEDNN_MAX_CPU_ISA" in line for line in listed["try_next"])


def test_a_real_probe_answers():
    assert doctor._probed("1 + 1") == "yes"
    assert doctor._probed("torch.nonsense").startswith("no: AttributeError")


def test_licences_of_all_packages_in_use(run):
    listed = json.loads(run("doctor", "--licences", "--json").out)
    text = json.dumps(listed)
    assert "Apache-2.0" in text  # our own
    for name in ("torch", "numpy", "typer", "click"):  # click comes with typer
        assert f'"{name}"' in text
    assert text.count("not stated") <= 3
