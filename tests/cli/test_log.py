from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import weightsmith as ws
from weightsmith.core.records import Lineage
from weightsmith.networks.rounding import to_int8


def test_the_ancestry_is_drawn_oldest_first(run, tmp_path):
    network = ws.networks.mlp(4, 3, 2)
    lineage = Lineage("initialised").then("trained on [x]", "a" * 64).then("reduced", "b" * 64)
    path = ws.save(network, tmp_path / "n.safetensors", lineage=lineage)
    answer = run("log", path)
    digest = ws.networks.weights_digest(network)
    order = [
        answer.out.index(text) for text in ("a" * 12, "initialised", "b" * 12, "trained on [x]", digest[:12], "reduced")
    ]
    assert order == sorted(order)
    report = json.loads(run("log", path, "--json").out)
    assert report["weights"] == digest
    assert Lineage.from_dict(report["lineage"]) == lineage


def test_a_file_of_another_tool_has_no_ancestors(run, tmp_path):
    save_file({"w": torch.ones(2, 2)}, tmp_path / "w.safetensors")
    answer = run("log", tmp_path / "w.safetensors")
    assert answer.code == 0
    assert "names no ancestors" in answer.out
    assert json.loads(run("log", tmp_path / "w.safetensors", "--json").out)["lineage"] is None


