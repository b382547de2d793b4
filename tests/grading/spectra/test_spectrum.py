"""Eigenvalues against closed forms and singular values, whatever the way they are computed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.grading.fits.powerlaw import fit_power_law
from weightsmith.grading.spectra import spectrum as module
from weightsmith.grading.spectra.spectrum import Spectrum, spectrum

WAYS = [("gram", "cpu"), ("svd", "cpu"), ("gram", "cpu:0")]  # any name but "cpu" takes the way of other devices


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def by_singular_values(matrices: torch.Tensor) -> np.ndarray:
    """One ascending row of σ² per matrix."""
    return torch.linalg.svdvals(matrices.to(torch.float64)).square().flip(-1).numpy()


def planted(singular: list[float], rows: int, seed: int = 0) -> torch.Tensor:
    """A matrix with the given singular values, turned by random rotations."""
    size = len(singular)
    left, _ = torch.linalg.qr(gaussian(rows, size, seed=seed))
    right, _ = torch.linalg.qr(gaussian(size, size, seed=seed + 1))
    return (left * torch.tensor(singular, dtype=torch.float64)) @ right.T


@pytest.mark.parametrize(("method", "device"), WAYS)
def test_a_diagonal_matrix_has_the_squares_of_its_entries(method, device):
    found = spectrum(torch.diag(torch.tensor([3.0, -1.0, 0.5, 2.0]))[None], method=method, device=device)
    assert found.eigenvalues.tolist() == [0.25, 1.0, 4.0, 9.0]
    assert found.parts.tolist() == [[0.25, 1.0, 4.0, 9.0]]
    assert (found.rows, found.columns, found.matrices, found.rank) == (4, 4, 1, 4)
    assert found.method == f"{method} float64"


@pytest.mark.parametrize(("method", "device"), WAYS)
@pytest.mark.parametrize(
    "shape", [(1, 7, 7), (1, 40, 9), (1, 9, 40), (6, 5, 3), (6, 3, 5), (2, 200, 140), (2, 140, 200), (1, 1, 5)]
)
def test_every_way_agrees_with_singular_values(shape, method, device):
    matrices = gaussian(*shape)
    found = spectrum(matrices, method=method, device=device)
    assert found.parts == pytest.approx(by_singular_values(matrices), rel=1e-8)
    assert (found.rows, found.columns) == (max(shape[1:]), min(shape[1:]))
    assert found.rank == found.eigenvalues.size == shape[0] * min(shape[1:])


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 4), rows=st.integers(1, 12), columns=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_a_transpose_has_the_same_spectrum_and_the_trace_is_kept(count, rows, columns, seed):
    matrices = gaussian(count, rows, columns, seed=seed)
    found, turned = spectrum(matrices), spectrum(matrices.mT)
    top = found.eigenvalues[-1]
    assert turned.parts == pytest.approx(found.parts, abs=1e-13 * top)
    assert (turned.rows, turned.columns) == (found.rows, found.columns)
    assert found.eigenvalues.sum() == pytest.approx(float(matrices.square().sum()), rel=1e-12)
    assert (np.diff(found.eigenvalues) >= 0).all()
    assert (np.diff(found.parts, axis=1) >= 0).all()


@pytest.mark.parametrize("shape", [(1, 300, 17), (1, 17, 300), (2, 150, 131)])
@pytest.mark.parametrize("block", [1, 100, 1000])
@pytest.mark.parametrize("scale", [1.0, 1e-120])
def test_blocks_add_up_to_the_whole(monkeypatch, shape, block, scale):
    matrices = gaussian(*shape) * scale
    whole = spectrum(matrices)
    monkeypatch.setattr(module, "_BLOCK", block)
    parts = spectrum(matrices).parts
    assert parts == pytest.approx(whole.parts, rel=1e-9, abs=1e-13 * whole.parts.max())


@pytest.mark.parametrize("shape", [(1, 60, 40), (9, 32, 16), (1, 260, 200)])
@pytest.mark.parametrize("method", ["gram", "svd"])
def test_float32_keeps_six_digits_of_the_large_eigenvalues(shape, method):
    matrices = gaussian(*shape, dtype=torch.float32)
    exact = spectrum(matrices).eigenvalues
    rough = spectrum(matrices, precision="float32", method=method)
    upper = exact > 0.1 * exact[-1]
    assert rough.eigenvalues[-upper.sum() :] == pytest.approx(exact[upper], rel=1e-5)
    assert rough.method == f"{method} float32"
    assert rough.eigenvalues.dtype == rough.parts.dtype == np.float64


def test_gram_of_float64_sees_eigenvalues_that_float32_cannot():
    matrices = planted([1.0, 1e-1, 1e-4, 1e-5], rows=8)[None]
    assert spectrum(matrices).eigenvalues == pytest.approx([1e-10, 1e-8, 1e-2, 1.0], rel=1e-4)
    assert spectrum(matrices, precision="float32").rank < 4


def test_singular_values_see_further_down_than_products():
    matrices = torch.diag(torch.tensor([1.0, 1e-6, 1e-10], dtype=torch.float64))[None]
    assert spectrum(matrices).rank == 2
    assert spectrum(matrices, method="svd").eigenvalues == pytest.approx([1e-20, 1e-12, 1.0], rel=1e-12)


@pytest.mark.parametrize("method", ["gram", "svd"])
@pytest.mark.parametrize("rank", [1, 2, 5, 19])
@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (400, 150)])
def test_the_rank_of_a_product_is_that_of_its_factors(shape, rank, method):
    rows, columns = shape
    matrices = (gaussian(rows, rank) @ gaussian(rank, columns, seed=1))[None]
    found = spectrum(matrices, method=method)
    assert found.rank == found.eigenvalues.size == rank
    assert (found.parts == 0).sum() == min(shape) - rank
    assert found.eigenvalues == pytest.approx(by_singular_values(matrices)[0, -rank:], rel=1e-9)


def test_a_planted_spectrum_is_found():
    singular = [5.0, 3.0, 2.0, 1.0, 0.1]
    for rows in (5, 12, 500):
        found = spectrum(planted(singular, rows)[None])
        assert found.eigenvalues == pytest.approx(np.square(singular)[::-1], rel=1e-10)


@pytest.mark.parametrize("method", ["gram", "svd"])
def test_rounding_noise_is_judged_for_each_matrix_by_itself(method):
    """The rounding of one product has the size of its own largest eigenvalue, whatever the others are."""
    small = gaussian(1, 10, 10)
    both = spectrum(torch.cat([small * 1e-10, small]), method=method)
    assert both.rank == 20
    assert both.parts[0] * 1e20 == pytest.approx(both.parts[1], rel=1e-6)
    lonely = torch.zeros(1, 10, 10, dtype=torch.float64)
    assert spectrum(torch.cat([lonely, small]), method=method).rank == 10


@pytest.mark.parametrize("method", ["gram", "svd"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1, 24, 16), (4, 12, 12), (1, 150, 140)])
def test_weights_beyond_the_squares_of_their_type_are_scaled_and_scaled_back(shape, precision, method):
    matrices = gaussian(*shape)
    plain = spectrum(matrices, precision=precision, method=method)
    for power in (-480, -300, -34, -3, 5, 100, 333, 490):
        moved = spectrum(torch.from_numpy(np.ldexp(matrices.numpy(), power)), precision=precision, method=method)
        tolerance = plain.parts.max() * (1e-14 if precision == "float64" else 1e-5)
        assert np.ldexp(moved.parts, -2 * power) == pytest.approx(plain.parts, abs=tolerance), power
        assert moved.rank == plain.rank


@pytest.mark.parametrize("method", ["gram", "svd"])
@pytest.mark.parametrize("shape", [(1, 60, 50), (9, 16, 16), (1, 50, 180)])
def test_alpha_does_not_depend_on_the_scale_of_the_weights(shape, method):
    matrices = gaussian(*shape)
    plain = fit_power_law(spectrum(matrices, method=method).eigenvalues)
    for scale in (1e-30, 1e-12, 1e-3, 7.0, 1e10, 1e30):
        fit = fit_power_law(spectrum(matrices * scale, method=method).eigenvalues)
        assert fit.alpha == pytest.approx(plain.alpha, abs=1e-9)
        assert fit.xmin / scale**2 == pytest.approx(plain.xmin, rel=1e-10)
        assert fit.tail == plain.tail


def test_float32_weights_near_the_ends_of_their_range_are_squared_safely():
    matrices = gaussian(1, 20, 12, dtype=torch.float32)
    plain = spectrum(matrices).eigenvalues
    for scale in (2.0**-100, 2.0**120):
        for precision in ("float64", "float32"):
            found = spectrum(matrices * scale, precision=precision).eigenvalues
            assert found / scale**2 == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_smallest_numbers_of_float32_are_squared_too(precision):
    matrices = (gaussian(1, 20, 12) * 1e-41).to(
        torch.float32
    )  # subnormal: the factor that lifts them is beyond float32
    found = spectrum(matrices, precision=precision).eigenvalues
    assert found == pytest.approx(by_singular_values(matrices)[0], rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(1, 30, 20), (3, 8, 9), (1, 150, 140)])
def test_narrow_types_are_widened_before_they_are_multiplied(dtype, shape):
    matrices = gaussian(*shape, dtype=dtype)
    for method in ("gram", "svd"):
        found = spectrum(matrices, method=method).parts
        assert found == pytest.approx(by_singular_values(matrices), rel=1e-7)


@pytest.mark.parametrize(("method", "device"), WAYS)
@pytest.mark.parametrize("scale", [1.0, 1e-150])
def test_no_layout_in_memory_matters_and_the_input_stays_as_it_is(method, device, scale):
    base = gaussian(4, 18, 30) * scale
    views = {
        "turned": base.mT,
        "permuted": base.permute(2, 1, 0),
        "strided": base[::2, ::3, 1::2],
        "flipped order": base.flip(0)[:1],
        "expanded": base[:1].expand(3, 18, 30),
        "with gradient": base.clone().requires_grad_(),
    }
    for name, view in views.items():
        before, plain = view.detach().clone(), view.detach().contiguous().clone()
        found = spectrum(view, method=method, device=device)
        assert found.parts == pytest.approx(
            spectrum(plain, method=method, device=device).parts, rel=1e-9, abs=1e-13 * found.parts.max()
        ), name
        assert torch.equal(view.detach(), before), name
        assert view.requires_grad == (name == "with gradient")


def test_pooled_eigenvalues_are_those_of_all_matrices_in_order():
    matrices = gaussian(5, 6, 4)
    found = spectrum(matrices)
    alone = [spectrum(matrix[None]).eigenvalues for matrix in matrices]
    assert found.eigenvalues == pytest.approx(np.sort(np.concatenate(alone)), rel=1e-9)
    for index in range(5):
        part = found.part(index)
        assert part.eigenvalues == pytest.approx(alone[index], rel=1e-9)
        assert (part.matrices, part.rank, part.rows, part.columns) == (1, 4, 6, 4)
        assert part.parts.shape == (1, 4)


def test_a_part_counts_its_own_rank():
    matrices = torch.stack([torch.diag(torch.tensor(row)) for row in ([1.0, 2.0, 3.0], [0.0, 0.0, 4.0], [0.0] * 3)])
    found = spectrum(matrices)
    assert found.eigenvalues.tolist() == [1.0, 4.0, 9.0, 16.0]
    assert [found.part(index).rank for index in range(3)] == [3, 1, 0]
    assert found.part(2).eigenvalues.size == 0
    assert found.part(1).parts.tolist() == [[0.0, 0.0, 16.0]]


def test_scaling_multiplies_every_eigenvalue_and_nothing_else():
    found = spectrum(gaussian(3, 6, 4))
    halved = found.scaled(0.5)
    assert np.array_equal(halved.eigenvalues, found.eigenvalues / 2)
    assert np.array_equal(halved.parts, found.parts / 2)
    assert (halved.rank, halved.rows, halved.columns, halved.method) == (12, 6, 4, found.method)
    assert found.scaled(1) is found


def test_the_record_survives_json():
    found = spectrum(gaussian(2, 5, 3))
    again = Spectrum.from_json(found.to_json())
    assert again == found
    assert again.eigenvalues.tobytes() == found.eigenvalues.tobytes()


def test_the_same_input_gives_the_same_bytes():
    for shape in ((1, 200, 180), (9, 64, 64)):
        first, second = (spectrum(gaussian(*shape)).parts.tobytes() for _ in range(2))
        assert first == second


def symmetric(rng: np.random.Generator, size: int, kind: str) -> np.ndarray:
    """A positive semi-definite matrix that is hard in one way."""
    base = rng.standard_normal((size, size))
    turn = np.linalg.qr(base)[0]
    match kind:
        case "plain":
            return base @ base.T
        case "zero":
            return np.zeros((size, size))
        case "identity":
            return np.eye(size)
        case "diagonal":
            return np.diag(rng.pareto(0.5, size))
        case "rank one":
            return np.outer(base[0], base[0])
        case "ties":
            return (turn * rng.choice([1.0, 2.0], size)) @ turn.T
        case "clusters":
            return (turn * (1 + 1e-12 * rng.random(size))) @ turn.T
        case "geometric":
            return (turn * 10.0 ** -np.linspace(0, 40, size)) @ turn.T
        case "graded":
            scales = 10.0 ** -np.linspace(0, 30, size)
            return scales[:, None] * (base @ base.T) * scales
        case "blocks":
            whole = np.zeros((size, size))
            half = size // 2
            whole[:half, :half] = base[:half] @ base[:half].T
            return whole
        case "huge":
            return base @ base.T * 1e190
        case "tiny":
            return base @ base.T * 1e-190
        case "ones":
            return np.ones((size, size))
        case _:
            raise AssertionError(kind)


HARD = [
    "plain",
    "zero",
    "identity",
    "diagonal",
    "rank one",
    "ties",
    "clusters",
    "geometric",
    "graded",
    "blocks",
    "huge",
    "tiny",
    "ones",
]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 33, 64])
def test_the_compiled_solver_agrees_with_lapack_in_every_lane(size):
    """Lanes run in lock step: an easy matrix must wait for a hard one and keep its eigenvalues."""
    from weightsmith.grading.spectra.small import eigenvalues_of_stack

    for seed in range(6):
        rng = np.random.default_rng([size, seed])
        kinds = rng.permutation(HARD * 2)
        stack = np.stack([symmetric(rng, size, str(kind)) for kind in kinds])
        stack = (stack + stack.transpose(0, 2, 1)) / 2
        expected = np.linalg.eigvalsh(stack)
        values, found = eigenvalues_of_stack(stack.copy())
        assert found
        for kind, mine, theirs in zip(kinds, values, expected, strict=True):
            assert mine == pytest.approx(theirs, rel=0, abs=4 * size * 2.3e-16 * abs(theirs).max()), kind
            assert (np.diff(mine) >= 0).all(), kind
        alone = np.concatenate([eigenvalues_of_stack(matrix[None].copy())[0] for matrix in stack])
        assert alone == pytest.approx(values, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("shape", [(3, 4), (4,), (0, 3, 3), (2, 0, 3), (2, 3, 0), (1, 2, 3, 4)])
def test_what_is_no_stack_of_matrices_is_refused_in_one_line(shape):
    with pytest.raises(UsageError, match="stack of matrices") as refused:
        spectrum(torch.zeros(shape))
    assert "\n" not in str(refused.value)


def test_rank_counts_positive_eigenvalues_for_all_ways():
    for (method, device), precision in itertools.product(WAYS, ("float64", "float32")):
        found = spectrum(gaussian(3, 9, 6), method=method, precision=precision, device=device)
        assert found.rank == (found.parts > 0).sum() == found.eigenvalues.size


def test_a_gram_matrix_that_does_not_fit_is_refused_with_the_figure(monkeypatch):
    monkeypatch.setattr("weightsmith.core.memory.free_memory", lambda: 1_000_000)
    with pytest.raises(UsageError, match=r"400 × 300 matrix in float64 needs 34\.3 MB of memory .* 1\.0 MB are free"):
        spectrum(torch.randn(1, 400, 300, generator=torch.Generator().manual_seed(0)))
