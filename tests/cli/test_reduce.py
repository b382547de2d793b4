from __future__ import annotations

import csv
import dataclasses
import json
import sys

import pytest
import torch
from safetensors.torch import save_file

import weightsmith as ws
from weightsmith.networks.layer_plan import norm_plan
from weightsmith.reducing import reduce as reducing
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reducing.search.state import SearchState
from weightsmith.reporting.describe import describe

QUICK = ("--quiet", "--no-latency")
SEARCH = "genetic:population=12,generations=4,rows=200"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run: a network of 24 sigmoids on digits, the epochs 0 and 1 kept."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    ws.train("mlp:24,activation=sigmoid", "digits", optimiser="adam", schedule=0.02, epochs=3, out=folder, keep=(0, 1))
    return folder


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    data = ws.data.load("digits")
    network = ws.networks.build("resnet:8,widths=[4,6,8]", input_shape=(1, 8, 8), classes=10)
    path = tmp_path_factory.mktemp("nets") / "resnet.safetensors"
    return ws.save(network, path, classes=data.classes, normalisation=data.normalisation)


@pytest.fixture(scope="module")
def reduction(trained):
    """A finished reduction of the network, to be changed by tests."""
    return reducing.reduce(trained, "digits", by="angles:60", latency=False, random=3)


def changed(reduction, **changes):
    return dataclasses.replace(reduction, record=dataclasses.replace(reduction.record, **changes))


def test_the_numbers_are_those_of_the_library(run, trained, reduction):
    answer = run("reduce", trained, "--data", "digits", "--by", "angles:60", "--random", 3, "--json", *QUICK)
    assert (answer.code, answer.err) == (0, "")
    (found,) = json.loads(answer.out)["reductions"]
    assert ReductionRecord.from_dict(found["record"]) == reduction.record
    assert (found["latency"], found["look_at"]) == (None, [])
    assert json.loads(answer.out)["description"]["answer"] == describe(reduction.record, str(trained)).lead


def test_the_table_tells_sizes_accuracies_and_what_stands_beside(run, trained, reduction):
    record = reduction.record
    answer = run("reduce", trained, "--data", "digits", "--by", "angles:60", "--random", 3, "--quiet")
    assert answer.code == 0
    (site,) = record.sites
    for words in (
        f"{24:>6} {site.after:>4}",
        f"{record.whole.parameters:,}",
        f"{record.reduced.macs:,}",
        f"{100 * record.measured.whole.value:.1f} % [",
        f"{100 * record.measured.cut.value:.1f} % [",
        "of 360 rows (test)",
        f"{record.random.mean:.1f} %",
        f"standard deviation {record.random.deviation:.1f}",
        "time per image, batch 1 ",
        "time per image, batch 64",
        "similar",
        "gives the output of the network output",
        "--out FOLDER: the smaller network was not kept",
    ):
        assert words in answer.out, words


def test_a_folder_holds_a_network_that_is_smaller_and_runs(run, trained, tmp_path):
    folder = tmp_path / "small"
    answer = run("reduce", trained, "--data", "digits", "--by", "angles:60", "--out", folder, *QUICK)
    assert answer.code == 0
    assert "was not kept" not in answer.out
    assert {"network.safetensors", "record.json", "journal.jsonl", "summary.csv", "sites.csv"} <= {
        path.name for path in folder.iterdir()
    }
    record = ReductionRecord.from_json((folder / "record.json").read_text())
    evaluated = json.loads(run("evaluate", folder, "--data", "digits", "--json", "--quiet").out)
    assert evaluated["accuracy"]["value"] == record.measured.reduced.value
    assert ws.load(folder).dense1.out_features == record.sites[0].after < 24
    (row,) = csv.DictReader((folder / "sites.csv").read_text().splitlines())
    assert (row["site"], row["before"], row["after"]) == ("dense1", "24", str(record.sites[0].after))
    first = (folder / "record.json").read_bytes()
    again = run("reduce", trained, "--data", "digits", "--by", "angles:60", "--out", folder, *QUICK)
    assert (again.code, (folder / "record.json").read_bytes()) == (0, first)