def test_an_int8_network_has_as_many_parameters_as_before_it_was_rounded(run, tmp_path):
    network = ws.networks.mlp(4, 3, 2)
    ws.save(to_int8(network, torch.rand(8, 4)), tmp_path / "int8.safetensors")
    count = sum(each.numel() for each in network.parameters())
    assert run("log", tmp_path / "int8.safetensors").out.strip().endswith(f"{count} parameters")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A network, one that is trained from it, and two made from that one, the second in folders of its own."""
    from weightsmith.training.loop import train

    monkeypatch.chdir(tmp_path)  # long names are cut
    train("mlp:4", ws.data.load("digits"), schedule=0.1, epochs=1, validation=0.1, out=tmp_path / "runs" / "big")
    big = ws.load(tmp_path / "runs" / "big")
    digest, lineage = ws.networks.weights_digest(big), big.card.lineage
    for folder, operation in (("small.safetensors", "reduced"), ("deep/er/network.safetensors", "smoothed")):
        with torch.no_grad():
            next(big.parameters()).mul_(2)
        ws.save(big, tmp_path / "runs" / folder, lineage=lineage.then(operation, digest))
    return Path("runs")


def test_a_folder_is_one_family_tree(run, made):
    first, trained, reduced, smoothed = run("log", made).out.splitlines()
    digest = ws.networks.weights_digest(ws.load(made / "big"))
    record = json.loads((made / "big" / "record.json").read_text())
    share = 100 * record["history"]["rows"][0]["validation_accuracy"]
    assert first.endswith("  made in memory")
    assert trained.startswith(f"└── {digest[:12]}  trained on digits")
    assert trained.endswith(f"  {made / 'big'}  {share:.2f} % (validation), 310 parameters")
    assert reduced.startswith("    ├── ")
    assert reduced.endswith(f"  reduced  {made / 'small.safetensors'}  310 parameters")
    assert smoothed.startswith("    └── ")
    assert smoothed.endswith(f"  smoothed  {made / 'deep' / 'er'}  310 parameters")


def test_one_network_is_told_as_in_the_tree(run, made):
    *_, trained = run("log", made / "big").out.splitlines()
    whole = next(line for line in run("log", made).out.splitlines() if f"  {made / 'big'}  " in line)
    assert trained == whole
    assert trained.endswith(" % (validation), 310 parameters")
    report = json.loads(run("log", made / "big", "--json").out)
    assert (report["parameters"], report["split"]) == (310, "validation")
    record = json.loads((made / "big" / "record.json").read_text())
    assert report["accuracy"] == record["history"]["rows"][0]["validation_accuracy"]
    assert run("log", made / "small.safetensors").out.endswith(f"{made / 'small.safetensors'}  310 parameters\n")
    (made / "big" / "record.json").write_text("{}")
    answer = run("log", made / "big")
    assert answer.out.endswith(f"{made / 'big'}  310 parameters\n")
    assert "record.json" in answer.err
    assert run("log", made / "big", "-q").err == ""


def test_chains_with_seeds_are_found_and_what_is_deeper_is_said(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # long names are cut
    for number, way in enumerate(("runs/two/seed-0/train", "runs/two/seed-10/train", "runs/two/seed-2/train")):
        ws.save(ws.networks.mlp(4, 3, 2, seed=number), tmp_path / way / "network.safetensors")
    answer = run("log", ".")
    assert answer.err == ""
    assert [line.split("  ")[2].rsplit("/", 2)[1] for line in answer.out.splitlines()] == [
        "seed-0",
        "seed-2",
        "seed-10",
    ]
    ws.save(ws.networks.mlp(4, 3, 2, seed=3), tmp_path / "runs/two/seed-3/more/deep/network.safetensors")
    answer = run("log", ".")
    assert len(answer.out.splitlines()) == 3
    assert answer.lines == ["left out: folders more than 4 levels deep, in runs/two/seed-3/more"]
    assert run("log", ".", "-q").err == ""
    assert len(run("log", "runs").out.splitlines()) == 4


def test_too_many_folders_are_said(run, tmp_path, monkeypatch):
    monkeypatch.setattr("weightsmith.cli.log._MOST_FOLDERS", 3)
    for number in range(4):
        ws.save(ws.networks.mlp(4, 3, 2, seed=number), tmp_path / str(number) / "network.safetensors")
    answer = run("log", tmp_path)
    assert len(answer.out.splitlines()) == 2  # beside the folder itself
    assert answer.lines == [f"left out: {tmp_path} contains more than 3 folders; give its subfolders instead"]


def test_several_networks_meet_in_their_ancestors(run, made):
    answer = run("log", made / "small.safetensors", made / "deep" / "er", made / "small.safetensors")
    lines = answer.out.splitlines()
    assert [line.split("─ ")[-1].split("  ")[1].split()[0] for line in lines] == [
        "made",
        "trained",
        "reduced",
        "smoothed",
    ]
    report = json.loads(run("log", made / "small.safetensors", made / "deep" / "er", "--json").out)
    assert [kin["depth"] for kin in report["family"]] == [0, 1, 2, 2]
    assert [each["file"] for each in report["networks"]] == [str(made / "small.safetensors"), str(made / "deep" / "er")]
    assert report["family"][1]["network"] == ws.networks.weights_digest(ws.load(made / "big"))
    assert report["family"][1]["names"] == []


def test_a_record_of_another_network_tells_nothing(run, made):
    network = ws.load(made / "small.safetensors")
    ws.save(network, made / "big" / "network.safetensors")
    assert "%" not in run("log", made).out


def test_what_cannot_be_read_is_left_out_with_a_note(run, made):
    (made / "broken.safetensors").write_bytes(b"no network at all")
    (made / "big" / "record.json").write_text("{}")
    answer = run("log", made)
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 4
    assert [name in answer.err for name in ("broken.safetensors", "record.json")] == [True, True]
    assert run("log", made, "--quiet").err == ""
    assert run("log", made / "broken.safetensors", made / "big").code == 3


def test_evaluations_and_spiking_networks_are_told_of(run, tmp_path):
    from weightsmith.training.loop import train

    data = ws.data.load("digits")
    trained = train("mlp:4", data, schedule=0.1, epochs=1, out=tmp_path / "a")
    found = ws.evaluate(trained.network, data)
    (tmp_path / "a" / "evaluation.json").write_text(found.to_json())
    spiked = ws.spike(trained.network, data, steps=5, test_rows=20, out=tmp_path / "b")
    _, plain, spiking = run("log", tmp_path).out.splitlines()
    assert plain.endswith(f"{100 * found.accuracy.value:.2f} % (test), 310 parameters")
    assert spiking.endswith(f"{100 * spiked.accuracy.value:.2f} % (test), 310 parameters")
    assert "spike if" in spiking


def test_files_of_other_tools_stand_alone_and_shards_together(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # long names are cut
    (tmp_path / "nets").mkdir()
    for name in ("one", "two"):
        save_file({"w": torch.full((2, 2), float(len(name)))}, tmp_path / "nets" / f"{name}.safetensors")
    answer = run("log", "nets")
    assert answer.code == 0
    digest = ws.networks.weights_digest({"w": torch.full((2, 2), 3.0)})
    assert answer.out.split() == [
        digest[:12],
        "nets/one.safetensors,",
        "nets/two.safetensors",
        "4",
        "parameters",
    ]
    save_file({"v": torch.ones(2, 2)}, tmp_path / "nets" / "two.safetensors")
    assert "names no ancestors" in run("log", "nets").out
    assert run("log", tmp_path / "missing").code == 3


def test_hostile_operations_stay_in_their_line(run, tmp_path):
    network = ws.networks.mlp(4, 3, 2)
    nasty = "[red]\x1b[2J\nx\u202e" + "y" * 10_000
    path = ws.save(network, tmp_path / "n.safetensors", lineage=Lineage(nasty).then(nasty, "[bold]" * 20))
    for words in ((path,), (path, path), (tmp_path,)):
        lines = run("log", *words).out.splitlines()
        assert all(line.isprintable() for line in lines)
        assert len(lines) < 6
        assert sum(line.count("[red]") for line in lines) == 2


def test_a_network_is_one_line_however_long(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = " ".join(["trained"] * 15)
    path = ws.save(ws.networks.mlp(4, 3, 2), Path("a" * 110) / "n.safetensors", lineage=Lineage(words))
    for given in (path, path.parent):
        (line,) = run("log", given).out.splitlines()
        assert line.endswith("23 parameters")
        assert len(line) > 200


def test_a_terminal_without_boxes_gets_ascii(run, made, monkeypatch):
    monkeypatch.setattr("weightsmith.cli.log.can_show", lambda text: text.isascii())
    lines = run("log", made).out.splitlines()
    assert [line.index(line.strip(" |`-")[:12]) for line in lines] == [0, 4, 8, 8]
    assert lines[2].startswith("    |-- ")
    assert lines[3].startswith("    `-- ")


def test_a_tailored_network_has_its_accuracy(run, tmp_path):
    data = ws.data.load("digits")
    found = ws.tailor(ws.train("mlp:6", data, epochs=1), data, params=0.7, rows=100, test_rows=40, out=tmp_path / "t")
    *_, last = run("log", tmp_path / "t").out.splitlines()
    assert f"{100 * found.record.judged.accuracy.value:.2f} % ({found.record.judging.split}), " in last
