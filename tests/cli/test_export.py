from __future__ import annotations

import dataclasses
import importlib.util
import json

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.cli import export as command
from weightsmith.spiking.files import load_spiking, save_spiking, spiking_digest
from weightsmith.spiking.nir import handover
from weightsmith.spiking.nir.exchange import NirExport, import_nir
from weightsmith.spiking.nir.export import export_nir
from weightsmith.spiking.nir.handover import HandoverCheck, LayerCheck
from weightsmith.spiking.spike import spike

pytest.importorskip("nir", reason="the extra nir is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def trained():
    return ws.train("mlp:24", "digits", optimiser="adam", schedule=0.01, epochs=3).network


@pytest.fixture(scope="module")
def hard(trained, folder):
    """The folder of a conversion that NIR can hold."""
    return spiked(trained, folder / "hard", neuron="if:hard")


@pytest.fixture(scope="module")
def pooled(folder):
    network = ws.networks.build("vgg:5,widths=[4,4,4],classifier=[8]", input_shape=(1, 8, 8), classes=10)
    return spiked(network, folder / "pooled", neuron="lif:0.9,reset=hard")


def spiked(network, path, *, balance="percentile:half=false", **options):
    spike(network, "digits", balance=balance, steps=4, test_rows=8, watch=0, out=path, **options)
    return path


def installed(monkeypatch, *packages):
    """Let these packages seem to be installed, and no others of those that are looked for."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name in packages else None)


def test_a_file_and_its_vector_are_written_and_read_again(run, hard, tmp_path):
    target = tmp_path / "net.nir"
    answer = run("export", hard, target, "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    report = json.loads(answer.out)
    written = NirExport.from_dict(report["export"])
    assert report["files"] == [str(target), str(tmp_path / "net.vector.npz")]
    assert {path.name for path in tmp_path.iterdir()} == {"net.nir", "net.vector.npz"}
    assert [node.kind for node in written.nodes] == ["Input", "Conv2d", "IF", "Conv2d", "Output"]
    back = import_nir(target)
    assert (str(back.neuron), back.classes) == ("if:reset=hard", 10)
    assert back.card.lineage.parent == spiking_digest(load_spiking(hard))
    shown = run("export", hard, target).out
    for words in ("if:reset=hard, hard reset, dt 1", "activation1 IF", "2 images, 4 steps", "net.vector.npz"):
        assert words in shown, words


def test_images_of_the_data_make_the_vector(run, hard, tmp_path):
    target = tmp_path / "net.nir"
    answer = run("export", hard, target, "--data", "digits", "--test-rows", 3, "--steps", 5, "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["export"]["images"] == 3
    stored = np.load(tmp_path / "net.vector.npz")
    images = ws.data.load("digits").test.x[:3].numpy()
    assert (stored["drive"] == images).all()
    assert int(stored["steps"]) == 5
    assert json.loads(run("export", hard, target, "--data", "digits", "--json").out)["export"]["images"] == 2


def test_rounding_and_sum_pools_are_told(run, pooled, tmp_path):
    target = tmp_path / "net.nir"
    plain = run("export", pooled, target)
    assert "SumPool2d" not in plain.out
    answer = run("export", pooled, target, "--rounding", 8, "--sumpool")
    assert answer.code == 0
    assert "SumPool2d" in answer.out
    assert "multiples of 2^-8" in answer.out
    assert "lif:0.9,reset=hard, hard reset, dt 0.0001" in answer.out
    report = json.loads(run("export", pooled, target, "--rounding", 8, "--sumpool", "--seed", 5, "--json").out)[
        "export"
    ]
    rows = ws.data.load("digits").test.x[:2]  # of the data and for the steps that the record names
    given = {"sumpool": True, "rounding": 8, "seed": 5, "x": rows, "steps": 4}
    assert NirExport.from_dict(report) == export_nir(load_spiking(pooled), tmp_path / "net.nir", **given)


def test_spikes_before_rounding_are_told_where_they_differ(run, hard, tmp_path):
    words = ("export", hard, tmp_path / "net.nir", "--data", "digits", "--rounding", 2)
    report = json.loads(run(*words, "--json").out)["export"]
    assert report["spikes"] != report["before"]
    assert f"({sum(report['before'].values()):,} before rounding)" in run(*words).out
    assert "before rounding" not in run(*words[:-2]).out


def test_a_soft_reset_is_noted(run, trained, tmp_path):
    path = spiked(trained, tmp_path / "soft")
    answer = run("export", path, tmp_path / "net.nir")
    assert answer.code == 0
    assert "if, soft reset, dt 1" in answer.out
    assert "NIR knows a hard reset only" in answer.out


def fake(difference):
    def compare(path, simulator):
        layers = (LayerCheck("activation1", 2000, 2000 + difference, difference), LayerCheck("[b]x", 10, 10, 0))
        return HandoverCheck(path.name, simulator, "if", "hard", 2, 32, layers, 0.0, {simulator: "1.2.3"})

    return compare


def test_spikes_are_compared_with_other_simulators(run, hard, tmp_path, monkeypatch):
    installed(monkeypatch, "nir", "nirtorch", "norse", "snntorch")
    monkeypatch.setattr(handover, "compare", fake(0))
    words = ("export", hard, tmp_path / "net.nir", "--check", "norse", "--check", "snntorch", "--check", "norse")
    answer = run(*words)
    assert answer.code == 0
    lines = [" ".join(line.split()) for line in answer.out.splitlines()]
    assert [line for line in lines if line.startswith("Spikes here and in")] == [
        "Spikes here and in norse 1.2.3",
        "Spikes here and in snntorch 1.2.3",
    ]
    assert "activation1 2,000 2,000 0 0" in lines
    assert "[b]x 10 10 0 0" in lines
    assert "loading into norse" in answer.err
    report = json.loads(run(*words, "--json", "--quiet").out)
    assert [check["simulator"] for check in report["checks"]] == ["norse", "snntorch"]
    monkeypatch.setattr(handover, "compare", fake(2))
    assert run(*words, "--quiet").code == 0
    monkeypatch.setattr(handover, "compare", fake(20))
    far = run(*words, "--quiet")
    assert (far.code, len(far.lines)) == (1, 1)
    assert "norse counts other spikes: 1 % of those of activation1 differ" in far.err


def test_what_is_not_installed_is_named_before_anything_is_written(run, hard, tmp_path, monkeypatch):
    target = tmp_path / "net.nir"
    installed(monkeypatch, "nir", "norse")
    for simulator, package in (("spikingjelly", "spikingjelly"), ("norse", "nirtorch")):
        answer = run("export", hard, target, "--check", simulator)
        assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
        assert f"pip install {package}" in answer.err
    installed(monkeypatch)
    answer = run("export", hard, target)
    assert answer.code == 2
    assert answer.err.startswith("weightsmith: writing NIR files needs an optional package: pip install '.[nir]' in")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("net.nir", "--check", "nors"), "did you mean 'norse'"),
        (("net.nir", "--rounding", "0"), "--rounding"),
        (("net.nir", "--data", "digit"), "did you mean 'digits'"),
        (("net.nir", "--steps", "0"), "--steps"),
        (("net.onnx",), "NIR files end in .nir"),
        ((".",), "writes a file"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, hard, tmp_path, words, message):
    answer = run("export", hard, tmp_path / words[0], *words[1:], "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, ""), answer.err
    assert message in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neuron": "if:delay=true"}, "fires one step late"),
        ({"neuron": "lif:0.9", "mismatch": "mismatch:leak=0.1"}, "export it without mismatch"),
    ],
)
def test_what_nir_cannot_hold_is_refused_by_name(run, trained, tmp_path, options, message):
    path = spiked(trained, tmp_path / "snn", **options)
    answer = run("export", path, tmp_path / "net.nir")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err
    assert not (tmp_path / "net.nir").exists()


def test_files_that_are_no_spiking_networks_end_with_code_3(run, trained, hard, tmp_path):
    plain = ws.save(trained, tmp_path / "plain.safetensors")
    answer = run("export", plain, tmp_path / "net.nir")
    assert (answer.code, "is not a spiking network: spike makes one" in answer.err) == (3, True)
    (tmp_path / "broken.safetensors").write_bytes((hard / "network.safetensors").read_bytes()[:-4])
    for name in ("broken", "none"):
        answer = run("export", tmp_path / f"{name}.safetensors", tmp_path / "net.nir")
        assert (answer.code, len(answer.lines), answer.out) == (3, 1, "")


def test_names_of_nodes_are_never_markup(run, trained, tmp_path):
    network = spike(trained, "digits", balance="percentile:half=false", steps=2, test_rows=4, watch=0).network
    renamed = {"dense1": "[red]a[/red]"}
    nodes = [
        dataclasses.replace(
            node,
            name=renamed.get(node.name, node.name),
            **({"source": renamed[node.source]} if getattr(node, "source", None) in renamed else {}),
        )
        for node in network.nodes
    ]
    path = save_spiking(dataclasses.replace(network, nodes=tuple(nodes)), tmp_path / "n.safetensors")
    answer = run("export", path, tmp_path / "net.nir")
    assert answer.code == 0, answer.err
    assert "into [red]a[/red]" in answer.out


def test_the_simulators_are_those_that_the_library_knows():
    assert set(command._SIMULATORS) == set(handover._LOADERS)


def test_any_network_is_written_as_onnx_and_in_8_bits(run, trained, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    ws.save(trained, tmp_path / "net.safetensors")
    answer = run("export", tmp_path / "net.safetensors", "--to", "onnx", "--int8", "--data", "digits", "--json")
    assert answer.code == 0
    report = json.loads(answer.out)
    assert [each["bits"] for each in report["export"]] == [32, 8]
    assert [(each["file"], each["batch"]) for each in report["timings"]] == [
        (file, batch) for batch in (1, 64) for file in ("net.onnx", "net-int8.onnx")
    ]
    assert all((tmp_path / file).exists() for file in ("net.onnx", "net-int8.onnx"))
    shown = run("export", tmp_path / "net.safetensors", tmp_path / "other.onnx", "--to", "onnx")
    assert shown.code == 0
    assert "same class" in shown.out


def test_what_belongs_to_one_format_is_refused_with_the_other(run, hard, tmp_path):
    assert "--int8 belongs to --to onnx" in run("export", hard, tmp_path / "a.nir", "--int8").err
    ws.save(ws.networks.mlp(4, 3, 2), tmp_path / "net.safetensors")
    assert "needs data" in run("export", tmp_path / "net.safetensors", "--to", "onnx", "--int8").err
    assert "unknown format" in run("export", hard, "--to", "tflite").err
    assert "NET.nir, or NET.py for plain torch" in run("export", hard).err


def test_a_torch_module_is_written_for_neurons_that_nir_has_not(run, trained, folder, tmp_path):
    few = spiked(trained, folder / "signed", balance="mse", neuron="if:signed=true")
    target = tmp_path / "net.py"
    answer = run("export", few, target, "--data", "digits", "--steps", "4", "--json", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    report = json.loads(answer.out)
    assert {path.name for path in tmp_path.iterdir()} == {"net.py", "net.safetensors"}
    assert sum(each["differ"] for each in report["export"]["populations"]) == 0
    assert report["export"]["populations"][0]["ours"] > 0
    shown = run("export", few, target, "--steps", "2", "--quiet")
    assert shown.code == 0
    assert "if:signed=true" in shown.out
    refused = run("export", few, target, "--rounding", "8")
    assert refused.code == 2
    assert "is for NIR files only" in refused.err