def test_methods_are_compared_each_from_the_same_network(run, trained, tmp_path):
    methods = ("angles:60", SEARCH, "pareto:population=12,generations=3,rows=200")
    words = [word for method in methods for word in ("--by", method)]
    table, figures, out = tmp_path / "t.csv", tmp_path / "figures", tmp_path / "out"
    answer = run(
        "reduce", trained, "--data", "digits", *words, "--csv", table, "--figures", figures, "--out", out, *QUICK
    )
    assert answer.code == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["by"].partition(":")[0] for row in rows] == ["angles", "genetic", "pareto"]
    assert {row["parameters_before"] for row in rows} == {"1810"}
    for row in rows:
        assert f"{int(row['parameters_after']):,}" in answer.out
        assert f"{100 * float(row['accuracy_reduced']):.1f} % [" in answer.out
        assert row["time_ratio_1"] == ""
    assert {path.name for path in figures.iterdir()} == {
        "sizes.svg",
        "trace-2.svg",
        "trace-3.svg",
        "front-3.svg",
    }
    assert [path.name[:2] for path in sorted(out.iterdir()) if path.is_dir()] == ["1-", "2-", "3-"]
    alone = run("reduce", trained, "--data", "digits", "--by", SEARCH, "--json", *QUICK)
    (found,) = json.loads(alone.out)["reductions"]
    assert str(found["record"]["reduced"]["parameters"]) == rows[1]["parameters_after"]


def test_one_figure_goes_to_the_file_named_several_beside_it(run, trained, tmp_path):
    def draw(by):
        return run("reduce", trained, "--data", "digits", "--by", by, "--figures", tmp_path / "f.png", *QUICK)

    assert draw("angles:60").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["f.png"]
    assert draw(SEARCH).code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"f.png", "f-sizes.png", "f-trace.png"}


def test_a_target_is_met_by_every_plan(run, trained, tmp_path):
    written = norm_plan(ws.load(trained), 0.5).save(tmp_path / "plan.json")
    for plan in ("uniform", "norm", "alpha", written):
        words = ("--by", "magnitude", "--target", "params:0.5", "--plan", plan, "--random", 0)
        answer = run("reduce", trained, "--data", "digits", *words, "--json", *QUICK)
        assert answer.code == 0, answer.err
        record = json.loads(answer.out)["reductions"][0]["record"]
        assert record["reduced"]["parameters"] <= 0.5 * record["whole"]["parameters"]
        assert record["random"] is None
        if plan == "alpha":
            assert record["settings"]["plan"].startswith("alpha (ks)")


def test_rewinding_needs_the_run_and_its_epoch(run, trained):
    words = ("--data", "digits", "--by", "angles:60", *QUICK)
    answer = run("reduce", trained, *words, "--recover", "rewind:1")
    assert answer.code == 0
    assert "after rewind:1" in answer.out
    alone = run("reduce", trained / "network.safetensors", *words, "--recover", "rewind:1")
    assert (alone.code, alone.out, len(alone.lines)) == (2, "", 1)
    assert "needs the folder of the training run" in alone.err
    other = run("reduce", trained, *words, "--recover", "rewind:1", "--normalise", "none")
    assert (other.code, "leave out --normalise" in other.err) == (2, True)
    assert run("reduce", trained, *words, "--recover", "rewind:2").code == 2


def test_training_from_scratch_stands_beside(run, trained):
    words = ("--by", "angles:60", "--refit", "none", "--recover", "iterate:2,epochs=1", "--scratch", "fine-tune:1")
    answer = run("reduce", trained, "--data", "digits", *words, *QUICK)
    assert answer.code == 0
    assert "from scratch" in answer.out
    assert "3 seeds" in answer.out
    assert "after iterate:rounds=2,epochs=1" in answer.out


def test_a_recovery_that_loses_is_exit_code_1_with_the_reason_and_the_network_as_cut(run, trained):
    words = ("--data", "digits", "--by", "magnitude", "--target", "params:0.5", "--no-latency", "--recover")
    answer = run("reduce", trained, *words, "fine-tune:2,rate=5")
    assert answer.code == 1
    assert "recovery lost, so the network stays as it was cut" in answer.err.replace("\n", " ")
    assert "the rate 5 is too large" in (answer.out + answer.err).replace("\n", " ")
    assert "try distill" in answer.out + answer.err
    assert "more epochs" not in answer.out


def test_progress_tells_the_stage(run, trained):
    err = run("reduce", trained, "--data", "digits", "--by", SEARCH, "--recover", "fine-tune:1", "--no-latency").err
    assert "reduce: genetic:population=12,generations=4,rows=200: 4 of 4" in err
    assert "reduce: recovery: 1 of 1" in err
    assert "reduce: measuring: 360 of 360" in err


