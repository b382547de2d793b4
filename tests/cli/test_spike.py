from __future__ import annotations

import csv
import dataclasses
import json
import shutil
from types import SimpleNamespace

import pytest
from safetensors.torch import save_file

import weightsmith as ws
from weightsmith.cli._spike_options import say_if_compiling
from weightsmith.cli._spike_records import steps_of
from weightsmith.core.statistics import wilson
from weightsmith.reporting.describe import describe
from weightsmith.reporting.figures.spiking import catalogue as spiking
from weightsmith.reporting.sections._spiking_layers import layer_rows, step_rows
from weightsmith.spiking.files import is_spiking, load_spiking, save_spiking, spiking_digest
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.simulation import _kernels
from weightsmith.spiking.spike import spike

QUICK = ("--quiet", "--watch", 0)
drawing = SimpleNamespace(figures_of=spiking.figures_of)  # as it is before tests put another in its place


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run: a network of 24 ReLUs on digits."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    ws.train("mlp:24", "digits", optimiser="adam", schedule=0.01, epochs=4, out=folder)
    return folder


@pytest.fixture(scope="module")
def spiked(trained):
    """A finished conversion, to be changed by tests."""
    return spike(trained, "digits", steps=20, test_rows=120, watch=2)


@pytest.fixture(scope="module")
def converted(run_module, trained, tmp_path_factory):
    """The folder that the command leaves behind."""
    folder = tmp_path_factory.mktemp("spiking") / "snn"
    words = ("--data", "digits", "--steps", 20, "--test-rows", 120, "--watch", 2, "--out", folder)
    assert run_module("spike", trained, *words, "--figures", "none", "--quiet") == 0
    return folder


@pytest.fixture(scope="module")
def run_module():
    """Run the command line without looking at what it prints: its exit code."""
    from weightsmith.cli import main

    def call(*words: object) -> int:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        return ended.value.code

    return call


def saved(text, path):
    network = ws.networks.build(text, input_shape=(1, 8, 8), classes=10)
    return ws.save(network, path, classes=ws.data.load("digits").classes)


