"""One layer by hand: its status, its scale, its slices, and that what is drawn belongs to it alone."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from weightsmith.grading.evidence import Evidence
from weightsmith.grading.fits.cuts import Hill, TailCut
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.layer import LEAST, GradingOptions, grade_layer
from weightsmith.grading.results import LayerGrade, Status, VerdictKind
from weightsmith.networks.layers.walk import LayerWeights

PLAIN = GradingOptions("pooled", "none", Evidence.of("none"), TailCut.of("ks"), "float64", "gram", 0, "cpu")
SLICES = dataclasses.replace(PLAIN, conv="slices")
FAST = dataclasses.replace(PLAIN, evidence=Evidence.of("fast:resamples=50"))
FULL = dataclasses.replace(PLAIN, evidence=Evidence.of("full:resamples=50,draws=50"))


def heavy(*shape: int, seed: int = 0) -> torch.Tensor:
    """Student-t entries with three degrees of freedom: a matrix with a tail."""
    return torch.from_numpy(np.random.default_rng(seed).standard_t(3, shape))


def weights(matrices: torch.Tensor, kind: str = "Linear", name: str = "layer", **more: object) -> LayerWeights:
    count, rows, columns = matrices.shape
    shape = (rows, columns) if count == 1 else (rows, columns, count)
    return LayerWeights(name, kind, matrices, shape, matrices.numel(), **more)


def one(matrices: torch.Tensor, how: GradingOptions = PLAIN, **more: object) -> LayerGrade:
    (found,) = grade_layer(weights(matrices, **more), how)
    return found


def by_singular_values(matrices: torch.Tensor, factor: float = 1.0) -> np.ndarray:
    return np.sort(torch.linalg.svdvals(matrices).square().flatten().numpy()) * factor


# scale and pooling


def test_a_linear_layer_is_fitted_on_the_eigenvalues_of_its_product():
    matrices = heavy(1, 40, 30)
    found = one(matrices)
    expected = fit_power_law(by_singular_values(matrices))
    assert found.status is Status.FITTED
    assert found.reason is None
    assert found.alpha == pytest.approx(expected.alpha, rel=1e-9)
    assert (found.N, found.M, found.matrices, found.evals, found.factor) == (40, 30, 1, 30, 1.0)
    assert found.eigenvalues == pytest.approx(by_singular_values(matrices), rel=1e-9)
    assert found.metrics.norm == pytest.approx(float(matrices.square().sum()))


@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d"])
def test_a_pooled_convolution_is_one_fit_of_halved_eigenvalues(kind):
    matrices = heavy(9, 24, 16)
    found = one(matrices, kind=kind)
    values = by_singular_values(matrices, 0.5)
    expected = fit_power_law(values)
    assert (found.alpha, found.fit.D) == pytest.approx((expected.alpha, expected.D), rel=1e-9)
    assert found.fit.xmin == pytest.approx(expected.xmin, rel=1e-9)
    assert (found.fit.tail, found.fit.evals, found.evals, found.factor) == (expected.tail, 144, 144, 0.5)
    assert found.metrics.lambda_max == pytest.approx(values[-1])
    assert found.metrics.alpha_weighted == pytest.approx(expected.alpha * math.log10(values[-1]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "Experts"])
def test_matrices_of_other_layers_are_pooled_without_a_factor(kind):
    matrices = heavy(4, 24, 16)
    for how in (PLAIN, SLICES):
        found = one(matrices, how, kind=kind)
        assert found.eigenvalues == pytest.approx(by_singular_values(matrices), rel=1e-9)
        assert (found.factor, found.matrices, found.slice) == (1.0, 4, None)


@pytest.mark.parametrize(("kind", "count"), [("Linear", 1), ("Conv2d", 9), ("LSTM", 4)])
def test_the_seed_divides_by_the_larger_side_and_alpha_stays(kind, count):
    matrices = heavy(count, 16, 24)
    plain, seed = one(matrices, kind=kind), one(matrices, dataclasses.replace(PLAIN, normalise="seed"), kind=kind)
    assert seed.factor == 1 / 24
    assert seed.eigenvalues == pytest.approx(by_singular_values(matrices, 1 / 24), rel=1e-9)
    assert seed.alpha == pytest.approx(plain.alpha, rel=1e-9)
    assert seed.fit.tail == plain.fit.tail
    assert seed.metrics.lambda_max * 24 == pytest.approx(plain.metrics.lambda_max / plain.factor)


def test_slices_are_rows_of_their_own_scaled_by_half_the_number_of_positions():
    matrices = heavy(9, 24, 16)
    layer = weights(matrices, "Conv2d")
    found = grade_layer(layer, SLICES)
    assert [row.slice for row in found] == list(range(9))
    for row, matrix in zip(found, matrices, strict=True):
        values = by_singular_values(matrix, 4.5)
        expected = fit_power_law(values)
        assert (row.alpha, row.fit.D) == pytest.approx((expected.alpha, expected.D), rel=1e-9)
        assert row.metrics.lambda_max == pytest.approx(values[-1])
        assert (row.matrices, row.evals, row.factor, row.parameters) == (1, 16, 4.5, 24 * 16)
    assert sum(row.parameters for row in found) == layer.parameters


def test_slices_by_the_seed_are_divided_by_n():
    found = grade_layer(weights(heavy(4, 24, 16), "Conv2d"), dataclasses.replace(SLICES, normalise="seed"))
    assert {row.factor for row in found} == {1 / 24}


def test_groups_of_a_convolution_do_not_count_as_kernel_positions():
    """Two groups of a 3 × 3 kernel are 18 matrices, but the peer's scale is half of nine."""
    from weightsmith.networks.layers.walk import walk

    convolution = torch.nn.Conv2d(32, 32, 3, groups=2, bias=False)
    (layer,) = walk(convolution)
    assert layer.matrices.shape == (18, 16, 16)
    assert {row.factor for row in grade_layer(layer, SLICES)} == {4.5}


