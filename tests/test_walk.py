"""A newcomer's walk at the command line: data and networks of one's own through the verbs, one after another."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from weightsmith.cli.app import main

pytestmark = pytest.mark.slow

NET = """
from torch import nn


class PartNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.pool = nn.AvgPool2d(2)
        self.hidden = nn.Linear(width * 36, 24)
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        x = self.pool(self.conv(x).relu())
        return self.out(self.hidden(x.view(x.size(0), -1)).relu())
"""
RECIPE = """
data = "{data}"
[train]
network = "{network}"
epochs = 4
schedule = 0.05
[[grade]]
evidence = "none"
[[reduce]]
by = "error"
target = "params:0.8"
[[spike]]
steps = 8
"""


@pytest.fixture
def walk(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mynet", raising=False)

    def step(*words, code=0):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        printed = capfd.readouterr()
        assert ended.value.code in ((code,) if isinstance(code, int) else code), (words, printed.err)
        assert "Traceback" not in printed.err
        return printed

    return step


@pytest.fixture
def photos(tmp_path):
    draw = np.random.default_rng(0)
    for number, name in enumerate(("bolt", "nut", "washer")):
        (tmp_path / "parts" / name).mkdir(parents=True)
        for image in range(50):
            pixels = draw.integers(0, 60, (12, 12, 3))
            pixels[4 * number : 4 * number + 4] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "parts" / name / f"{image}.png")
    (tmp_path / "mynet.py").write_text(NET)
    return tmp_path


@pytest.fixture
def rows(tmp_path):
    draw = np.random.default_rng(0)
    lines = ["id,weight,size,colour,status"]
    for row in range(300):
        kind = row % 3
        colour = ("red", "green")[draw.integers(2)]
        lines.append(
            f"{row},{draw.normal(1000 * kind, 200):.1f},{draw.normal(0.01 * kind, 0.002):.5f},{colour},s{kind}"
        )
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def through(walk, folder, trained, how=()):
    """Evaluate, grade, reduce, spike, tailor and report of the folder of a run, which tells its data."""
    found = json.loads(walk("evaluate", trained, *how, "--json").out)
    assert found["split"] == "test"
    assert found["accuracy"]["value"] > 0.8
    walk("grade", trained, "--evidence", "none", code=(0, 1))
    walk("reduce", trained, *how, "--by", "error", "--target", "params:0.8", "--out", "small", "-q", code=(0, 1))
    assert json.loads(walk("evaluate", "small", *how, "--json").out)["images"] == found["images"]
    walk("spike", "small", *how, "--steps", "8", "--out", "spiking", "-q", code=(0, 1))
    assert "--out" not in walk("spike", "small", *how, "--steps", "9", "--out", "spiking", "-q", code=2).out
    walk("tailor", trained, *how, "--params", "90%", "--budget", "20s", "--out", "tailored", "-q", code=(0, 1))
    walk("report", ".", "--out", "page.html")
    page = (folder / "page.html").read_text()
    assert all(name in page for name in ("small", "spiking", "tailored"))


def test_an_image_folder_and_a_class_of_one_s_own(walk, photos):
    words = ("--network", "mynet.py:PartNet", "--epochs", "6", "--schedule", "0.05", "--out", "run", "-q")
    walk("train", "parts", "--test", "0.2", *words)
    through(walk, photos, "run", ("--network", "mynet.py:PartNet"))


def test_an_image_folder_and_a_state_dict_of_one_s_own(walk, photos):
    words = ("--network", "mynet.py:PartNet,width=6", "--epochs", "6", "--schedule", "0.05", "--out", "first", "-q")
    walk("train", "parts", "--test", "0.2", *words)
    from safetensors.torch import load_file

    torch.save(load_file(photos / "first" / "network.safetensors"), photos / "mine.pt")
    through(walk, photos, "mine.pt", ("--network", "mynet.py:PartNet,width=6", "--data", "folder:parts,test=0.2"))


def test_a_table_with_a_text_label(walk, rows):
    answer = walk("train", "rows.csv", "--test", "0.2", "--network", "mlp:16", "--epochs", "10", "--out", "run")
    assert "the column 'status' is taken for the label" in answer.out
    assert "standardised by means and deviations" in " ".join(answer.out.split())
    through(walk, rows, "run")


@pytest.mark.parametrize(
    "chain",
    [("table:rows.csv,test=0.2", "mlp:16", ()), ("folder:parts,test=0.2", "mynet.py:PartNet", ("--allow-code",))],
    ids=["table", "folder"],
)
def test_a_recipe_that_is_checked_runs(walk, photos, rows, chain):
    data, network, leave = chain
    (rows / "chain.toml").write_text(RECIPE.format(data=data, network=network))
    walk("recipe", "check", "chain.toml", *leave)
    walk("pipeline", "chain.toml", "--out", "chain", *leave, "-q", code=(0, 1))
    assert (rows / "chain" / "report.html").exists()


TOKENS = """
from torch import nn