def test_the_numbers_are_those_of_the_library(run, trained, spiked):
    words = ("--data", "digits", "--steps", 20, "--test-rows", 120, "--watch", 2)
    answer = run("spike", trained, *words, "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert SpikeRecord.from_dict(found["record"]) == spiked.record
    assert (found["look_at"], found["files"]) == ([], [])
    description = describe(spiked, str(trained), kept=False)
    assert found["try_next"] == list(description.try_next)
    assert found["description"] == json.loads(json.dumps(description.to_dict()))
    assert found["steps"] == step_rows(spiked.record)
    assert found["layers"] == [dataclasses.asdict(row) for row in layer_rows(spiked.record)]
    assert found["synaptic_operations"] == spiked.record.cost.neurobench
    assert [row["energy_picojoule"] for row in found["rivals"][2:]] == [
        rival.energy for rival in spiked.record.cost.rivals
    ]


def test_every_option_reaches_the_conversion(run, tmp_path):
    file = saved("mlp:12,bias=false", tmp_path / "n.safetensors")
    options = {
        "neuron": "lif:0.9,reset=hard",
        "encode": "poisson:scale=0.5",
        "balance": "max-current:images=32,steps=10,factor=0.3",
        "adjust": "l4:1.5,images=16",
        "precision": "float64",
        "early": "margin:2.0,least=3",
        "settle": 2,
        "mismatch": "mismatch:threshold=0.2",
        "prices": "picojoule:accumulate=0.1,multiply=2.0",
        "test_rows": 30,
        "watch": 1,
        "seed": 7,
        "steps": 9,
    }
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    answer = run("spike", file, "--data", "digits", *words, "--json", "--quiet")
    assert answer.code in (0, 1), answer.err
    record = json.loads(answer.out)["record"]
    unset = dict.fromkeys(("calibrate", "within", "energy", "exportable"))
    assert record["settings"] == {**options, **unset, "data": "digits", "device": "cpu"}
    assert record["decisions"]["images"] == 30
    shown = " ".join(run("spike", file, "--data", "digits", *words, "--quiet").out.split())
    for words in (
        "lif:0.9,reset=hard · poisson:scale=0.5 · max-current:images=32,steps=10,factor=0.3 · l4:1.5,images=16 · "
        "mismatch:threshold=0.2 · margin:2.0,least=3 · float64 · 9 steps · seed 7",
        "weights of dense1 times ",
        "0.1 pJ for an addition and 2 pJ for a multiplication with its addition; updates of neurons included",
        "steps on average",
    ):
        assert words in shown, words


def test_one_wish_instead_of_ten_options(run, trained, tmp_path):
    words = ("--data", "digits", "--test-rows", 60, "--watch", 0, "--quiet")
    answer = run("spike", trained, *words, "--within", 2, "--for", "nir", "--out", tmp_path / "o", "--figures", "none")
    assert answer.code == 0, answer.err
    shown = " ".join(answer.out.split())
    assert "What was chosen from" in shown
    assert "Wish: within 2 points, for NIR." in shown
    record = SpikeRecord.from_json((tmp_path / "o" / "record.json").read_text())
    assert record.choice.chosen.obstacle is None
    answer = run("spike", trained, *words, "--energy", "95%", "--json")
    assert json.loads(answer.out)["record"]["choice"]["wish"] == "at most 95 % of the energy"
    answer = run("spike", trained, *words)
    shown = " ".join(answer.out.split())
    assert "Wish: the knee of the front." in shown
    assert "Best that NIR can express (--for nir): if," in shown
    for wrong in ("much", "-3%", "inf"):
        answer = run("spike", trained, *words, "--energy", wrong)
        assert answer.code == 2
        assert "a share is a number above 0 such as 0.3 or 30%" in answer.err


def test_few_steps_are_told_with_what_calibration_moved(run, trained, tmp_path):
    words = ("--neuron", "if:signed=true", "--balance", "mse", "--calibrate", "weights", "--steps", 4)
    answer = run("spike", trained, "--data", "digits", *words, "--test-rows", 60, "--quiet", "--out", tmp_path / "o")
    assert answer.code == 0, answer.err
    shown = " ".join(answer.out.split())
    assert "if:signed=true · constant · mse · weights · 4 steps" in shown
    assert "--for nir, if it is to be exported: NIR has no neurons whose spikes carry a sign or a size" in shown
    record = SpikeRecord.from_json((tmp_path / "o" / "record.json").read_text())
    assert [layer.layer for layer in record.calibration.layers] == ["dense1", "output"]
    assert record.watched.raster.populations[0].spike_sizes is not None


def test_whole_numbers_of_8_bits_are_run_and_written(run, trained, tmp_path):
    words = ("--data", "digits", "--precision", "int8", "--steps", 12, "--figures", "none", "--out", tmp_path / "o")
    answer = run("spike", trained, *words, *QUICK)
    assert (answer.code, "int8 · 12 steps" in answer.out) == (0, True)
    weights = load_spiking(tmp_path / "o").node("output").weight
    assert weights.equal(weights.round())
    assert weights.abs().max() == 127
    report = json.loads(
        run("evaluate", tmp_path / "o", "--data", "digits", "--steps", 12, "--precision", "int8", "--json").out
    )
    record = SpikeRecord.from_json((tmp_path / "o" / "record.json").read_text())
    assert [row["accuracy"] for row in report["steps"]] == [record.decisions.accuracy(n).value for n in range(1, 13)]


def test_the_tables_tell_accuracy_rates_operations_and_energy(run, trained, spiked):
    record = spiked.record
    decisions, cost, (population,) = record.decisions, record.cost, record.populations
    answer = run("spike", trained, "--data", "digits", "--steps", 20, "--test-rows", 120, "--watch", 2, "--quiet")
    assert (answer.code, answer.err) == (0, "")
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    ends = [int(line.split()[0]) for line in lines if line[:1].isdigit()]
    assert ends == [1, 2, 4, 8, 16, 20]
    for steps in (4, 20):
        share = decisions.accuracy(steps)
        row = next(line for line in lines if line.startswith(f"{steps} "))
        assert f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]" in row
        assert f"{cost.curve[steps - 1] / 1e3:.3g} nJ {cost.curve[steps - 1] / cost.network_energy:.3g} ×" in row
    paired = decisions.cost.interval
    for words in (
        f"accuracy of the network {100 * decisions.network.value:.1f} %",
        "of 120 rows (test)",
        f"[{100 * paired.low:+.1f}, {100 * paired.high:+.1f}]".replace("-", "−"),
        f"{population.threshold.least:.3g} – {population.threshold.largest:.3g} {population.rate:.3g}",
        f"{cost.energy / 1e3:.3g} nJ of arithmetic, {cost.ratio:.3g} times the {cost.network_energy / 1e3:.3g} nJ of",
        "0.9 pJ for an addition and 4.6 pJ for a multiplication with its addition (45 nm)",
        "of 5 rivals take less arithmetic, the cheapest (5 bits, zeros skipped) ",
        "network, int8, zeros skipped ",
        f"from step {decisions.settled} on",
        "never fire on the calibration images",
        "--out FOLDER: the spiking network was not kept",
    ):
        assert any(words in line for line in lines), words