def test_the_fits_of_single_matrices_stand_beside_a_pooled_one():
    matrices = heavy(9, 24, 16)
    found = one(matrices, kind="Conv2d")
    rows = grade_layer(weights(matrices, "Conv2d"), SLICES)
    assert [part.index for part in found.slices] == list(range(9))
    for part, row in zip(found.slices, rows, strict=True):
        assert part.alpha == pytest.approx(row.alpha, rel=1e-9)
        assert part.lambda_max == pytest.approx(row.metrics.lambda_max / 4.5)  # of WᵀW, without any factor
        assert part.xmin == pytest.approx(row.fit.xmin / 4.5)
        assert part.tail == row.fit.tail
        assert (part.evals, part.D) == (16, pytest.approx(row.fit.D))


def test_the_fit_of_the_only_matrix_is_that_of_the_layer_without_its_factor():
    found = one(heavy(1, 30, 20), dataclasses.replace(PLAIN, normalise="seed"))
    (part,) = found.slices
    assert (part.alpha, part.D, part.tail, part.evals) == (found.alpha, found.fit.D, found.fit.tail, 20)
    assert part.xmin == pytest.approx(found.fit.xmin * 30)
    assert part.lambda_max == pytest.approx(found.metrics.lambda_max * 30)


@pytest.mark.parametrize("cut", ["ks", "erg", "hill:0.4"])
def test_single_matrices_are_cut_by_the_same_rule(cut):
    matrices = heavy(4, 30, 20)
    how = dataclasses.replace(PLAIN, cut=TailCut.of(cut))
    found = one(matrices, how, kind="Conv2d")
    alphas = [fit_power_law(by_singular_values(matrix), TailCut.of(cut)).alpha for matrix in matrices]
    assert [part.alpha for part in found.slices] == pytest.approx(alphas, rel=1e-8)


def test_narrow_matrices_have_no_fit_of_their_own():
    found = one(heavy(9, 24, LEAST - 1), kind="Conv2d")
    assert found.status is Status.FITTED
    assert found.slices == ()
    assert one(heavy(9, 24, LEAST), kind="Conv2d").slices != ()


