"""What no tail can be fitted to, and what is no matrix at all: each case has a name, and none goes by in silence."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from weightsmith.core.errors import UsageError
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Grades, Status, VerdictKind

pytestmark = pytest.mark.filterwarnings("error")

FAST, FULL = "fast:resamples=50", "full:resamples=50,draws=50"
Network = nn.Module | dict[str, torch.Tensor]


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def filled(module: nn.Module, seed: int = 0) -> nn.Module:
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(rng.standard_normal(tuple(parameter.shape))))
    return module


def linear(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"layer.weight": weight}


def broken(value: float) -> dict[str, torch.Tensor]:
    weight = gaussian(12, 10)
    weight[3, 4] = value
    return linear(weight)


def orthogonal(size: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return linear(torch.linalg.qr(gaussian(size, size, dtype=torch.float64))[0].to(dtype))


def outlier(height: float) -> dict[str, torch.Tensor]:
    weight = gaussian(20, 16, dtype=torch.float64)
    weight[0, 0] = height
    return linear(weight)


CASES: dict[str, tuple[Callable[[], Network], Status]] = {
    "zero": (lambda: linear(torch.zeros(12, 10)), Status.ZERO),
    "negative zero": (lambda: linear(torch.full((12, 10), -0.0)), Status.ZERO),
    "zero convolution": (lambda: linear(torch.zeros(16, 16, 3, 3)), Status.ZERO),
    "constant": (lambda: linear(torch.full((12, 10), 0.25)), Status.CONSTANT),
    "constant negative": (lambda: linear(torch.full((12, 10), -3.0)), Status.CONSTANT),
    "rank 1": (lambda: linear(gaussian(12, 1) @ gaussian(1, 10)), Status.LOW_RANK),
    "rank 7": (
        lambda: linear(gaussian(40, 7, dtype=torch.float64) @ gaussian(7, 30, dtype=torch.float64)),
        Status.LOW_RANK,
    ),
    "rank 8": (
        lambda: linear(gaussian(40, 8, dtype=torch.float64) @ gaussian(8, 30, dtype=torch.float64)),
        Status.FITTED,
    ),
    "one unit": (lambda: linear(gaussian(1, 30)), Status.TOO_SMALL),
    "one input": (lambda: linear(gaussian(30, 1)), Status.TOO_SMALL),
    "1 x 1": (lambda: linear(gaussian(1, 1)), Status.TOO_SMALL),
    "1 x 1 zero": (lambda: linear(torch.zeros(1, 1)), Status.ZERO),
    "seven eigenvalues": (lambda: linear(gaussian(30, 7)), Status.TOO_SMALL),
    "eight eigenvalues": (lambda: linear(gaussian(30, 8)), Status.FITTED),
    "NaN": (lambda: broken(math.nan), Status.NON_FINITE),
    "infinity": (lambda: broken(math.inf), Status.NON_FINITE),
    "minus infinity": (lambda: broken(-math.inf), Status.NON_FINITE),
    "all NaN": (lambda: linear(torch.full((12, 10), math.nan)), Status.NON_FINITE),
    "all infinity": (lambda: linear(torch.full((12, 10), math.inf)), Status.NON_FINITE),
    "non-contiguous": (lambda: linear(gaussian(24, 20).T[::2, ::2]), Status.FITTED),
    "expanded column": (lambda: linear(gaussian(12, 1).expand(12, 10)), Status.LOW_RANK),
    "identity": (lambda: linear(torch.eye(16)), Status.FLAT),
    "orthogonal float32": (lambda: orthogonal(48, torch.float32), Status.FLAT),
    "orthogonal float64": (lambda: orthogonal(48, torch.float64), Status.FLAT),
    "permutation": (lambda: linear(torch.eye(20)[torch.randperm(20)]), Status.FLAT),
    "signs of a Hadamard matrix": (lambda: linear(hadamard(16)), Status.FLAT),
    "equal but for one": (lambda: linear(torch.diag(torch.tensor([1.0] * 15 + [3.0]))), Status.DEGENERATE),
    "two different ones": (lambda: linear(torch.diag(torch.tensor([1.0] * 20 + [2.0] * 20))), Status.DEGENERATE),
    "seven different ones": (
        lambda: linear(torch.diag(torch.arange(1.0, 8.0).repeat_interleave(4))),
        Status.DEGENERATE,
    ),
    "nine constant kernel positions": (
        lambda: linear(torch.arange(1.0, 10.0).reshape(1, 1, 3, 3).expand(16, 16, 3, 3).clone()),
        Status.DEGENERATE,
    ),
    "ties in pairs": (
        lambda: linear(torch.diag(torch.arange(1.0, 9.0).repeat_interleave(2))),
        Status.FITTED,
    ),
    "duplicated rows": (lambda: linear(gaussian(12, 10).repeat(3, 1)), Status.FITTED),
    "few rows duplicated": (lambda: linear(gaussian(5, 20).repeat(4, 1)), Status.LOW_RANK),
    "one giant": (lambda: outlier(1e6), Status.FITTED),
    "one giant that hides the rest": (lambda: outlier(1e30), Status.LOW_RANK),
    "one weight left": (lambda: linear(torch.diag(torch.tensor([1.0] + [0.0] * 15))), Status.LOW_RANK),
    "scale 1e-30": (lambda: linear(gaussian(20, 16, dtype=torch.float64) * 1e-30), Status.FITTED),
    "scale 1e30": (lambda: linear(gaussian(20, 16, dtype=torch.float64) * 1e30), Status.FITTED),
    "scale 1e-200": (lambda: linear(gaussian(20, 16, dtype=torch.float64) * 1e-200), Status.OUT_OF_RANGE),
    "scale 1e200": (lambda: linear(gaussian(20, 16, dtype=torch.float64) * 1e200), Status.OUT_OF_RANGE),
    "smallest float32": (lambda: linear(gaussian(20, 16) * 1e-42), Status.FITTED),
    "largest float32": (lambda: linear(gaussian(20, 16).clip(-1, 1) * 3e38), Status.FITTED),
    "float16": (lambda: linear(gaussian(20, 16, dtype=torch.float16)), Status.FITTED),
    "float16 that would overflow squared": (lambda: linear((gaussian(20, 16) * 1e4).half()), Status.FITTED),
    "bfloat16": (lambda: linear(gaussian(20, 16, dtype=torch.bfloat16)), Status.FITTED),
    "float8": (lambda: linear(gaussian(20, 16).to(torch.float8_e4m3fn)), Status.FITTED),
    "Conv1d": (lambda: filled(nn.Conv1d(16, 24, 5)), Status.FITTED),
    "Conv3d": (lambda: filled(nn.Conv3d(8, 12, 3)), Status.FITTED),
    "ConvTranspose2d": (lambda: filled(nn.ConvTranspose2d(16, 24, 3)), Status.FITTED),
    "ConvTranspose1d with groups": (lambda: filled(nn.ConvTranspose1d(16, 32, 4, groups=2)), Status.FITTED),
    "grouped convolution": (lambda: filled(nn.Conv2d(32, 32, 3, groups=4)), Status.FITTED),
    "depthwise convolution": (lambda: filled(nn.Conv2d(32, 32, 3, groups=32)), Status.TOO_SMALL),
    "pointwise convolution": (lambda: filled(nn.Conv2d(16, 24, 1)), Status.FITTED),
    "convolution of one channel": (lambda: filled(nn.Conv2d(1, 32, 5)), Status.FITTED),
    "embedding": (lambda: filled(nn.Embedding(60, 16)), Status.FITTED),
    "embedding bag": (lambda: filled(nn.EmbeddingBag(60, 16)), Status.FITTED),
    "LSTM": (lambda: filled(nn.LSTM(12, 16)), Status.FITTED),
    "two-layer GRU both ways": (lambda: filled(nn.GRU(12, 16, num_layers=2, bidirectional=True)), Status.FITTED),
    "RNN": (lambda: filled(nn.RNN(12, 16)), Status.FITTED),
    "LSTM cell": (lambda: filled(nn.LSTMCell(12, 16)), Status.FITTED),
    "LSTM of one unit": (lambda: filled(nn.LSTM(12, 1)), Status.TOO_SMALL),
    "attention": (lambda: filled(nn.MultiheadAttention(16, 4)), Status.FITTED),
    "attention with other keys": (lambda: filled(nn.MultiheadAttention(16, 4, kdim=12, vdim=10)), Status.FITTED),
    "weight norm": (lambda: parametrizations.weight_norm(filled(nn.Linear(20, 16))), Status.FITTED),
    "orthogonal parametrisation": (lambda: parametrizations.orthogonal(filled(nn.Linear(16, 16))), Status.FLAT),
    "pruned to nothing": (lambda: prune.l1_unstructured(filled(nn.Linear(20, 16)), "weight", 1.0), Status.ZERO),
}


def hadamard(size: int) -> torch.Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def check(found: Grades, context: object = "", *, read_back: bool = True) -> None:
    """What must hold whatever was graded."""
    text = found.to_json()
    if read_back:
        assert Grades.from_json(text).to_json() == text, context
    json.dumps(found.to_table(), allow_nan=False)
    for layer in found.layers:
        row, where = layer.row(), (context, layer.name, layer.slice)
        assert layer.evals >= 1, where
        assert (layer.status is Status.FITTED) == layer.fitted, where
        if layer.fitted:
            assert layer.reason is None, where
            assert layer.alpha > 1, where
            assert 0 <= layer.fit.D <= 1, where
            assert 2 <= layer.fit.tail <= layer.fit.evals <= layer.evals, where
            assert layer.fit.xmin == layer.eigenvalues[layer.fit.evals - layer.fit.tail], where
            numbers = (layer.alpha, layer.fit.xmin, layer.fit.sigma, layer.metrics.norm, layer.metrics.log_alpha_norm)
            assert all(map(math.isfinite, numbers)), where
            if layer.interval is not None:
                assert layer.interval.low <= layer.alpha <= layer.interval.high, where
        else:
            assert layer.reason, where
            assert "\n" not in layer.reason, where
            assert layer.verdict.kind is VerdictKind.CANNOT_BE_FITTED, where
            assert all(row[key] is None for key in ("alpha", "alpha_low", "alpha_high", "xmin", "D", "tail")), where
            assert all(row[key] is None for key in ("alpha_weighted", "log_alpha_norm", "p_fit")), where
        assert layer.verdict.because, where
        if found.settings["evidence"] != "none":
            assert layer.verdict.kind is not VerdictKind.NOT_JUDGED, where
    coverage = found.coverage
    assert coverage.graded + sum(item.parameters for item in coverage.left_out) == coverage.parameters, context
    assert all(item.reason for item in coverage.left_out), context
    assert coverage.fitted == sum(layer.fitted for layer in found.layers), context


@pytest.mark.parametrize("evidence", ["none", FAST, FULL])
@pytest.mark.parametrize("case", CASES)
def test_every_case_has_its_status(case, evidence):
    make, expected = CASES[case]
    found = grade(make(), evidence=evidence)
    assert found.layers, case
    assert {layer.status for layer in found.layers} == {expected}
    check(found, case)


@pytest.mark.parametrize("conv", ["pooled", "slices"])
@pytest.mark.parametrize("cut", ["ks", "erg", "hill"])
def test_every_case_has_a_status_for_any_setting(conv, cut):
    for case, (make, _) in CASES.items():
        check(grade(make(), evidence="none", conv=conv, cut=cut, normalise="seed", method="svd"), case)
        check(grade(make(), evidence="none", conv=conv, cut=cut, precision="float32"), case)


LEFT_OUT: dict[str, tuple[Callable[[], Network], str]] = {
    "integers": (lambda: linear(torch.arange(120).reshape(12, 10)), "not trained"),
    "int8 codes without a scale": (lambda: linear(torch.ones(12, 10, dtype=torch.int8)), "scale"),
    "booleans": (lambda: linear(torch.ones(12, 10, dtype=torch.bool)), ""),
    "complex numbers": (lambda: linear(gaussian(12, 10).to(torch.complex64)), "complex"),
    "complex parameter": (lambda: nn.Linear(10, 12, dtype=torch.complex64), "complex"),
    "sparse": (lambda: linear(torch.eye(12).to_sparse()), "sparse"),
    "meta device": (lambda: nn.Linear(10, 12, device="meta"), "meta"),
    "lazy": (lambda: nn.LazyLinear(12), "not initialised"),
    "no values": (lambda: linear(torch.zeros(0, 10)), ""),
    "no units": (lambda: nn.Linear(10, 0), ""),
    "bias alone": (lambda: {"layer.bias": gaussian(30)}, "bias"),
    "a scalar": (lambda: {"temperature": torch.tensor(3.0)}, ""),
    "batch norm": (lambda: nn.BatchNorm2d(16), "scale"),
    "quantised by torch": (
        lambda: linear(torch.quantize_per_tensor(gaussian(12, 10), 0.1, 0, torch.qint8)),
        "quantised",
    ),
    "an epoch and a name": (lambda: {"epoch": 3, "name": "network", "best": 0.9}, "not a tensor"),
}


def quietly(make: Callable[[], Network]) -> Network:
    """What torch makes with a warning of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_is_no_matrix_is_left_out_by_name(case):
    make, word = LEFT_OUT[case]
    found = grade(quietly(make), evidence=FULL)
    check(found, case)
    assert found.layers == ()
    assert found.coverage.fitted == 0
    assert found.coverage.left_out
    assert any(word in item.reason for item in found.coverage.left_out)
    assert found.notes == ("the network has no layers that could be graded",)
    assert all(measure.value is None and measure.layers == 0 for measure in found.measures)