def test_help_names_the_families_of_options(run):
    answer = run("spike", "--help")
    assert answer.code == 0
    for words in ("lif:0.95", "poisson", "percentile:99.9", "l4:1.0", "margin:3", "--figures", "never fires"):
        assert words in answer.out, words


def test_a_folder_holds_network_record_and_tables(converted, spiked):
    record = SpikeRecord.from_json((converted / "record.json").read_text())
    assert record == spiked.record
    assert spiking_digest(load_spiking(converted)) == record.result
    assert {path.name for path in converted.iterdir()} == {
        "network.safetensors",
        "record.json",
        "steps.csv",
        "journal.jsonl",
        "layers.csv",
    }
    steps = list(csv.DictReader((converted / "steps.csv").read_text().splitlines()))
    assert [int(row["steps"]) for row in steps] == list(range(1, 21))
    for row, correct in zip(steps, record.decisions.correct.tolist(), strict=True):
        expected = wilson(correct, 120)
        assert (float(row["accuracy"]), float(row["low"])) == (expected.value, expected.low)
        assert float(row["difference"]) == expected.value - record.decisions.network.value
    assert float(steps[-1]["difference"]) == pytest.approx(record.decisions.cost.difference)
    assert float(steps[-1]["energy_microjoule"]) == pytest.approx(record.cost.energy / 1e6)
    layers = list(csv.DictReader((converted / "layers.csv").read_text().splitlines()))
    assert [row["name"] for row in layers] == ["dense1", "output", "all neurons"]
    assert sum(float(row["energy_share"]) for row in layers) == pytest.approx(1)
    assert float(layers[0]["rate"]) == record.populations[0].rate
    assert layers[1]["rate"] == ""


def test_the_same_command_gives_the_same_bytes(run_module, trained, converted, tmp_path):
    words = ("--data", "digits", "--steps", 20, "--test-rows", 120, "--watch", 2, "--out", tmp_path / "o")
    assert run_module("spike", trained, *words, "--figures", "none", "--quiet") == 0
    for name in ("network.safetensors", "record.json", "steps.csv", "layers.csv"):
        assert (tmp_path / "o" / name).read_bytes() == (converted / name).read_bytes()


