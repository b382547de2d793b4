from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weightsmith as ws
from weightsmith.core.errors import OptionError
from weightsmith.grading.distances import Distances, DistanceStatus, LayerDistance, distances


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int = 5) -> torch.Tensor:
    return torch.linalg.qr(draw(size, size, seed=seed))[0]


def between(a: torch.Tensor, b: torch.Tensor, directions: int = 10) -> LayerDistance:
    (found,) = distances({"a.weight": a}, {"a.weight": b}, directions=directions).layers
    return found


def test_closed_forms_on_diagonal_matrices():
    found = between(torch.diag(torch.tensor([4.0, 3.0])), torch.diag(torch.tensor([4.0, 0.0])), directions=1)
    assert found.status is DistanceStatus.MEASURED
    assert found.norm == pytest.approx(5)
    assert found.relative == pytest.approx(3 / 5)
    assert found.cosine == pytest.approx(16 / (5 * 4))
    assert found.spectral == pytest.approx(3 / 4)
    assert found.spectrum == pytest.approx(3 / 5)
    # X = diag(4, 3), Y = diag(4, 0): ‖YᵀX‖² = 16², ‖XᵀX‖ = √(16² + 9²), ‖YᵀY‖ = 16
    assert (found.cka_rows, found.cka_columns) == pytest.approx([16 / math.hypot(16, 9)] * 2)
    # Centred over two cases every matrix is one vector times (1, −1)/2: all alignment, whatever the vectors.
    assert (found.cka_rows_centred, found.cka_columns_centred) == pytest.approx((1, 1))
    assert (found.overlap.directions, found.overlap.outputs, found.overlap.inputs) == (1, 1, 1)
    assert (found.overlap.chance_outputs, found.overlap.chance_inputs) == (0.5, 0.5)


def slow_cka(x: np.ndarray, y: np.ndarray) -> float:
    """By its definition with kernel matrices (Kornblith et al., eqs. 2 and 3), centred by the centring matrix."""
    n = len(x)
    centre = np.eye(n) - 1 / n
    hsic = lambda k, other: np.trace(centre @ k @ centre @ other)  # noqa: E731
    kx, ky = x @ x.T, y @ y.T
    return hsic(kx, ky) / math.sqrt(hsic(kx, kx) * hsic(ky, ky))


@pytest.mark.parametrize(("rows", "columns"), [(6, 9), (9, 6), (5, 5)])
def test_alignment_by_its_definition(rows, columns):
    a, b = draw(rows, columns), draw(rows, columns, seed=1)
    found = between(a, b)
    assert found.cka_rows_centred == pytest.approx(slow_cka(a.numpy(), b.numpy()))
    assert found.cka_columns_centred == pytest.approx(slow_cka(a.numpy().T, b.numpy().T))
    norm = torch.linalg.matrix_norm
    assert found.cka_rows == pytest.approx(float(norm(b.T @ a) ** 2 / (norm(a.T @ a) * norm(b.T @ b))))
    assert found.cka_columns == pytest.approx(float(norm(b @ a.T) ** 2 / (norm(a @ a.T) * norm(b @ b.T))))


def test_what_each_measure_does_not_see():
    a, turn = draw(6, 9), rotation(9)
    turned = between(a, 3 * a @ turn)
    assert (turned.cka_rows, turned.cka_rows_centred) == pytest.approx((1, 1))
    assert turned.cka_columns < 0.99
    assert turned.overlap.outputs == pytest.approx(1)
    scaled = between(a, -2 * a)
    assert scaled.cosine == -1
    assert (scaled.relative, scaled.spectral, scaled.spectrum) == pytest.approx((3, 3, 1))
    assert scaled.cka_columns == pytest.approx(1)
    assert between(a, a @ turn).spectrum == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("shape", [(8, 20), (20, 8)])
def test_overlap_of_known_subspaces(shape):
    """A and B share two of their three largest directions on the left, one on the right."""
    rows, columns = shape
    u, v, s = rotation(rows), rotation(columns, seed=6), torch.tensor([9.0, 8, 7], dtype=torch.float64)
    a = (u[:, [0, 1, 2]] * s) @ v[:, [0, 1, 2]].T
    b = (u[:, [0, 1, 3]] * s) @ v[:, [4, 5, 0]].T
    found = between(a, b, directions=3).overlap
    assert (found.outputs, found.inputs) == pytest.approx((2 / 3, 1 / 3))
    assert (found.chance_outputs, found.chance_inputs) == (3 / rows, 3 / columns)
    assert between(a, b, directions=50).overlap.directions == 3  # no more than the rank


def test_random_subspaces_overlap_by_chance():
    found = [between(draw(30, 40, seed=i), draw(30, 40, seed=100 + i), directions=6).overlap for i in range(30)]
    assert np.mean([overlap.outputs for overlap in found]) == pytest.approx(6 / 30, abs=0.02)
    assert np.mean([overlap.inputs for overlap in found]) == pytest.approx(6 / 40, abs=0.02)