class Words(nn.Module):
    def __init__(self, words=30):
        super().__init__()
        self.embed = nn.Embedding(words, 16)
        self.hidden = nn.Linear(16, 24)
        self.out = nn.Linear(24, 2)

    def forward(self, x):
        return self.out(self.hidden(self.embed(x).mean(1)).relu())
"""


def _table(path, header, rows):
    lines = [",".join(header), *(",".join(f"{cell:.4g}" for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def kinds(tmp_path):
    """A regression, three labels and tokens, with the words that train them and the metric that judges them."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 3))
    _table(tmp_path / "houses.csv", ("a", "b", "c", "price"), np.c_[x, 3e5 + 1e5 * x[:, 0] - 4e4 * x[:, 1] ** 2])
    on = np.stack([x[:, 0] > 0, x[:, 1] > x[:, 2], x[:, 2] > 0.3], 1)
    _table(tmp_path / "weather.csv", ("a", "b", "c", "rain", "wind", "fog"), np.c_[x, on])
    tokens = draw.integers(0, 30, (400, 8))
    np.savez(tmp_path / "tokens.npz", x=tokens, y=((tokens < 5).sum(1) >= 2).astype(int))
    (tmp_path / "words.py").write_text(TOKENS)
    return {
        "regression": (["houses.csv", "--task", "regression"], "mlp:24,16", "R²"),
        "multi-label": (["table:weather.csv,targets=[rain,wind,fog]"], "mlp:24,16", "accuracy"),
        "tokens": (["tokens.npz"], "words.py:Words", "accuracy"),
    }


@pytest.mark.parametrize("kind", ["regression", "multi-label", "tokens"])
def test_other_targets_and_inputs_from_train_to_report(kind, kinds, walk, tmp_path):
    data, network, metric = kinds[kind]
    own = ("--network", network) if ":Words" in network else ()
    walk("train", *data, "--test", "0.25", "--network", network, "--epochs", "12", "--out", "run", "--quiet")
    judged = json.loads(walk("evaluate", "run", *own, "--json", "--quiet").out)
    score = judged["r2" if metric == "R²" else "accuracy"]
    assert score["value"] > 0.8
    assert score["low"] < score["value"] < score["high"] <= 1
    assert "layers fitted" in walk("grade", "run", *own, "--quiet").out
    walk(
        "reduce", "run", *own, "--by", "angles:40", "--recover", "fine-tune:1", "--out", "small", "--quiet", code=(0, 1)
    )
    record = json.loads((tmp_path / "small" / "record.json").read_text())
    assert record["measured"]["metric"] == metric
    assert record["measured"]["whole"]["value"] == pytest.approx(score["value"])
    assert record["reduced"]["parameters"] < record["whole"]["parameters"]
    again = json.loads(walk("evaluate", "small", *own, "--json", "--quiet").out)
    value = again["r2" if metric == "R²" else "accuracy"]["value"]
    assert value == pytest.approx(record["measured"]["reduced"]["value"], abs=1e-6)
    walk("report", "run", "small", "--out", "page.html")
    assert metric in (tmp_path / "page.html").read_text()
    if kind != "tokens":
        for refused in (("spike", "run", "--out", "s"), ("tailor", "run", "--params", "50%", "--out", "t")):
            assert "rows of one class each are needed" in walk(*refused, code=2).err