def test_figures_go_where_they_are_asked_to(run, trained, tmp_path, monkeypatch):
    asked = []

    def two(record, classes):
        asked.append(classes)
        drawn = drawing.figures_of(record, classes)
        return {name: drawn[name] for name in ("accuracy", "confusion")}

    monkeypatch.setattr("weightsmith.reporting.figures.spiking.catalogue.figures_of", two)
    words = ("spike", trained, "--data", "digits", "--steps", 4, "--test-rows", 10, *QUICK)
    answer = run(*words, "--figures", tmp_path / "f.png", "--out", tmp_path / "o", "--json")
    assert (answer.code, {path.name for path in tmp_path.iterdir()}) == (0, {"f-accuracy.png", "f-confusion.png", "o"})
    assert not (tmp_path / "o" / "figures").exists()
    assert str(tmp_path / "f-accuracy.png") in json.loads(answer.out)["files"]
    assert asked == [tuple(map(str, range(10)))]
    assert run(*words, "--out", tmp_path / "o").code == 0
    assert {path.name for path in (tmp_path / "o" / "figures").iterdir()} == {"accuracy.svg", "confusion.svg"}
    assert run(*words, "--figures", "none", "--out", tmp_path / "p").code == 0
    assert not (tmp_path / "p" / "figures").exists()
    assert run(*words, "--figures", "f.gif").code == 2


@pytest.mark.slow
def test_every_figure_is_drawn(run, trained, spiked, tmp_path):
    words = ("--data", "digits", "--steps", 20, "--test-rows", 120, "--watch", 2, "--quiet")
    assert run("spike", trained, *words, "--figures", tmp_path / "f").code == 0
    assert {path.stem for path in (tmp_path / "f").iterdir()} == set(drawing.figures_of(spiked.record))


def test_shortcuts_have_rows_of_their_own_and_shares_add_up(run, tmp_path):
    file = saved("resnet:8,widths=[4,6,8]", tmp_path / "r.safetensors")
    answer = run("spike", file, "--data", "digits", "--steps", 6, "--test-rows", 20, *QUICK, "--json")
    found = json.loads(answer.out)
    record = SpikeRecord.from_dict(found["record"])
    rows = {row["name"]: row for row in found["layers"]}
    assert rows["layer1.0.activation2"]["kind"] == "direct"
    assert sum(row["energy_share"] for row in rows.values()) == pytest.approx(1)
    updates = rows.pop("all neurons")["accumulates"]
    assert updates == pytest.approx(record.cost.updates[-1])
    assert sum(row["accumulates"] for row in rows.values()) == pytest.approx(record.cost.accumulates[-1])
    assert sum(row["neurons"] or 0 for row in rows.values()) == sum(each.units for each in record.populations)
    assert rows["fc"]["neurons"] is rows["layer2.0.downsample"]["rate"] is None
    assert rows["conv1"]["path"] == "once"
    shown = run("spike", file, "--data", "digits", "--steps", 6, "--test-rows", 20, *QUICK).out
    assert "layer1.0.activation2 (direct)" in shown
    assert "(direct): spikes that reach neurons without weights" in shown


def test_a_run_tells_its_data_and_other_files_must_be_told(run, trained, tmp_path):
    words = ("--steps", 2, "--test-rows", 5, "--watch", 0)
    answer = run("spike", trained, *words)
    assert (answer.code, f"data: digits, as in the record of {trained}" in answer.err) == (0, True)
    assert run("spike", trained / "network.safetensors", *words, "--quiet").code == 0
    copy = tmp_path / "network.safetensors"
    copy.write_bytes((trained / "network.safetensors").read_bytes())
    for record in (None, "[]", '{"settings": {"data": "arrays"}}'):
        if record is not None:
            (tmp_path / "record.json").write_text(record)
        missing = run("spike", tmp_path, *words)
        assert (missing.code, len(missing.lines), missing.out) == (2, 1, "")
        assert "--data is missing" in missing.err
    (tmp_path / "record.json").write_text('{"settings": {"data": "table:/etc/passwd"}}')
    assert "is not a table that can be read" in run("spike", tmp_path, *words).err


def test_progress_tells_the_stage(run, trained):
    err = run("spike", trained, "--data", "digits", "--steps", 3, "--test-rows", 40, "--watch", 0).err
    assert "spike: balancing: 512 of 512" in err
    assert "spike: running: 40 of 40" in err


