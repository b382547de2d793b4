"""A class of the user's own, by module or by file, through the commands and in recipes; code in recipes needs leave."""

from __future__ import annotations

import sys

import pytest

CODE = """
from torch import nn
import torch.nn.functional as F

class PartNet(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.fc1 = nn.Linear(width * 9, 16)
        self.fc2 = nn.Linear(16, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc2(F.relu(self.fc1(x)))
"""
OWN, FILE = "cli_nets:PartNet,width=6", "cli_nets.py:PartNet,width=6"
QUICK = ("--random", "0", "--no-latency", "--quiet")
RECIPE = """
data = "digits"
network = "net"
factory = "cli_nets:PartNet,width=6"
report = false
[[grade]]
evidence = "fast"
[[reduce]]
by = "magnitude"
target = "params:0.7"
random = 0
recover = "fine-tune:1,rate=0.01"
[[spike]]
steps = 4
watch = 0
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the code and a network trained with it."""
    import weightsmith as ws

    folder = tmp_path_factory.mktemp("own")
    (folder / "cli_nets.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ws.train(FILE, ws.data.load("digits"), epochs=2, schedule=0.05, out=folder / "net")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.delitem(sys.modules, "cli_nets", raising=False)
    return made


def test_a_file_alone_never_leads_to_an_import(run, folder):
    answer = run("evaluate", "net", "--data", "digits", "--quiet")
    assert answer.code == 2
    assert f"allow it with --network {FILE}" in answer.err
    assert f"--factory {FILE}" in answer.err
    assert "cli_nets" not in sys.modules


@pytest.mark.parametrize("own", [OWN, FILE])
@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "net", "--data", "digits", "--quiet"),
        ("grade", "net", "--quiet"),
        ("angles", "net", "--data", "digits", "--quiet"),
        ("spike", "net", "--data", "digits", "--steps", "4", "--watch", "0", "--test-rows", "60", "--quiet"),
        ("diff", "net", "net", "--data", "digits", "--quiet"),
    ],
    ids=lambda words: words[0],
)
def test_commands_take_the_class_beside_the_file(run, folder, words, own):
    assert run(*words, "--network", own).code == 0


def test_a_reduced_network_is_trained_further(run, folder, tmp_path):
    words = ("--data", "digits", "--by", "magnitude", "--target", "params:0.6", "--out", tmp_path / "small", *QUICK)
    assert run("reduce", "net", *words, "--network", OWN).code == 0
    training = ("--epochs", "1", "--schedule", "0.01", "--out", tmp_path / "more", "--quiet")
    refused = run("train", "digits", "--network", tmp_path / "small", *training)
    assert (refused.code, f"--factory {OWN}" in refused.err) == (2, True)
    assert run("train", "digits", "--network", tmp_path / "small", "--factory", OWN, *training).code == 0
    assert run("evaluate", tmp_path / "more", "--network", OWN, "--data", "digits", "--quiet").code == 0


@pytest.mark.slow
def test_transfer_tailor_sweep_and_report(run, folder, tmp_path):
    out = ("--out", tmp_path / "a", "--quiet")
    assert run("transfer", "net", "--data", "digits", "--network", OWN, "--epochs", "1", *out).code == 0
    out = ("--out", tmp_path / "b", "--quiet")
    tailored = run("tailor", "net", "--data", "digits", "--network", OWN, "--params", "60%", "--no-spiking", *out)
    assert tailored.code in (0, 1)
    out = ("--out", tmp_path / "c", "--quiet")
    words = ("--vary", "width=4,6", "--seeds", "0-1", "--epochs", "1")
    assert run("sweep", "train", "digits", "--network", OWN, *words, *out).code == 0
    assert run("report", tmp_path, "--out", tmp_path / "page.html").code == 0
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize("command", ["check", "pipeline"])
def test_a_recipe_imports_nothing_unasked(run, folder, tmp_path, command):
    (tmp_path / "r.toml").write_text(RECIPE)
    words = ("recipe", "check", tmp_path / "r.toml") if command == "check" else (
        "pipeline", tmp_path / "r.toml", "--out", tmp_path / "chain", "--quiet",
    )  # fmt: skip
    refused = run(*words)
    assert refused.code == 2
    assert "factory: would import cli_nets, which is not an installed package" in refused.err
    assert "--allow-code" in refused.err
    assert "cli_nets" not in sys.modules
    assert not (tmp_path / "chain").exists()
    assert run(*words, "--allow-code").code == 0


def test_what_check_passes_pipeline_runs_and_what_it_refuses_pipeline_refuses(run, folder, tmp_path):
    wrong = {
        "no factory": RECIPE.replace('factory = "cli_nets:PartNet,width=6"\n', ""),
        "another width": RECIPE.replace("width=6", "width=7"),
        "too small a target": RECIPE.replace("params:0.7", "params:0.0001"),
        "too few classes": 'data = "digits"\nreport = false\n[train]\nnetwork = "cli_nets:PartNet,classes=3"\n',
    }
    for name, text in wrong.items():
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        checked = run("recipe", "check", path, "--allow-code")
        carried_out = run("pipeline", path, "--out", tmp_path / name, "--quiet", "--allow-code")
        assert (checked.code, carried_out.code) == (2, 2), name
        assert checked.err.splitlines()[-1] == carried_out.err.splitlines()[-1]


def test_a_recipe_trains_a_class(run, folder, tmp_path):
    text = f'data = "digits"\nreport = false\n[train]\nnetwork = "{FILE}"\nepochs = 1\n[[angles]]\n'
    (tmp_path / "r.toml").write_text(text)
    refused = run("recipe", "check", tmp_path / "r.toml")
    assert (refused.code, "train.network: would import cli_nets.py" in refused.err) == (2, True)
    assert run("pipeline", tmp_path / "r.toml", "--out", tmp_path / "chain", "--quiet", "--allow-code").code == 0