def test_all_kernel_positions_count():
    a, b = draw(4, 3, 2, 2), draw(4, 3, 2, 2, seed=1)
    found = between(a, b)
    assert found.relative == pytest.approx(float((a - b).norm() / a.norm()))
    assert found.cosine == pytest.approx(float((a * b).sum() / (a.norm() * b.norm())))
    assert found.cka_rows_centred == pytest.approx(slow_cka(a.flatten(1).numpy(), b.flatten(1).numpy()))
    by_input = [w.transpose(0, 1).flatten(1).numpy() for w in (a, b)]
    assert found.cka_columns_centred == pytest.approx(slow_cka(*by_input))
    largest = [max(torch.linalg.matrix_norm(w[:, :, i, j], 2) for i in (0, 1) for j in (0, 1)) for w in (a - b, a)]
    assert found.spectral == pytest.approx(float(largest[0] / largest[1]))
    assert found.overlap.directions == 3


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6), st.floats(-6, 6))
@settings(max_examples=60, deadline=None)
def test_inequalities_hold(rows, columns, seed, size):
    a, b = draw(rows, columns, seed=seed), 10**size * draw(rows, columns, seed=seed + 1)
    found = between(a, b)
    assert found.spectrum <= found.relative * (1 + 1e-9)
    assert -1 <= found.cosine <= 1
    for value in (found.cka_rows, found.cka_columns, found.cka_rows_centred, found.cka_columns_centred):
        assert value is None or 0 <= value <= 1
    assert found.relative**2 == pytest.approx(
        1 + float(b.norm() / a.norm()) ** 2 - 2 * found.cosine * float(b.norm() / a.norm()), rel=1e-6
    )
    same = between(a, a)
    assert (same.relative, same.spectral, same.spectrum) == (0, 0, 0)
    assert same.cosine == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_no_scale_leaves_the_range_of_numbers(scale):
    a, b = draw(4, 5), draw(4, 5, seed=1)
    plain, scaled = between(a, b), between(a * scale, b * scale)
    assert scaled.norm == pytest.approx(plain.norm * scale)
    for name in ("relative", "cosine", "spectral", "spectrum", "cka_rows", "cka_columns_centred"):
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name)), name
    apart = between(a * 1e-300, b * 1e300)
    assert (apart.relative, apart.spectral, apart.spectrum) == (None, None, None)
    assert apart.cosine == pytest.approx(plain.cosine)
    assert apart.cka_rows == pytest.approx(plain.cka_rows)


@pytest.mark.parametrize(
    ("a", "b", "status", "reason"),
    [
        (torch.zeros(2, 2), torch.ones(2, 2), DistanceStatus.ZERO, "zero in the first network"),
        (torch.ones(2, 2), torch.zeros(2, 2), DistanceStatus.ZERO, "zero in the second network"),
        (torch.zeros(2, 2), torch.zeros(2, 2), DistanceStatus.ZERO, "zero in the first and the second network"),
        (
            torch.ones(2, 2),
            torch.full((2, 2), torch.inf),
            DistanceStatus.NON_FINITE,
            "non-finite in the second network",
        ),
        (
            torch.tensor([[1, torch.nan]]),
            torch.ones(1, 2),
            DistanceStatus.NON_FINITE,
            "non-finite in the first network",
        ),
    ],
)
def test_what_cannot_be_measured_has_a_status_and_no_numbers(a, b, status, reason):
    found = between(a, b)
    assert (found.status, found.reason) == (status, reason)
    assert (found.relative, found.cosine, found.cka_rows, found.overlap) == (None, None, None, None)


def test_constant_rows_have_no_centred_alignment():
    a = torch.full((4, 3), 0.1)
    found = between(a, draw(4, 3))
    assert found.cka_rows_centred is None
    assert found.cka_rows is not None


def test_a_matrix_of_zeros_among_others_has_no_directions():
    a = draw(4, 3, 2, 2)
    a[:, :, 0, 0] = 0
    assert between(a, draw(4, 3, 2, 2, seed=1)).overlap is None


def test_unmatched_layers_are_named_and_the_record_is_exact():
    a = {"a.weight": draw(3, 3), "b.weight": draw(2, 2), "c.weight": draw(2, 5), "z.weight": torch.zeros(2, 2)}
    b = {"a.weight": 2 * draw(3, 3), "c.weight": draw(5, 2), "d.weight": draw(2, 2), "z.weight": torch.zeros(2, 2)}
    found = distances(a, b, directions=2)
    assert [(item.name, item.reason) for item in found.unmatched] == [
        ("b", "not in the second network"),
        ("c", "has shape (5, 2) in the second network"),
        ("d", "only in the second network"),
    ]
    assert found.relative == pytest.approx(1)
    assert found.line == "1 layers measured, 1 zero, 3 unmatched; relative distance 1"
    assert Distances.from_json(found.to_json()) == found
    chosen = distances(a, b, layers="a")
    assert ([layer.name for layer in chosen.layers], chosen.unmatched) == (["a"], ())


def test_the_whole_network_weighs_layers_by_their_norm():
    a = {"a.weight": torch.tensor([[3.0]]), "b.weight": torch.tensor([[4.0]])}
    b = {"a.weight": torch.tensor([[3.0]]), "b.weight": torch.tensor([[7.0]])}
    assert distances(a, b).relative == pytest.approx(3 / 5)
    assert distances({"a.weight": torch.zeros(1, 1)}, {"a.weight": torch.zeros(1, 1)}).relative is None


def test_directions_must_be_at_least_one():
    with pytest.raises(OptionError, match="directions must be ≥ 1, not 0"):
        distances({}, {}, directions=0)


def test_they_print_in_one_line():
    found = ws.distances(ws.networks.mlp(8, 4, 2), ws.networks.mlp(8, 4, 2))
    assert str(found) == "2 layers measured; relative distance 0"
    assert repr(found) == f"<Distances: {found}>"