def test_compiling_is_told_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_kernels, "convolve", SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path))))
    say_if_compiling(quiet=True)
    assert capsys.readouterr().err == ""
    say_if_compiling(quiet=False)
    assert "compiling, once on this machine" in capsys.readouterr().err
    (tmp_path / "_kernels.convolve-62.py311.nbi").touch()
    say_if_compiling(quiet=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--neuron", "lif:1.1"), "leak must be ≤ 1, not 1.1"),
        (("--neuron", "lif:0"), "leak must be > 0, not 0"),
        (("--neuron", "lif"), "lif needs leak"),
        (("--neuron", "liff:0.9"), "did you mean 'lif'"),
        (("--neuron", "lif:0.9,reset=hrad"), "reset"),
        (("--encode", "poison"), "did you mean 'poisson'"),
        (("--balance", "percentil:99"), "did you mean 'percentile'"),
        (("--balance", "percentile:101"), "percent must be ≤ 100, not 101"),
        (("--balance", "max-current"), "dense1 has a bias"),
        (("--adjust", "l2:1"), "did you mean 'l4'"),
        (("--adjust", "l4:-1"), "smoothing must be ≥ 0, not -1"),
        (("--early", "margn:3"), "did you mean 'margin'"),
        (("--mismatch", "mismatch:threshold=2"), "threshold must be ≤ 1, not 2"),
        (("--prices", "picojoul"), "did you mean 'picojoule'"),
        (("--precision", "int4"), "--precision"),
        (("--precision", "int8", "--mismatch", "mismatch:threshold=0.1"), "use precision float32 or float64"),
        (("--steps", "0"), "--steps"),
        (("--test-rows", "0"), "--test-rows"),
        (("--watch", "-1"), "--watch"),
        (("--least-accuracy", "0.9"), "is in per cent, such as 90"),
        (("--normalise", "0.5/0.1", "--encode", "poisson"), "poisson spikes need inputs between −1 and 1"),
        (("--data", "digit"), "did you mean 'digits'"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, trained, words, message):
    answer = run("spike", trained, "--data", "digits", *words, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, ""), answer.err
    assert message in answer.err


NETWORKS = """
from torch import nn
def softmax():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Softmax(1), nn.Linear(8, 10))
def sigmoid():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Sigmoid(), nn.Linear(8, 10))
def dead():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    network[1].weight.data.zero_(), network[1].bias.data.fill_(-1)
    return network
def broken():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    network[1].weight.data[0, 0] = float("nan")
    return network
def hostile():
    network = nn.Sequential()
    network.add_module("flatten", nn.Flatten())
    network.add_module("=1+2[bold]evil[/bold]", nn.Linear(64, 8))
    network.add_module("act", nn.ReLU())
    network.add_module("out", nn.Linear(8, 10))
    return network
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """``own(name)``: the file of a network of the user's own, and how it is named on the command line."""
    (tmp_path / "spiking_networks_of_mine.py").write_text(NETWORKS)
    monkeypatch.syspath_prepend(tmp_path)
    import spiking_networks_of_mine as mine

    def make(name: str) -> tuple[object, ...]:
        path = tmp_path / f"{name}.safetensors"
        save_file(getattr(mine, name)().state_dict(), path)
        return path, "--data", "digits", "--network", f"{mine.__name__}:{name}"

    return make


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmax", "remove the softmax"),
        ("sigmoid", "only ReLU converts"),
        ("dead", "dead layer: 2 (after 1) gives only zeros"),
        ("broken", "NaN or infinity"),
    ],
)
def test_what_cannot_be_converted_is_named(run, own, name, message):
    answer = run("spike", *own(name), "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, ""), answer.err
    assert message in answer.err


def test_names_of_layers_are_never_markup_nor_formulas(run, own, tmp_path):
    words = ("--steps", 3, "--test-rows", 10, "--watch", 1, "--out", tmp_path / "o", "--figures", "none")
    answer = run("spike", *own("hostile"), *words, "--quiet")
    assert answer.code == 0, answer.err
    name = "=1+2[bold]evil[/bold]"
    assert any(line.startswith(name) for line in answer.out.splitlines())
    table = (tmp_path / "o" / "layers.csv").read_text()
    assert next(csv.DictReader(table.splitlines()))["name"] == f"'{name}"
    for words in (("inspect", tmp_path / "o"), ("evaluate", tmp_path / "o", "--data", "digits", "--steps", 2)):
        assert any(line.startswith(name) for line in run(*words).out.splitlines())


def test_files_that_cannot_be_read_end_with_code_3(run, trained, tmp_path, monkeypatch):
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    for name in ("broken", "none"):
        answer = run("spike", tmp_path / f"{name}.safetensors", "--data", "digits", "--quiet")
        assert (answer.code, len(answer.lines)) == (3, 1)
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path))
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(tmp_path))
    answer = run("spike", trained, "--data", "cifar10", "--quiet")
    assert (answer.code, "weightsmith data fetch cifar10" in answer.err) == (3, True)


