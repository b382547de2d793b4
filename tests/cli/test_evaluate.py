from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.torch import save_file

import weightsmith as ws
from weightsmith.core.records import unsealed
from weightsmith.core.statistics import wilson
from weightsmith.networks import Evaluation


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    data = ws.data.load("digits")
    made = ws.networks.mlp(64, 16, 10, seed=1)
    path = tmp_path_factory.mktemp("n") / "network.safetensors"
    return ws.save(made, path, classes=data.classes, normalisation=data.normalisation)


@pytest.fixture
def shared_data_folder(tmp_path):
    """A small Fashion-MNIST: ten test images in IDX files."""
    folder = tmp_path / "somewhere"
    folder.mkdir()
    pixels, labels = np.zeros((10, 28, 28), np.uint8), np.arange(10, dtype=np.uint8)
    for name, array in (("images-idx3", pixels), ("labels-idx1", labels)):
        head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
        (folder / f"t10k-{name}-ubyte").write_bytes(head + array.tobytes())
    return folder


def test_the_figures_are_those_of_the_library(run, network):
    answer = run("evaluate", network, "--data", "digits", "--json", "--quiet")
    result = Evaluation.from_dict(json.loads(answer.out))
    assert result == ws.evaluate(ws.load(network), ws.data.load("digits"))
    assert result.accuracy == wilson(result.correct, 360)
    shown = run("evaluate", network, "--data", "digits", "--quiet")
    assert f"{100 * result.accuracy.value:.1f} % [" in shown.out
    assert "of 360 rows (test)" in shown.out
    assert shown.err == answer.err == ""


def test_progress_and_notes_go_to_stderr(run, network):
    assert "evaluate: 360 of 360" in run("evaluate", network, "--data", "digits").err


def test_a_bar_not_reached_ends_with_code_1(run, network):
    answer = run("evaluate", network, "--data", "digits", "--least-accuracy", 99, "--quiet")
    assert answer.code == 1
    assert "is below the required 99 %" in answer.err
    assert "accuracy" in answer.out
    assert run("evaluate", network, "--data", "digits", "--least-accuracy", 0).code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "digit"), "did you mean 'digits'"),
        (("--data", "digits", "--network", "mpl:3"), "did you mean 'mlp'"),
        (("--data", "digits", "--network", "mlp:17"), "has shape (16, 64), the network needs (17, 64)"),
        (("--data", "digits", "--normalise", "imagnet"), "did you mean 'imagenet'"),
        (("--data", "digits", "--split", "tset"), "did you mean 'test'"),
        (("--data", "digits", "--split", "validation"), "without a validation split"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, network, options, message):
    answer = run("evaluate", network, *options, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, "")
    assert message in answer.err


def test_not_a_number_ends_with_code_1(run, tmp_path):
    network = ws.networks.mlp(64, 10)
    network.output.bias.data[3] = float("nan")
    answer = run("evaluate", ws.save(network, tmp_path / "n.safetensors"), "--data", "digits", "--quiet")
    assert (answer.code, len(answer.lines)) == (1, 1)
    assert "360 of 360 rows gave NaN or infinity" in answer.err


def test_data_that_are_not_here_are_code_3(run, network, tmp_path, monkeypatch):
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path))
    monkeypatch.setenv("WEIGHTSMITH_CACHE", str(tmp_path))
    answer = run("evaluate", network, "--data", "cifar10")
    assert (answer.code, len(answer.lines)) == (3, 1)
    assert "weightsmith data fetch cifar10" in answer.err


def test_removed_layers_are_skipped_or_kept_as_asked(run, tmp_path):
    network = ws.networks.resnet(8, (3, 8, 8), 2, shortcut="conv")
    network.layer1[0].conv2.weight.data.zero_()
    save_file({f"module.{name}": tensor for name, tensor in network.state_dict().items()}, tmp_path / "r.safetensors")
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).random((4, 192), np.float32), y=np.arange(4) % 2)
    command = ("evaluate", tmp_path / "r.safetensors", "--data", f"table:{tmp_path / 'd.npz'}")
    assert "removed layers are skipped: layer1.0.conv2" in run(*command).err
    assert "removed layers" not in run(*command, "--removed", "zero").err


def test_what_a_class_is_taken_for(run, tmp_path):
    network = ws.networks.mlp(64, 10)
    network.output.weight.data.zero_()
    network.output.bias.data[7] = 1.0
    answer = run("evaluate", ws.save(network, tmp_path / "n.safetensors"), "--data", "digits", "--quiet")
    rows = {line.split()[0]: line for line in answer.out.splitlines() if line[:1].isdigit()}
    assert rows["3"].split()[1:5] == ["37", "0", "0.0", "%"]
    assert rows["3"].split()[-3:] == ["7", "(37", "×)"]
    assert rows["7"].split()[1:5] == ["36", "36", "100.0", "%"]