def test_an_interrupted_search_goes_on_and_ends_with_the_same_bytes(run, trained, tmp_path, monkeypatch):
    words = ("reduce", trained, "--data", "digits", "--by", SEARCH, "--no-latency")
    write, seen = SearchState.write, []

    def stop(keeper, state):
        write(keeper, state)
        seen.append(state.generation)
        if state.generation == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(SearchState, "write", stop)
    answer = run(*words, "--out", tmp_path / "a")
    assert answer.code == 130
    assert "the same command resumes" in answer.err
    assert "nothing is kept without --out" in run(*words).err
    monkeypatch.setattr(
        SearchState, "write", lambda keeper, state: (write(keeper, state), seen.append(state.generation))
    )
    seen.clear()
    assert run(*words, "--out", tmp_path / "a").code == 0
    assert min(seen) == 3
    assert run(*words, "--out", tmp_path / "b").code == 0
    for name in ("record.json", "network.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_convolutional_network_is_cut_inside_its_blocks(run, resnet, tmp_path):
    words = (
        "--by",
        "magnitude",
        "--target",
        "macs:0.8",
        "--random",
        2,
        "--layers",
        "layer*.conv1",
        "--out",
        tmp_path / "o",
    )
    answer = run("reduce", resnet, "--data", "digits", *words, *QUICK)
    assert answer.code == 0, answer.err
    assert "layer1.0.conv1" in answer.out
    assert "padded or joined channels" in answer.out
    small = ws.load(tmp_path / "o")
    assert small.layer2[0].conv1.out_channels < 6
    assert small(torch.zeros(1, 1, 8, 8)).shape == (1, 10)


def test_without_the_extra_dense_networks_can_be_cut_and_others_name_it(run, trained, resnet, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    answer = run("reduce", resnet, "--data", "digits", "--by", "angles:60", *QUICK)
    assert (answer.code, answer.out) == (2, "")
    assert "pip install '.[prune]'" in answer.err
    assert run("reduce", trained, "--data", "digits", "--by", "angles:60", *QUICK).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--by", "angles:200"), "angle must be ≤ 90, not 200"),
        (("--by", "angle:45"), "did you mean 'angles'"),
        (("--by", "genetic:population=0"), "population must be ≥ 2, not 0"),
        (("--by", "angles:45", "--by", "genetic:50,elite=0"), "elite must be ≥ 1"),
        (("--by", "angles:45", "--by", "angles:45.0"), "is given twice"),
        (("--by", "angles:45", "--target", "params:1.5"), "keep must be < 1, not 1.5"),
        (("--by", "angles:45", "--target", "parms:0.5"), "did you mean 'params'"),
        (("--by", "angles:45", "--layers", "dense7"), "unknown layer 'dense7'"),
        (("--by", "angles:45", "--layers", "output"), "output: cannot be cut: gives the output of the network"),
        (("--by", "magnitude"), "give a target, such as --target params:0.5"),
        (("--by", "angles:45", "--plan", "norm"), "needs a target, such as"),
        (("--by", "angles:45", "--plan", "unifrom", "--target", "params:0.5"), "did you mean 'uniform'"),
        (("--by", "angles:45", "--recover", "finetune:3"), "did you mean 'fine-tune'"),
        (("--by", "angles:45", "--scratch", "rewind:3"), "--scratch must be one of fine-tune, not rewind:3"),
        (("--by", "angles:45", "--least-accuracy", "0.9"), "is in per cent, such as 90"),
        (("--by", "angles:45", "--figures", "a.jpg"), "give a .svg, .png or .pdf file"),
        (("--by", "angles:45", "--rows", "0"), "--rows"),
        (("--by", "magnitude", "--target", "params:0.001"), "cannot be met: one unit per layer"),
        ((), "--by"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(run, trained, words, message):
    answer = run("reduce", trained, "--data", "digits", *words, "--quiet")
    assert (answer.code, len(answer.lines), answer.out) == (2, 1, ""), answer.err
    assert message in answer.err


def test_files_that_cannot_be_read_or_written_end_with_code_3(run, trained, tmp_path):
    words = ("--data", "digits", "--by", "angles:45", *QUICK)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    assert run("reduce", tmp_path / "broken.safetensors", *words).code == 3
    assert run("reduce", tmp_path / "none.safetensors", *words, "--recover", "rewind:1").code == 3
    (tmp_path / "plan.json").write_text("{}")
    answer = run("reduce", trained, *words, "--target", "params:0.5", "--plan", tmp_path / "plan.json")
    assert (answer.code, "is not a plan of layers" in answer.err) == (3, True)
    assert run("reduce", trained, *words, "--target", "params:0.5", "--plan", tmp_path / "no.json").code == 3


def test_the_network_that_comes_in_is_never_written_over(run, trained, resnet):
    before = (trained / "network.safetensors").read_bytes()
    for file in (trained, trained / "network.safetensors"):
        answer = run("reduce", file, "--data", "digits", "--by", "angles:45", "--out", trained, *QUICK)
        assert (answer.code, "which is never overwritten" in answer.err) == (2, True)
    assert (trained / "network.safetensors").read_bytes() == before
    assert run("reduce", resnet, "--data", "digits", "--by", "angles:45", "--csv", resnet.parent, *QUICK).code == 2


def test_a_target_not_met_and_a_bar_not_reached_end_with_code_1(run, trained):
    words = ("reduce", trained, "--data", "digits", *QUICK)
    answer = run(*words, "--by", "angles:1", "--target", "params:0.5")
    assert (answer.code, len(answer.lines)) == (1, 1)
    assert "of the parameters are left, not the target of 50 %" in answer.err
    assert "nothing was removed" in answer.out
    low = run(*words, "--by", "random", "--by", "magnitude", "--target", "params:0.1", "--least-accuracy", 90)
    assert low.code == 1
    assert "random: accuracy" in low.err
    assert "is below the required 90 %" in low.err
    assert run(*words, "--by", "angles:45", "--least-accuracy", 5).code == 0


def test_a_refused_site_is_told_and_ends_with_code_1(run, trained, reduction, monkeypatch):
    (site,) = reduction.sites
    refused = dataclasses.replace(site, kept=tuple(range(24)), refused="the cut network answers otherwise by 0.3")
    monkeypatch.setattr(reducing, "reduce", lambda *_args, **_options: changed(reduction, sites=(refused,)))
    answer = run("reduce", trained, "--data", "digits", "--by", "angles:60", *QUICK)
    assert answer.code == 1
    assert answer.err == "weightsmith: dense1 was left whole: the cut network answers otherwise by 0.3\n"
    assert "look at    dense1 was left whole: the cut network answers otherwise" in answer.out
    assert "refused" in run("reduce", trained, "--data", "digits", "--by", "angles:60", "--by", "angles:50", *QUICK).out


HOSTILE = "[bold]evil[/bold][link=file:///etc/passwd]"

NETWORK = f"""
from torch import nn
def build():
    network = nn.Sequential()
    network.add_module("flatten", nn.Flatten())
    network.add_module({HOSTILE!r}, nn.Linear(64, 12))
    network.add_module("act", nn.Sigmoid())
    network.add_module("out", nn.Linear(12, 10))
    return network
"""


def test_names_of_layers_are_never_markup(run, tmp_path, monkeypatch):
    (tmp_path / "hostile_network.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    import hostile_network

    save_file(hostile_network.build().state_dict(), tmp_path / "n.safetensors")
    words = (tmp_path / "n.safetensors", "--data", "digits", "--network", "hostile_network:build", "--quiet")
    answer = run("reduce", *words, "--by", "angles:80", "--by", "angles:70", "--no-latency", "--random", 0)
    assert (answer.code, HOSTILE in answer.out) == (0, True), answer.err
    alone = run("reduce", *words, "--by", "angles:80", "--no-latency", "--random", 0)
    assert HOSTILE in alone.out


def test_a_search_can_pay_in_synaptic_operations(run, tmp_path):
    assert run("train", "digits", "--network", "mlp:20", "--epochs", 2, "--out", tmp_path / "net", "--quiet").code == 0
    search = ("--by", "genetic:50,generations=3,population=6,rows=200", "--random", 0, "--no-latency", "--quiet")
    for price in ("units", "synaptic"):
        answer = run(
            "reduce", tmp_path / "net", "--data", "digits", *search, "--price", price, "--out", tmp_path / price
        )
        assert answer.code == 0, answer.err
    report = [json.loads((tmp_path / price / "record.json").read_text())["settings"] for price in ("units", "synaptic")]
    assert report[0]["price"] is None
    assert "SynapticPrice" in report[1]["price"]
    refused = run("reduce", tmp_path / "net", "--data", "digits", "--by", "groups", "--price", "synaptic")
    assert refused.code == 2
    assert "groups does not search" in refused.err