def test_networks_are_never_written_over(run, trained, tmp_path):
    before = (trained / "network.safetensors").read_bytes()
    for file in (trained, trained / "network.safetensors"):
        answer = run("spike", file, "--data", "digits", "--out", trained, *QUICK)
        assert (answer.code, "which is never overwritten" in answer.err) == (2, True)
    assert (trained / "network.safetensors").read_bytes() == before
    other = saved("mlp:3", tmp_path / "network.safetensors")
    answer = run("spike", trained, "--data", "digits", "--out", tmp_path, *QUICK)
    assert (answer.code, "holds another network" in answer.err) == (2, True)
    assert not is_spiking(other)


@pytest.mark.parametrize("name", ["record.json", "journal.jsonl"])
def test_results_of_a_sweep_are_never_written_over(run, trained, tmp_path, name):
    (tmp_path / name).write_text("{}")
    answer = run("spike", trained, "--data", "digits", "--out", tmp_path, *QUICK)
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert f"--out {tmp_path} holds other results, such as those of a sweep" in answer.err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["{}"]


@pytest.mark.parametrize("command", ["spike", "spike-sweep", "evaluate"])
def test_a_wrong_path_is_told_before_data_that_are_missing(run, tmp_path, command):
    (tmp_path / "text").write_text("no weights")
    for name, message in (("gone", "gone: no such file"), ("text", "is not a weight file"), ("", "holds no weight")):
        answer = run(command, tmp_path / name)
        assert (answer.code, len(answer.lines), answer.out) == (3, 1, "")
        assert message in answer.err
    assert "--data is missing: " in run(command, saved("mlp:3", tmp_path / "n.safetensors")).err


