"""``grade`` on whole networks: numbers of other tools, of the documents, and properties of any network."""

from __future__ import annotations

import csv
import json
import logging
import math
import re
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.core.errors import DataMismatch, FileRefused, OptionError, UnknownName, UsageError
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Grades, Status, VerdictKind
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.weights import Weights, open_weights

QUICK = "fast:resamples=50"


def seeded(network: nn.Module, seed: int = 0) -> nn.Module:
    """Student-t weights, so that there are tails, and nothing depends on a global generator."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.from_numpy(rng.standard_t(3, tuple(parameter.shape)) * 0.05))
    return network


def small(seed: int = 0) -> nn.Module:
    return seeded(
        nn.Sequential(
            nn.Conv2d(3, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 24, 3),
            nn.Flatten(),
            nn.Linear(24 * 4, 40),
            nn.Linear(40, 10),
        ),
        seed,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "network.safetensors"
    save_file(small().state_dict(), path)
    return path


# the peer's numbers

SAME_NAME = [
    "alpha",
    "xmin",
    "D",
    "sigma",
    "norm",
    "log_norm",
    "lambda_max",
    "log_spectral_norm",
    "alpha_weighted",
    "log_alpha_norm",
    "stable_rank",
    "entropy",
    "rank_loss",
    "sv_max",
    "Q",
    "N",
    "M",
]
OTHER_NAME = {"rank": "matrix_rank", "tail": "num_pl_spikes", "evals": "num_evals"}


def peer_rows(shared_data: Path, name: str) -> list[dict[str, str]]:
    """Layers with at least 20 eigenvalues: below that the peer contradicts itself (see its documentation)."""
    folder = shared_data.parent / "reference" / "grade"
    if not folder.is_dir():
        pytest.skip("needs the peer's tables beside WEIGHTSMITH_DATA (reference/grade)")
    with (folder / f"ww077_{name}.csv").open() as table:
        return [row for row in csv.DictReader(table) if int(row["num_evals"]) >= 20]


def assert_same(ours: dict[str, object], theirs: dict[str, str]) -> None:
    """Every column but ``sv_min`` (wrong there for convolutions) and ``weak_rank_loss`` (an absolute bound there)."""
    columns = {name: name for name in SAME_NAME} | OTHER_NAME
    found = {name: ours[name] for name in columns}
    expected = {name: float(theirs[column]) for name, column in columns.items()}
    assert found == pytest.approx(expected, rel=2e-6, abs=2e-6), theirs["name"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("network", "table", "count"),
    [
        ("akamaster_resnet20", "resnet20_pooled", 19),
        ("akamaster_resnet32", "resnet32_pooled", 31),
        ("distiller_resnet20_dense", "dist_dense_pooled", 20),
    ],
)
def test_weightwatcher_agrees_on_every_pooled_layer(shared_data, network, table, count):
    rows = peer_rows(shared_data, table)
    assert len(rows) == count
    found = grade(shared_data / "weights" / f"{network}.safetensors", evidence="none")
    for row in rows:
        assert_same(found[f"module.{row['name']}"].row(), row)


@pytest.mark.data
def test_weightwatcher_agrees_on_every_slice(shared_data):
    rows = peer_rows(shared_data, "resnet20_slices")
    assert len(rows) == 9 * 11  # 16 channels give 16 eigenvalues, too few; the rest are 32 and 64
    found = grade(shared_data / "weights/akamaster_resnet20.safetensors", evidence="none", conv="slices")
    ours = {(layer.name, layer.slice): layer.row() for layer in found.layers}
    for row in rows:
        assert_same(ours[f"module.{row['name']}", int(row["slice_id"])], row)


@pytest.mark.data
@pytest.mark.parametrize("way", [{"method": "svd"}, {"precision": "float32"}])
def test_other_ways_of_computing_agree_with_weightwatcher_too(shared_data, way):
    found = grade(shared_data / "weights/akamaster_resnet20.safetensors", evidence="none", **way)
    for row in peer_rows(shared_data, "resnet20_pooled"):
        ours = found[f"module.{row['name']}"].fit
        assert ours.alpha == pytest.approx(float(row["alpha"]), abs=1e-3)
        assert ours.xmin == pytest.approx(float(row["xmin"]), rel=1e-4)


@pytest.mark.parametrize("layer", ["heavy", "tall", "wide", "conv", "low_rank"])
def test_weightwatcher_agrees_on_layers_that_were_made_up(reference, unpack, layer):
    vectors = reference("weightwatcher_layers")
    expected = vectors["pooled"][layer]
    found = grade({f"{layer}.weight": torch.from_numpy(unpack(vectors["layers"][layer]).copy())}, evidence="none")
    row = found.layers[0].row()
    columns = {name: name for name in SAME_NAME if name in expected} | OTHER_NAME
    assert {name: row[name] for name in columns} == pytest.approx(
        {name: expected[column] for name, column in columns.items()}, rel=1e-5
    )


# the document's numbers


@pytest.mark.data
def test_alpha_hat_of_the_resnet_series(shared_data):
    """Eq. 3 over slices with at least eight columns, without and with 1/N, and what needs no fit."""
    found = [
        grade(shared_data / f"weights/akamaster_resnet{depth}.safetensors", evidence="none")
        for depth in (20, 32, 44, 56)
    ]

    def series(name: str) -> list[float]:
        return [network.measure(name).value for network in found]

    assert series("alpha_hat_raw") == pytest.approx([128.9, 72.8, -45.2, -158.2], abs=0.05)
    assert series("alpha_hat") == pytest.approx([-581.8, -1057.8, -1605.0, -2097.7], abs=0.05)
    assert series("alpha") == pytest.approx([4.177, 4.817, 4.548, 4.583], abs=5e-4)
    products = zip(series("log_product_spectral_norm"), (20, 32, 44, 56), strict=True)
    assert [2 * value / layers for value, layers in products] == pytest.approx([0.549, 0.309, 0.164, 0.096], abs=5e-4)
    for name in ("alpha_hat_raw", "alpha_hat", "log_spectral_norm"):
        assert series(name) == sorted(series(name), reverse=True)  # the order of the errors 8.27, 7.37, 6.90, 6.61 %
    assert [network.coverage.fitted for network in found] == [20, 32, 44, 56]


@pytest.mark.data
def test_alpha_hat_does_not_depend_on_how_the_rows_are_made(shared_data):
    path = shared_data / "weights/akamaster_resnet20.safetensors"
    found = [
        grade(path, evidence="none", conv=conv, normalise=normalise).measure("alpha_hat_raw").value
        for conv in ("pooled", "slices")
        for normalise in ("none", "seed")
    ]
    assert found == pytest.approx([found[0]] * 4, rel=1e-9)


ZEROED = {"layer1.0.conv1", "layer1.0.conv2", "layer1.1.conv1", "layer1.1.conv2", "layer2.2.conv2"}
SIZES = {"N", "M", "matrices", "evals", "parameters"}


@pytest.mark.data
@pytest.mark.parametrize("evidence", ["none", QUICK])
def test_figure_4_zeroed_layers_have_no_number_and_spoil_none(shared_data, evidence):
    folder = shared_data / "weights"
    tuned = grade(folder / "distiller_resnet20_4D_regularized_5Lremoved_finetuned.safetensors", evidence=evidence)
    removed = [layer for layer in tuned.layers if not layer.fitted]
    assert {layer.name.removeprefix("module.") for layer in removed} == ZEROED
    for layer in removed:
        assert layer.status is Status.ZERO
        assert layer.verdict.kind is VerdictKind.CANNOT_BE_FITTED
        numbers = {key for key, value in layer.row().items() if isinstance(value, int | float)}
        assert numbers == SIZES
        assert not layer.eigenvalues.size
    assert tuned.coverage.line == "17 of 22 layers fitted, with 252,464 of 272,474 parameters (92.66 %)"
    assert {measure.name for measure in tuned.measures if measure.value is None} == set()
    assert all(math.isfinite(measure.value) for measure in tuned.measures)
    assert tuned.measure("alpha").layers == 17
    dense = grade(folder / "distiller_resnet20_dense.safetensors", evidence=evidence)
    assert dense.coverage.line.startswith("22 of 22 layers fitted")
    assert dense.measure("alpha").layers == 22
    assert tuned.measure("alpha").value == pytest.approx(3.24, abs=0.005)
    assert dense.measure("alpha").value == pytest.approx(4.20, abs=0.005)


@pytest.mark.data
def test_figure_4_norms_of_some_layers_grow_and_alpha_of_the_living_does_not(shared_data):
    names = ("dense", "4D_regularized_5Lremoved_finetuned")
    dense, tuned = (
        grade(shared_data / f"weights/distiller_resnet20_{name}.safetensors", evidence="none", normalise="seed")
        for name in names
    )
    living = [layer.name for layer in tuned.layers if layer.fitted]
    growth = {name: tuned[name].metrics.lambda_max / dense[name].metrics.lambda_max for name in living}
    assert sum(ratio > 1 for ratio in growth.values()) == 11
    assert {name for name, ratio in growth.items() if ratio > 1.5} == {"module.conv1", "module.layer2.0.conv2"}
    mean_dense, mean_tuned = (np.mean([graded[name].alpha for name in living]) for graded in (dense, tuned))
    assert (mean_dense, mean_tuned) == pytest.approx((4.43, 3.24), abs=0.005)


# promises


def test_a_module_its_state_dict_and_its_file_have_the_same_numbers(file):
    module = small()
    kept = [
        "name",
        "alpha",
        "xmin",
        "D",
        "tail",
        "lambda_max",
        "alpha_low",
        "alpha_high",
        "spikes",
        "verdict",
        "N",
        "M",
    ]
    rows = [
        [{key: layer.row()[key] for key in kept} for layer in grade(network, evidence=QUICK).layers]
        for network in (module, module.state_dict(), file, str(file), open_weights(file))
    ]
    assert rows.count(rows[0]) == 5
    assert [row["name"] for row in rows[0]] == ["0", "3", "5", "6"]


def test_the_record_survives_json(file):
    found = grade(file, evidence="full:resamples=50,draws=50")
    again = Grades.from_json(found.to_json())
    assert again == found
    assert again.to_json() == found.to_json()
    json.dumps(found.to_table(), allow_nan=False)


@pytest.mark.parametrize("evidence", ["none", QUICK, "full:resamples=50,draws=50"])
def test_the_same_seed_gives_the_same_bytes(evidence):
    assert grade(small(), evidence=evidence, seed=3).to_json() == grade(small(), evidence=evidence, seed=3).to_json()


def test_another_seed_gives_another_interval_and_the_same_fit():
    first, second = (grade(small(), evidence=QUICK, seed=seed) for seed in (0, 1))
    for one, other in zip(first.layers, second.layers, strict=True):
        assert one.fit == other.fit
        assert one.metrics == other.metrics
        assert one.bulk == other.bulk
        assert (one.alpha_low, one.alpha_high) != (other.alpha_low, other.alpha_high)
    assert (first.origin.seed, second.origin.seed) == (0, 1)


def test_a_layer_has_the_same_grade_alone_as_among_others():
    everything, alone = grade(small(), evidence=QUICK), grade(small(), evidence=QUICK, layers="5")
    assert alone.layers == (everything["5"],)


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["none", "full:resamples=50,draws=50"])
def test_workers_change_no_byte(file, evidence):
    for network in (file, small()):
        found = {workers: grade(network, evidence=evidence, workers=workers, seed=1).to_json() for workers in (1, 2, 4)}
        assert found[2] == found[1]
        assert found[4] == found[1]


@pytest.mark.slow
def test_workers_read_a_difference_of_two_files(tmp_path, file):
    base = tmp_path / "base.safetensors"
    save_file(small(1).state_dict(), base)
    assert grade(file, base=base, workers=2).to_json() == grade(file, base=base).to_json()


def test_workers_without_any_layer():
    assert grade(nn.ReLU(), workers=2).layers == ()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_alpha_does_not_depend_on_the_scale_of_the_weights(scale):
    plain = small().double()
    moved = small().double()
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.mul_(scale)
    for one, other in zip(grade(plain).layers, grade(moved).layers, strict=True):
        assert other.alpha == pytest.approx(one.alpha, abs=1e-9)
        assert (other.alpha_low, other.alpha_high) == pytest.approx((one.alpha_low, one.alpha_high), abs=1e-6)
        assert other.verdict.kind is one.verdict.kind


def test_parameters_add_up(file):
    module = small()
    total = sum(parameter.numel() for parameter in module.parameters())
    with torch.no_grad():
        module[6].weight.zero_()
    for conv in ("pooled", "slices"):
        for network in (module, module.state_dict()):
            coverage = grade(network, evidence="none", conv=conv).coverage
            assert coverage.graded + sum(item.parameters for item in coverage.left_out) == coverage.parameters == total
            assert all(item.reason for item in coverage.left_out)
    zeroed = grade(module, evidence="none").coverage
    assert (zeroed.fitted, zeroed.layers) == (3, 4)
    assert "6" in {item.name for item in zeroed.left_out}


def test_the_network_stays_as_it_is():
    module = small().train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    attributes = {name: set(vars(part)) for name, part in module.named_modules()}
    grade(module, evidence="full:resamples=50,draws=50")
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert {name: set(vars(part)) for name, part in module.named_modules()} == attributes
    assert module.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())


def test_nothing_global_is_touched_and_nothing_is_printed(capsys):
    def state() -> tuple[object, ...]:
        return (
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),
            torch.get_num_threads(),
            list(warnings.filters),
            list(logging.getLogger().handlers),
            np.geterr(),
        )

    network = small()  # torch draws first weights when it makes a layer
    before = state()
    grade(network, evidence="full:resamples=50,draws=50")
    assert state() == before
    assert capsys.readouterr() == ("", "")


def test_progress_is_reported_layer_by_layer():
    calls: list[tuple[int, int]] = []
    grade(small(), evidence="none", progress=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_layers_are_chosen_by_a_glob_and_the_rest_is_named():
    found = grade(small(), evidence="none", layers="[35]")
    assert [layer.name for layer in found.layers] == ["3", "5"]
    reasons = {item.name: item.reason for item in found.coverage.left_out}
    assert "not selected" in reasons["0"]
    with pytest.raises(UnknownName, match="unknown layer 'conv\\*'"):
        grade(small(), layers="conv*")


def test_folded_batch_norms_scale_the_filters_before_them():
    module = small().eval()
    norm = module[1]
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 4, 16))
        norm.running_var.copy_(torch.linspace(0.1, 3, 16))
    by_hand = small().state_dict()
    factors = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
    expected = grade({"0.weight": by_hand["0.weight"] * factors[:, None, None, None]}, evidence="none")["0"]
    found = grade(module, evidence="none", fold=True)
    assert found["0"].alpha == pytest.approx(expected.alpha, rel=1e-5)
    assert found["0"].metrics.lambda_max == pytest.approx(expected.metrics.lambda_max, rel=1e-5)
    assert found["3"].alpha == pytest.approx(grade(module, evidence="none")["3"].alpha)
    assert found.settings["fold"] is True
    with pytest.raises(UsageError, match="fold"):
        grade(module.state_dict(), fold=True)


def test_a_difference_is_graded_as_its_own_weights():
    tuned, base = small(0), small(1)
    found = grade(tuned, base=base, evidence="none")
    other = base.state_dict()
    expected = grade(
        {name: tensor - other[name] for name, tensor in tuned.state_dict().items() if tensor.dim() > 1},
        evidence="none",
    )
    assert [layer.alpha for layer in found.layers] == pytest.approx([layer.alpha for layer in expected.layers])
    assert found.origin.inputs.keys() == {"network", "base"}
    unchanged = grade(tuned, base=tuned, evidence="none")
    assert {layer.status for layer in unchanged.layers} == {Status.ZERO}
    with pytest.raises(DataMismatch):
        grade(tuned, base=mlp(5, 5, 5, seed=0))


def test_settings_and_origin_say_how_it_was_made(file):
    found = grade(file, conv="slices", normalise="seed", evidence="none", cut="hill:0.3", seed=7, layers="*")
    assert found.source == str(file)
    assert found.settings == {
        "layers": ["*"],
        "conv": "slices",
        "normalise": "seed",
        "evidence": "none",
        "cut": "hill:share=0.3",
        "precision": "float64",
        "method": "gram",
        "fold": False,
        "base": None,
        "conv_groups": None,
    }
    assert found.origin.seed == 7
    assert {"weightsmith", "numpy", "torch", "scipy", "numba"} <= found.origin.versions.keys()
    other = small()
    with torch.no_grad():
        other[5].weight[0, 0] += 1
    digests = {grade(network, evidence="none").origin.inputs["network"] for network in (small(), other)}
    assert len(digests) == 2


def test_the_cut_reaches_every_layer():
    for layer in grade(small(), evidence="none", cut="hill:0.5").layers:
        assert layer.fit.tail == math.ceil(layer.fit.evals / 2)


def test_tied_weights_are_graded_once():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(50, 20)
            self.head = nn.Linear(20, 50, bias=False)
            self.head.weight = self.embedding.weight

    found = grade(seeded(Tied()), evidence="none")
    (layer,) = found.layers
    assert (layer.kind, layer.tied_with) == ("Embedding", ("head",))
    assert found.coverage.parameters == 1000


# refusals


@pytest.mark.parametrize(
    "wrong",
    [
        {"conv": "both"},
        {"normalise": "1/N"},
        {"precision": "float16"},
        {"method": "qr"},
        {"evidence": "some"},
        {"evidence": 3},
        {"cut": "median"},
        {"cut": "hill:2"},
        {"workers": 0},
        {"workers": -1},
        {"workers": 1.5},
        {"workers": 2, "threads": 2},
        {"threads": 0},
        {"seed": -1},
        {"seed": "a"},
        {"seed": -1, "evidence": "none"},
        {"seed": 0.5, "evidence": "none"},
        {"layers": "nowhere"},
        {"device": "nonsense"},
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(wrong):
    with pytest.raises(UsageError) as refused:
        grade(small(), **wrong)
    assert "\n" not in str(refused.value)


def test_what_is_no_network_is_refused_in_one_line(tmp_path):
    for thing in (None, 3, [torch.zeros(3, 3)], torch.zeros(3, 3), {}):
        with pytest.raises(UsageError) as refused:
            grade(thing)
        assert "\n" not in str(refused.value)
    with pytest.raises(FileRefused) as refused_file:
        grade(tmp_path / "nothing.safetensors")
    assert "\n" not in str(refused_file.value)


def test_a_bad_option_is_named():
    with pytest.raises(OptionError, match="conv must be one of pooled, slices, not 'both'"):
        grade(small(), conv="both")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_grade_goes_on_with_the_layers_it_has(tmp_path, monkeypatch, workers):
    """After two of four layers the process dies; the same call grades the other two and ends with the same bytes."""
    torch.manual_seed(0)
    path = tmp_path / "n.safetensors"
    save_file({f"l{number}.weight": torch.randn(24, 20) for number in range(4)}, path)
    whole = grade(path)

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade(path, out=tmp_path / "out", progress=stop)
    read = []
    original = Weights.tensor
    monkeypatch.setattr(Weights, "tensor", lambda self, name: read.append(name) or original(self, name))
    seen = []
    again = grade(path, out=tmp_path / "out", workers=workers, progress=lambda done, total: seen.append((done, total)))
    assert again.to_json() == whole.to_json()
    assert seen == [(2, 4), (3, 4), (4, 4)]
    if workers == 1:  # once for the digest of the file, and only the missing ones to be graded
        assert sorted(read) == sorted([*(f"l{number}.weight" for number in range(4)), "l2.weight", "l3.weight"])
    with pytest.raises(UsageError, match="seed"):
        grade(path, out=tmp_path / "out", seed=1)


def test_some_layers_of_a_file_are_read_without_the_rest(tmp_path, monkeypatch):
    """A file of gigabytes is not hashed for one of its layers; the record has the digest of what was graded."""
    torch.manual_seed(0)
    path = tmp_path / "n.safetensors"
    save_file({"a.weight": torch.randn(20, 20), "b.weight": torch.randn(30, 20)}, path)
    read = []
    original = Weights.tensor
    monkeypatch.setattr(Weights, "tensor", lambda self, name: read.append(name) or original(self, name))
    found = grade(path, layers="a", evidence="none")
    assert set(read) == {"a.weight"}
    assert found.origin.inputs.keys() == {"layers"}
    assert grade(path, layers="b", evidence="none").origin.inputs != found.origin.inputs
    assert grade(path, evidence="none").origin.inputs.keys() == {"network"}


@pytest.mark.slow
@pytest.mark.data
def test_seeds_change_no_hard_verdict_on_resnets_and_most_layers_have_an_answer(shared_data):
    """Firm verdicts are the same with four seeds; of the layers with a fit 60 % are firm or lean at 75 %."""
    fitted = usable = 0
    for path in sorted((shared_data / "weights").glob("*resnet*.safetensors")):
        several = [grade(path, seed=seed) for seed in range(4)]
        kinds = {tuple(layer.verdict.kind for layer in found.layers) for found in several}
        assert len(kinds) == 1, path.name
        layers = [layer for layer in several[0].layers if layer.fitted]
        firm = [layer.verdict.kind is not VerdictKind.CANNOT_SAY for layer in layers]
        fitted += len(layers)
        usable += sum(firm) + sum(layer.words.startswith("leans") for layer in layers)
    assert fitted > 250
    assert usable >= 0.6 * fitted


LIMITED = """
import resource, sys
import weightsmith.cli
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
weightsmith.cli.main(["grade", sys.argv[1]])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="address limits are Linux's")
def test_a_layer_beyond_an_address_limit_is_refused_with_the_figures(tmp_path):
    """20,000 × 20,000 under 2 GB: the file has holes and takes no room on the disk."""
    side, path = 20_000, tmp_path / "large.safetensors"
    offsets = [0, 4 * side * side]
    header = json.dumps({"fc.weight": {"dtype": "F32", "shape": [side, side], "data_offsets": offsets}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))
        file.truncate(8 + len(header) + offsets[1])
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True)
    assert done.returncode == 3
    assert re.fullmatch(
        r"weightsmith: .*large.safetensors: .*1\.6 GB of memory .*, but [0-9.]+ [GM]B are free\n", done.stderr
    )