def test_the_cut_is_the_one_asked_for():
    matrices = heavy(1, 60, 40)
    found = one(matrices, dataclasses.replace(PLAIN, cut=Hill(0.25)))
    values = by_singular_values(matrices)[-10:]
    assert found.fit.tail == 10
    assert found.alpha == pytest.approx(1 + 10 / np.log(values / values[0]).sum(), rel=1e-9)


@pytest.mark.parametrize("method", ["gram", "svd"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_ways_of_computing_agree(method, precision):
    matrices = heavy(1, 80, 50)
    found = one(matrices, dataclasses.replace(PLAIN, method=method, precision=precision))
    assert found.alpha == pytest.approx(one(matrices).alpha, rel=1e-9 if precision == "float64" else 1e-3)


# status


def test_statuses_by_hand():
    gaussian = torch.randn(1, 12, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rank_one = gaussian[:, :, :1] @ gaussian[:, :1, :]
    broken = gaussian.clone()
    broken[0, 3, 3] = math.nan
    infinite = gaussian.clone()
    infinite[0, 0, 0] = -math.inf
    orthogonal = torch.linalg.qr(torch.randn(1, 20, 20, dtype=torch.float64))[0]
    cases = {
        "zero": (torch.zeros(1, 12, 10), Status.ZERO),
        "constant": (torch.full((1, 12, 10), 0.3), Status.CONSTANT),
        "rank one": (rank_one, Status.LOW_RANK),
        "seven left": (torch.diag(torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 0, 0, 0]))[None], Status.LOW_RANK),
        "eight left": (torch.diag(torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8, 0, 0]))[None], Status.FITTED),
        "seven in all": (gaussian[:, :7, :], Status.TOO_SMALL),
        "a row": (gaussian[:, :1, :], Status.TOO_SMALL),
        "a column": (gaussian[:, :, :1], Status.TOO_SMALL),
        "one value": (gaussian[:, :1, :1], Status.TOO_SMALL),
        "nan": (broken, Status.NON_FINITE),
        "infinity": (infinite, Status.NON_FINITE),
        "orthogonal": (orthogonal, Status.FLAT),
        "identity": (torch.eye(16)[None], Status.FLAT),
        "too large to be squared": (gaussian * 1e200, Status.OUT_OF_RANGE),
        "too small to be squared": (gaussian * 1e-200, Status.OUT_OF_RANGE),
        "plain": (gaussian, Status.FITTED),
    }
    for name, (matrices, expected) in cases.items():
        found = one(matrices)
        assert found.status is expected, name
        assert (found.reason is None) == (expected is Status.FITTED), name
        if expected is not Status.FITTED:
            assert found.verdict.kind is VerdictKind.CANNOT_BE_FITTED, name
            assert found.verdict.because == f"{expected.value}: {found.reason}", name
            assert "\n" not in found.reason, name
            assert found.alpha is None, name