@pytest.mark.parametrize("command", ["spike", "spike-sweep", "evaluate"])
@pytest.mark.parametrize("path", ["gone/data", "gone.csv", "./gone", "folder:gone", "table:gone.csv"])
def test_a_wrong_path_of_data_is_told_as_a_path(run, trained, command, path):
    answer = run(command, trained, "--data", path, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (3, 1, "")
    assert answer.err.startswith(f"weightsmith: {path.rpartition(':')[2]}: no such f")


def test_a_spiking_network_is_not_converted_again(run, converted):
    for file in (converted, converted / "network.safetensors"):
        answer = run("spike", file, "--data", "digits")
        assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
        assert f"weightsmith evaluate {file} --data NAME runs it" in answer.err
        assert f"weightsmith export {file} NET.nir" in answer.err


def test_a_layer_that_never_fires_ends_with_code_1(run, tmp_path):
    file = saved("vgg:5,widths=[4,4,4],classifier=[8]", tmp_path / "v.safetensors")
    words = ("--encode", "poisson", "--balance", "max-current:images=16,steps=10", "--steps", 3, "--test-rows", 10)
    answer = run("spike", file, "--data", "digits", *words, *QUICK)
    assert (answer.code, len(answer.lines)) == (1, 1)
    assert "classifier.1 never fires (10 rows, 3 steps)" in answer.err
    assert "--balance max-current:images=16,steps=10,factor=0.7: " in answer.out
    assert "--steps 6: 10 of 10 rows have no answer after 3 steps" in answer.out


def test_an_accuracy_below_the_bar_ends_with_code_1(run, trained):
    words = ("spike", trained, "--data", "digits", "--steps", 1, *QUICK)
    low = run(*words, "--least-accuracy", 99)
    assert low.code == 1
    assert "is below the required 99 %" in low.err
    assert json.loads(run(*words, "--least-accuracy", 99, "--json").out)["look_at"]
    assert run(*words, "--least-accuracy", 5).code == 0


def test_a_spiking_file_is_evaluated_as_it_was_converted(run, converted):
    record = SpikeRecord.from_json((converted / "record.json").read_text())
    words = ("evaluate", converted, "--data", "digits", "--steps", 20, "--test-rows", 120, "--quiet")
    report = json.loads(run(*words, "--json").out)
    assert [row["accuracy"] for row in report["steps"]] == [record.decisions.accuracy(n).value for n in range(1, 21)]
    (population,) = record.populations
    assert report["layers"][0]["rate"] == population.rate
    assert report["layers"][0]["spikes"] == population.spikes_per_image
    shown = run(*words)
    assert (shown.code, shown.err) == (0, "")
    assert "of 120 rows (test)" in shown.out
    assert f"{100 * record.decisions.spiking.value:.1f} %" in shown.out
    below = run(*words, "--least-accuracy", 99.9)
    assert (below.code, "is below the required 99.9 %" in below.err) == (1, True)


def test_a_folder_tells_its_data_and_steps(run, converted, tmp_path):
    for file in (converted, converted / "network.safetensors"):
        answer = run("evaluate", file, "--test-rows", 30, "--json")
        assert (answer.code, len(json.loads(answer.out)["steps"])) == (0, 20)
        assert f"data: digits, as in the record of {file}\nsteps: 20, as in the record of {file}\n" in answer.err
    printed = run("evaluate", converted, "--data", "digits", "--steps", 3, "--test-rows", 30, "--json")
    assert (len(json.loads(printed.out)["steps"]), "in the record" in printed.err) == (3, False)
    assert run("evaluate", converted, "--test-rows", 30, "--json", "--quiet").err == ""
    alone = shutil.copy(converted / "network.safetensors", tmp_path / "alone.safetensors")
    assert "--data is missing: accuracy is measured on rows with labels" in run("evaluate", alone).err
    usual = run("evaluate", alone, "--data", "digits", "--test-rows", 5, "--json", "--quiet")
    assert len(json.loads(usual.out)["steps"]) == 64


@pytest.mark.parametrize(
    ("settings", "steps", "message"),
    [
        ({"steps": 5, "early": "margin:3.0", "settle": 2}, 5, "here without --early margin:3.0 and --settle 2"),
        ({"steps": 5, "early": None, "settle": 0}, 5, "steps: 5, as in"),
        ({"steps": 0}, 64, None),
        ({"steps": True}, 64, None),
        ({"steps": "7"}, 64, None),
        ([], 64, None),
    ],
)
def test_what_a_record_says_of_steps(tmp_path, capsys, settings, steps, message):
    (tmp_path / "record.json").write_text(json.dumps({"settings": settings}))
    assert steps_of(tmp_path, None, quiet=False) == steps
    err = " ".join(capsys.readouterr().err.split())
    assert (message is None and err == "") or (message is not None and message in err)
    assert steps_of(tmp_path, 9, quiet=False) == 9


def test_nir_files_are_told_apart_and_come_in_through_python(run, trained, tmp_path):
    pytest.importorskip("nir", reason="the extra nir is not installed")
    made = spike(trained, "digits", balance="percentile:half=false", steps=4, test_rows=5, watch=0)
    ws.export_nir(made.network, tmp_path / "net.nir")
    for words in (("evaluate", "--data", "digits"), ("evaluate",), ("inspect",), ("spike",), ("spike-sweep",)):
        answer = run(words[0], tmp_path / "net.nir", *words[1:])
        assert (answer.code, len(answer.lines), answer.out) == (3, 1, "")
        assert "net.nir: is a NIR file: convert it in Python by ws.save_spiking(ws.import_nir(FILE), " in answer.err
    assert "net.nir: is a NIR file" in run("export", tmp_path / "net.nir", tmp_path / "again.nir").err
    assert "gone.nir: no such file" in run("inspect", tmp_path / "gone.nir").err
    path = ws.save_spiking(ws.import_nir(tmp_path / "net.nir"), tmp_path / "net.safetensors")
    words = ("--data", "digits", "--steps", 4, "--json", "--quiet")
    save_spiking(made.network, tmp_path / "as_given.safetensors")
    here, there = (json.loads(run("evaluate", file, *words).out) for file in (tmp_path / "as_given.safetensors", path))
    assert here["steps"][-1]["accuracy"] == pytest.approx(there["steps"][-1]["accuracy"], abs=0.01)


def test_random_spikes_are_those_of_the_conversion(run, trained, tmp_path):
    words = ("--data", "digits", "--steps", 8, "--test-rows", 50, "--seed", 3, "--quiet")
    made = run("spike", trained, *words, "--encode", "poisson", "--figures", "none", "--out", tmp_path / "o", "--json")
    again = json.loads(run("evaluate", tmp_path / "o", *words, "--json").out)
    converted = json.loads(made.out)["steps"]
    for key in ("accuracy", "undecided"):
        assert [row[key] for row in again["steps"]] == [row[key] for row in converted]


@pytest.mark.parametrize(
    ("subject", "words", "message"),
    [
        ("converted", ("--batch", 3), "--batch does not apply: "),
        ("converted", ("--normalise", "none"), "--normalise does not apply: "),
        ("converted", ("--network", "mlp:3"), "--network does not apply: "),
        ("trained", ("--steps", 3), "--steps does not apply: "),
        ("trained", ("--precision", "int8"), "weightsmith spike converts it"),
        ("converted", ("--split", "validation"), "without a validation split"),
    ],
)
def test_options_of_the_other_kind_of_network_are_refused(run, request, subject, words, message):
    answer = run("evaluate", request.getfixturevalue(subject), "--data", "digits", *words, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err


def test_a_silent_file_ends_with_code_1(run, trained, tmp_path):
    network = spike(trained, "digits", steps=2, test_rows=5, watch=0).network.with_factor(1e6)
    path = save_spiking(network, tmp_path / "silent.safetensors")
    answer = run("evaluate", path, "--data", "digits", "--steps", 2, "--test-rows", 5, "--quiet")
    assert (answer.code, answer.err) == (1, "weightsmith: dense1 never fires\n")


def test_inspect_and_log_know_spiking_files(run, converted):
    network = load_spiking(converted)
    report = json.loads(run("inspect", converted, "--json").out)
    assert [node["name"] for node in report["nodes"]] == [node.name for node in network.nodes]
    assert (report["neuron"], report["encode"], report["neurons"], report["classes"]) == ("if", "constant", 24, 10)
    assert report["parameters"] == 64 * 24 + 24 + 240 + 10
    neurons = next(node for node in report["nodes"] if node["kind"] == "neurons")
    assert neurons["thresholds"] == [
        float(network.populations[0].threshold.min()),
        float(network.populations[0].threshold.max()),
    ]
    shown = run("inspect", converted, "--layers", "dense*").out
    assert "spiking network 24 neurons" in " ".join(shown.split())  # a long path breaks the line
    assert "activation1 neurons" not in " ".join(shown.split())
    assert run("inspect", converted, "--layers", "conv*").code == 2
    lineage = json.loads(run("log", converted, "--json").out)
    assert lineage["weights"] == spiking_digest(network)
    assert lineage["lineage"]["operation"] == "spike if, constant"
    assert "trained on digits" in run("log", converted).out