def test_data_at_a_path_of_the_users_own(run, tmp_path, shared_data_folder):
    path = ws.save(ws.networks.mlp(784, 10), tmp_path / "n.safetensors")
    answer = run("evaluate", path, "--data", "fashion-mnist", "--data-path", shared_data_folder, "--quiet")
    assert (answer.code, "10 rows" in answer.out) == (0, True)


def test_the_folder_of_a_run_tells_its_data(run, network, tmp_path):
    copy = tmp_path / "network.safetensors"
    copy.write_bytes(network.read_bytes())
    missing = run("evaluate", tmp_path)
    assert (missing.code, len(missing.lines), missing.out) == (2, 1, "")
    assert "--data is missing: accuracy is measured on rows with labels" in missing.err
    (tmp_path / "record.json").write_text(json.dumps({"settings": {"data": "digits"}}))
    for file in (tmp_path, copy):
        answer = run("evaluate", file)
        assert (answer.code, "360 rows" in answer.out) == (0, True)
        assert answer.lines[0] == f"data: digits, as in the record of {file}"


def test_a_table_of_the_users_own(run, tmp_path):
    rows = np.random.default_rng(0).random((12, 3)).round(3)
    lines = ["label,a,b,c", *(f"{'cat' if i % 2 else 'dog'},{','.join(map(str, row))}" for i, row in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    path = ws.save(ws.networks.mlp(3, 2), tmp_path / "n.safetensors")
    answer = run("evaluate", path, "--data", f"table:{tmp_path / 't.csv'}", "--json", "--quiet")
    result = json.loads(answer.out)
    assert (result["images"], result["split"], sorted(result["classes"])) == (12, "train", ["cat", "dog"])


def test_a_path_serves_as_data_and_a_guessed_label_column_is_told(run, tmp_path):
    (tmp_path / "t.csv").write_text("kind,a,b\n0,1,2\n1,2,1\n")
    path = ws.save(ws.networks.mlp(2, 2), tmp_path / "n.safetensors")
    answer = run("evaluate", path, "--data", tmp_path / "t.csv", "--json")
    assert "the first column, 'kind', is taken for the label" in answer.err
    assert any("'kind'" in note for note in json.loads(answer.out)["notes"])


def test_a_network_of_the_users_own(run, tmp_path, monkeypatch):
    (tmp_path / "user_nets.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    from torch import nn

    path = ws.save(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), tmp_path / "n.safetensors")
    assert run("evaluate", path, "--data", "digits").code == 2
    assert run("evaluate", path, "--data", "digits", "--network", "user_nets:build").code == 0


@pytest.mark.data
@pytest.mark.slow
def test_the_published_accuracy_at_the_command_line(run, shared_data):
    path = shared_data / "weights" / "distiller_resnet20_4D_regularized_5Lremoved_finetuned.safetensors"
    answer = run("evaluate", path, "--data", "cifar10")
    assert "accuracy 91.12 % [90.55, 91.66] of 10,000 rows (test)" in " ".join(answer.out.split())
    assert "removed layers are skipped: layer1.0.conv1" in answer.err


def test_a_folder_holds_the_record(run, tmp_path):
    ws.save(ws.networks.mlp(64, 12, 10, seed=0), tmp_path / "net.safetensors")
    call = ("evaluate", tmp_path / "net.safetensors", "--data", "digits", "--quiet")
    printed = run(*call, "--out", tmp_path / "judged", "--json")
    assert printed.code == 0
    assert unsealed(json.loads((tmp_path / "judged" / "record.json").read_text())) == json.loads(printed.out)


def test_a_record_that_was_edited_is_refused(run, tmp_path):
    ws.train("mlp:4", "digits", epochs=1, out=tmp_path / "run")
    record = tmp_path / "run" / "record.json"
    record.write_text(record.read_text().replace('"seed": 0', '"seed": 1'))
    answer = run("evaluate", tmp_path / "run", "--quiet")
    assert answer.code == 3
    assert "changed after it was written" in answer.err


def test_classes_of_other_names_are_matched_by_order_and_that_is_told(run, tmp_path):
    rows = [(i % 2, i % 2 + i / 100) for i in range(40)]
    for name, words in (("a", "no yes"), ("b", "zno yes")):
        lines = "".join(f"{x},{words.split()[label]}\n" for label, x in rows)
        (tmp_path / f"{name}.csv").write_text("x,label\n" + lines)
    made = ("--network", "mlp:4", "--epochs", 1, "--out", tmp_path / "run", "--quiet")
    assert run("train", f"table:{tmp_path / 'a.csv'},label=label", *made).code in (0, 1)
    told = "the data have the class 'zno', which the network does not know: classes are matched by their order"
    answer = run("evaluate", tmp_path / "run", "--data", f"table:{tmp_path / 'b.csv'},label=label")
    assert told in " ".join((answer.out + answer.err).split())