@pytest.mark.parametrize("kind", ["Linear", "Conv2d"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_orthogonal_weights_are_flat_in_the_type_they_are_stored_in(kind, dtype):
    """Rounding of the weights spreads equal eigenvalues by their own ε: α would be in the millions."""
    count = 1 if kind == "Linear" else 9
    stack = torch.stack([torch.linalg.qr(heavy(32, 32, seed=i))[0] for i in range(count)]).to(dtype)
    found = one(stack, kind=kind)
    assert found.status is Status.FLAT
    assert found.alpha is None


def test_what_is_broken_is_counted():
    matrices = heavy(1, 12, 10)
    matrices[0, 0, :3] = math.nan
    matrices[0, 1, 0] = math.inf
    assert "4 of 120" in one(matrices).reason


def test_a_layer_without_a_fit_keeps_the_norms_that_it_has():
    low_rank = heavy(1, 12, 2) @ heavy(1, 2, 10, seed=1)
    found = one(low_rank)
    assert found.status is Status.LOW_RANK
    assert found.metrics.rank == 2
    assert found.metrics.rank_loss == 8
    assert found.metrics.alpha_weighted is None
    for name in ("zero", "nan"):
        broken = torch.zeros(1, 12, 10) if name == "zero" else torch.full((1, 12, 10), math.nan)
        assert one(broken).metrics is None


def test_each_slice_has_a_status_of_its_own():
    stack = torch.stack([heavy(12, 10), torch.zeros(12, 10), heavy(12, 10, seed=1)[:, :1].expand(12, 10)])
    found = grade_layer(weights(stack, "Conv2d"), SLICES)
    assert [row.status for row in found] == [Status.FITTED, Status.ZERO, Status.LOW_RANK]
    pooled = one(stack, kind="Conv2d")
    assert pooled.status is Status.FITTED
    assert pooled.metrics.rank == 11
    assert [part.index for part in pooled.slices] == [0]


def test_a_broken_slice_does_not_hide_in_a_convolution():
    stack = heavy(4, 12, 10)
    stack[2, 0, 0] = math.nan
    for how in (PLAIN, SLICES):
        found = grade_layer(weights(stack, "Conv2d"), how)
        assert Status.NON_FINITE in {row.status for row in found}
        assert sum(row.parameters for row in found) == stack.numel()


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize(("kind", "count"), [("Linear", 1), ("Conv2d", 9)])
def test_alpha_does_not_depend_on_scale(kind, count, scale):
    matrices = heavy(count, 32, 24)
    plain, moved = one(matrices, kind=kind), one(matrices * scale, kind=kind)
    assert moved.alpha == pytest.approx(plain.alpha, abs=1e-9)
    assert moved.fit.tail == plain.fit.tail
    assert moved.metrics.entropy == pytest.approx(plain.metrics.entropy)
    assert moved.metrics.log_norm == pytest.approx(plain.metrics.log_norm + 2 * math.log10(scale))


@pytest.mark.parametrize("exponent", [-200, -170, -163, -162, -160, -157, -155, -153, -150, 150, 153, 154, 155, 200])
@pytest.mark.parametrize("how", [PLAIN, SLICES, dataclasses.replace(PLAIN, normalise="seed")])
@pytest.mark.filterwarnings("error")
def test_at_the_ends_of_the_range_numbers_are_right_or_refused(exponent, how):
    """λ = σ² leaves the range of float64 near 1e±154, and loses digits below 1e-308 before it does."""
    matrices = heavy(4, 32, 24)
    plain = grade_layer(weights(matrices, "Conv2d"), how)
    found = grade_layer(weights(matrices * 10.0**exponent, "Conv2d"), how)
    if abs(exponent) >= 170:
        assert {row.status for row in found} == {Status.OUT_OF_RANGE}
    for row in found:
        row.to_json()
        if row.fitted:
            same = next(other for other in plain if other.slice == row.slice)
            assert row.alpha == pytest.approx(same.alpha, rel=1e-6)
            assert row.metrics.rank == same.metrics.rank
        else:
            assert row.status is Status.OUT_OF_RANGE
            assert row.metrics is None or math.isfinite(row.metrics.norm)


# evidence


def test_without_evidence_there_is_none_and_no_verdict():
    found = one(heavy(1, 40, 30))
    assert (found.interval, found.goodness, found.bulk, found.twin, found.aspect) == (None,) * 5
    assert found.alternatives == ()
    assert found.verdict.kind is VerdictKind.NOT_JUDGED


def test_fast_and_full_gather_what_they_promise():
    matrices = heavy(1, 60, 40)
    fast, full = one(matrices, FAST), one(matrices, FULL)
    for found in (fast, full):
        assert found.interval.low <= found.alpha <= found.interval.high
        assert found.interval.confidence == 0.95
        assert found.bulk is not None
        assert {other.name for other in found.alternatives} == {"exponential", "lognormal", "truncated power law"}
        assert found.universality is not None
        assert found.verdict.kind not in (VerdictKind.NOT_JUDGED, VerdictKind.CANNOT_BE_FITTED)
    assert (fast.goodness, fast.twin, fast.aspect) == (None, None, None)
    assert full.goodness is not None
    assert 0 <= full.goodness.p <= 1
    assert full.twin is not None
    assert full.aspect is not None
    assert fast.fit == full.fit == one(matrices).fit


@pytest.mark.parametrize("cut", ["ks", "erg", "hill:0.4"])
def test_the_interval_is_that_of_the_exponent_in_the_table(cut):
    found = one(heavy(1, 60, 40), dataclasses.replace(FULL, cut=TailCut.of(cut)))
    assert found.interval.value == found.alpha
    assert found.interval.low <= found.alpha <= found.interval.high


def test_ties_do_not_leave_the_layer_unjudged():
    roots = torch.arange(1.0, 9.0, dtype=torch.float64).repeat_interleave(torch.tensor([40, *[1] * 7]))
    found = one(torch.diag(roots)[None], FAST)
    assert found.status is Status.FITTED
    assert found.verdict.kind is not VerdictKind.NOT_JUDGED
    tied = one(torch.diag(torch.tensor([1.0] * 15 + [3.0], dtype=torch.float64))[None], FAST)
    assert tied.status is Status.DEGENERATE
    assert tied.reason == "2 different eigenvalues among 16, fewer than 8"


def test_what_is_drawn_depends_on_the_seed_the_name_and_the_slice_alone():
    stack = heavy(2, 60, 40)
    stack[1] = stack[0]

    def interval(how: GradingOptions, name: str = "layer") -> tuple[float, float]:
        found = one(stack[:1], how, name=name)
        return found.interval.low, found.interval.high

    again = interval(FAST)
    assert interval(FAST) == again
    assert interval(dataclasses.replace(FAST, seed=1)) != again
    assert interval(FAST, "other") != again
    first, second = grade_layer(weights(stack, "Conv2d"), dataclasses.replace(FAST, conv="slices"))
    assert first.fit.alpha == second.fit.alpha
    assert (first.interval.low, first.interval.high) != (second.interval.low, second.interval.high)


@pytest.mark.parametrize("how", [PLAIN, FAST, FULL, SLICES])
def test_neither_the_weights_nor_global_generators_are_touched(how):
    matrices = heavy(4, 24, 16)
    before, torch_state, numpy_state = matrices.clone(), torch.get_rng_state(), np.random.get_state()[1].copy()
    grade_layer(weights(matrices, "Conv2d"), how)
    assert torch.equal(matrices, before)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_the_evidence_is_the_same_for_any_scale():
    matrices = heavy(1, 60, 40)
    plain, moved = one(matrices, FULL), one(matrices * 2.0**40, FULL)
    assert (moved.alpha_low, moved.alpha_high) == pytest.approx((plain.alpha_low, plain.alpha_high), rel=1e-9)
    assert moved.goodness.p == plain.goodness.p
    assert moved.bulk.spikes == plain.bulk.spikes
    assert moved.bulk.soft_rank == pytest.approx(plain.bulk.soft_rank)
    assert [other.p for other in moved.alternatives] == pytest.approx([other.p for other in plain.alternatives])
    assert moved.twin.traps == plain.twin.traps
    assert moved.twin.distance == pytest.approx(plain.twin.distance, abs=1e-9)
    assert moved.aspect.alpha == pytest.approx(plain.aspect.alpha, rel=1e-9)
    assert moved.verdict.kind is plain.verdict.kind


def test_what_is_known_about_the_layer_is_carried_on():
    found = one(heavy(1, 20, 10), name="head", kind="Embedding", tied_with=("tail",), notes=("a note",))
    assert (found.name, found.kind, found.shape, found.parameters) == ("head", "Embedding", (20, 10), 200)
    assert (found.tied_with, found.notes) == (("tail",), ("a note",))
    dead = one(torch.zeros(1, 20, 10), name="head", kind="Embedding", tied_with=("tail",), notes=("a note",))
    assert (dead.name, dead.kind, dead.tied_with, dead.notes) == ("head", "Embedding", ("tail",), ("a note",))