def test_a_quantised_module_is_left_out_by_name():
    if not torch.backends.quantized.supported_engines:
        pytest.skip("torch was built without integer arithmetic")
    plain = nn.Sequential(filled(nn.Linear(20, 16)), nn.ReLU(), filled(nn.Linear(16, 12)))
    module = quietly(lambda: torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}))
    found = grade(module, evidence=FULL)
    check(found)
    assert found.layers == ()
    quantised = [item for item in found.coverage.left_out if "quantised" in item.reason]
    assert sum(item.parameters for item in quantised) == 20 * 16 + 16 * 12


def test_integer_codes_with_their_scale_are_graded_as_what_they_mean():
    codes = torch.randint(-127, 128, (24, 20), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    found = grade({"layer.weight": codes, "layer.weight_scale": torch.tensor(0.02)}, evidence="none")
    plain = grade(linear(codes.to(torch.float32) * 0.02), evidence="none")
    assert [layer.alpha for layer in found.layers] == pytest.approx([plain.layers[0].alpha], rel=1e-5)
    assert found.layers[0].metrics.norm == pytest.approx(plain.layers[0].metrics.norm, rel=1e-5)


@pytest.mark.parametrize("network", [nn.Sequential(), nn.ReLU(), nn.Sequential(nn.Dropout(), nn.Flatten())])
def test_an_empty_network_says_so(network):
    found = grade(network, evidence=FULL)
    check(found)
    assert found.layers == ()
    assert found.notes == ("the network has no layers that could be graded",)
    assert found.coverage.line == "0 of 0 layers fitted, with 0 of 0 parameters"


def test_an_empty_state_dict_is_refused():
    with pytest.raises(UsageError, match="empty"):
        grade({})


def test_tied_weights_are_named_and_counted_once():
    weight = gaussian(30, 20)
    found = grade({"embedding.weight": weight, "head.weight": weight}, evidence=FAST)
    check(found)
    (layer,) = found.layers
    assert layer.status is Status.FITTED
    assert layer.tied_with == ("head",)
    assert found.coverage.parameters == 600


def test_one_broken_layer_does_not_touch_the_others():
    good = {"a.weight": gaussian(30, 20), "b.weight": gaussian(24, 24, seed=1)}
    bad = {**good, "c.weight": broken(math.nan)["layer.weight"], "d.weight": torch.zeros(20, 20)}
    alone, among = grade(good, evidence=FAST), grade(bad, evidence=FAST)
    assert among.layers[:2] == alone.layers
    assert among.measures == alone.measures
    assert "c" in among.notes[0]
    assert (among.coverage.fitted, among.coverage.layers) == (2, 4)


def test_a_giant_is_the_largest_eigenvalue_and_the_rest_stay():
    plain, with_giant = grade(outlier(0.0), evidence=FAST), grade(outlier(1e6), evidence=FAST)
    assert with_giant.layers[0].metrics.lambda_max == pytest.approx(1e12, rel=1e-6)
    assert with_giant.layers[0].metrics.stable_rank == pytest.approx(1.0, abs=1e-6)
    assert plain.layers[0].metrics.stable_rank > 3


# generated cases

PATHOLOGIES = [
    "gaussian",
    "heavy",
    "zero",
    "constant",
    "rank",
    "duplicated-rows",
    "orthogonal",
    "diagonal",
    "integers-as-floats",
    "sparse",
    "giant",
    "block-scales",
    "nan",
    "infinity",
    "signs",
    "ties",
    "tiny",
    "huge",
    "zero-rows",
    "nearly-constant",
    "geometric",
]


def values(rng: np.random.Generator, rows: int, columns: int, what: str) -> np.ndarray:
    """A matrix with one thing wrong with it."""
    plain = rng.standard_normal((rows, columns))
    small, index = min(rows, columns), np.arange(rows)
    match what:
        case "gaussian":
            return plain
        case "heavy":
            return rng.standard_t(rng.uniform(0.4, 4), (rows, columns))
        case "zero":
            return np.zeros((rows, columns))
        case "constant":
            return np.full((rows, columns), rng.standard_normal())
        case "rank":
            rank = int(rng.integers(1, small + 1))
            return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
        case "duplicated-rows":
            return plain[rng.integers(0, max(rows // 2, 1), rows)]
        case "orthogonal":
            return np.linalg.qr(rng.standard_normal((max(rows, columns), small)))[0].reshape(rows, columns)
        case "diagonal":
            return np.eye(rows, columns) * (rng.pareto(1.0, (rows, 1)) + 0.1)
        case "integers-as-floats":
            return rng.integers(-2, 3, (rows, columns)).astype(float)
        case "sparse":
            return plain * (rng.random((rows, columns)) < rng.uniform(0, 0.3))
        case "giant":
            plain[rng.integers(rows), rng.integers(columns)] = 10.0 ** rng.integers(1, 40)
            return plain
        case "block-scales":
            return plain * 10.0 ** rng.integers(-12, 12, (rows, 1))
        case "nan":
            plain[rng.integers(rows), rng.integers(columns)] = np.nan
            return plain
        case "infinity":
            plain[rng.integers(rows), rng.integers(columns)] = rng.choice([np.inf, -np.inf])
            return plain
        case "signs":
            return np.sign(plain)
        case "ties":
            return np.eye(rows, columns) * rng.choice([1.0, 2.0, 3.0], (rows, 1))
        case "tiny":
            return plain * 10.0 ** rng.uniform(-320, -30)
        case "huge":
            return plain * 10.0 ** rng.uniform(30, 307)
        case "zero-rows":
            return plain * (rng.random((rows, 1)) < 0.5)
        case "nearly-constant":
            return 1 + plain * 10.0 ** rng.integers(-18, -2)
        case "geometric":
            return np.eye(rows, columns) * (rng.uniform(0.1, 0.99) ** index)[:, None]
        case _:
            raise AssertionError(what)


KINDS = ("Linear", "Embedding", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "grouped", "depthwise", "LSTM", "bare")
SIZES = [1, 2, 3, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28]
KERNELS = {"Conv1d": (3,), "Conv2d": (2, 2), "Conv3d": (1, 2, 2), "ConvTranspose2d": (2, 2), "grouped": (2, 2)}


def tensor(rng: np.random.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    """A weight of ``shape`` with one pathology per kernel position, or one for all, in some type."""
    rows, columns = shape[0], shape[1]
    positions = math.prod(shape[2:])
    kinds = rng.choice(PATHOLOGIES, positions) if rng.random() < 0.3 else [str(rng.choice(PATHOLOGIES))] * positions
    stack = np.stack([values(rng, rows, columns, str(kind)) for kind in kinds], -1).reshape(shape)
    dtype = rng.choice(["float64", "float32", "float32", "float16", "bfloat16"])
    made = torch.from_numpy(stack).to(getattr(torch, str(dtype)))
    return made.transpose(0, 1).contiguous().transpose(0, 1) if rng.random() < 0.2 else made


def network(rng: np.random.Generator) -> Network:
    """A module or a state dict of one to three layers."""
    tensors: dict[str, torch.Tensor] = {}
    modules: dict[str, nn.Module] = {}
    for number in range(int(rng.integers(1, 3))):
        kind = str(rng.choice(KINDS))
        rows, columns = (int(size) for size in rng.choice(SIZES, 2))
        name = f"layer{number}"
        match kind:
            case "Linear" | "Embedding" | "bare":
                module: nn.Module = (nn.Embedding if kind == "Embedding" else nn.Linear)(columns, rows)
            case "LSTM":
                module = nn.LSTM(columns, rows)
            case "grouped":
                module = nn.Conv2d(2 * columns, 2 * rows, KERNELS[kind], groups=2)
            case "depthwise":
                module = nn.Conv2d(min(rows, 4), min(rows, 4), 2, groups=min(rows, 4))
            case _:
                module = getattr(nn, kind)(columns, rows, KERNELS[kind])
        for key, parameter in list(module.named_parameters()):
            made = tensor(rng, tuple(parameter.shape)) if parameter.dim() > 1 else parameter.detach()
            tensors[f"{name}.{key}"] = made
            setattr(module, key, nn.Parameter(made, requires_grad=bool(rng.random() < 0.5)))
        modules[name] = module
    return tensors if rng.random() < 0.4 else nn.ModuleDict(modules)


def settings(rng: np.random.Generator) -> dict[str, Any]:
    def pick(*choices: object) -> object:
        return choices[int(rng.integers(len(choices)))]

    return {
        "evidence": pick("none", "none", FAST, FULL),
        "conv": pick("pooled", "slices"),
        "normalise": pick("none", "seed"),
        "cut": pick("ks", "ks", "erg", "hill", "hill:0.1"),
        "precision": pick("float64", "float64", "float32"),
        "method": pick("gram", "gram", "svd"),
        "seed": int(rng.integers(100)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_two_thousand_generated_networks_are_all_answered(block):
    for number in range(100 * block, 100 * block + 100):
        rng = np.random.default_rng([2024, number])
        made, chosen = network(rng), settings(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = grade(made, **chosen)
            except Exception as error:  # also one of our own: every one of these networks can be graded
                error.add_note(f"network {number}, {chosen}")  # what one needs to repeat it
                raise
        assert found.layers, number
        check(found, (number, chosen), read_back=number % 10 == 0)


def test_generated_cases_have_every_status():
    """The generator is worth its name only if it reaches all of them."""
    seen: set[Status] = set()
    for number in range(150):
        rng = np.random.default_rng([2024, number])
        made = network(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen |= {layer.status for layer in grade(made, evidence="none").layers}
    assert seen == set(Status)
