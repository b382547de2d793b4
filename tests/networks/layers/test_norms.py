from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import OptionError
from weightsmith.networks.layers.norms import entrywise, frobenius, spectral, stable_rank, unit_norms

SIZES = st.tuples(st.integers(0, 3), st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6))


@settings(max_examples=40)
@given(SIZES)
def test_norms_agree_with_the_singular_values(size):
    count, rows, columns, seed = size
    shape = (count, rows, columns) if count else (rows, columns)
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    values = torch.linalg.svdvals(matrix)
    assert torch.allclose(frobenius(matrix), values.square().sum(-1).sqrt())
    assert torch.allclose(spectral(matrix), values[..., 0])
    assert torch.allclose(stable_rank(matrix), values.square().sum(-1) / values[..., 0].square())
    assert ((stable_rank(matrix) >= 1 - 1e-12) & (stable_rank(matrix) <= min(rows, columns) + 1e-9)).all()


def test_stable_rank_of_an_orthogonal_and_of_a_rank_one_matrix():
    assert stable_rank(torch.eye(5, dtype=torch.float64)).item() == pytest.approx(5)
    ones = torch.ones(3, 4, dtype=torch.float64)
    assert stable_rank(ones).item() == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_stable_rank_does_not_depend_on_scale(scale):
    matrix = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert stable_rank(matrix * scale).item() == pytest.approx(stable_rank(matrix).item(), rel=1e-5)


def test_a_zero_matrix_has_no_stable_rank():
    with pytest.raises(OptionError, match="zero matrix"):
        stable_rank(torch.zeros(2, 3, 3))


def test_entrywise_norms_in_long_hand():
    weights = torch.tensor([[1.0, -2.0], [3.0, 0.0]], dtype=torch.float64)
    assert entrywise(weights, 1).item() == 6
    assert entrywise(weights, 2).item() == pytest.approx(14**0.5)
    assert entrywise(weights, 4).item() == pytest.approx((1 + 16 + 81) ** 0.25)
    assert unit_norms(weights, 4).tolist() == pytest.approx([17**0.25, 3.0])


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_fourth_powers_do_not_leave_the_range_of_float32(scale):
    weights = torch.tensor([1.0, -2.0, 3.0])
    assert entrywise(weights * scale, 4).item() == pytest.approx(scale * 98**0.25, rel=1e-5)
    assert entrywise(torch.zeros(3), 4).item() == 0


def test_a_filter_is_one_unit():
    weights = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    by_hand = [weights[j].abs().pow(4).sum().pow(0.25).item() for j in range(4)]
    assert unit_norms(weights, 4).tolist() == pytest.approx(by_hand)


def test_norms_can_be_differentiated():
    matrix = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for norm in (frobenius, spectral, stable_rank, lambda m: entrywise(m, 4)):
        assert torch.autograd.gradcheck(norm, (matrix,))


@pytest.mark.parametrize("name", ["tall", "wide", "heavy", "low_rank"])
def test_norms_are_those_of_weightwatcher(reference, unpack, name):
    """That tool's ``norm`` is the squared Frobenius norm and its ``spectral_norm`` the squared spectral norm."""
    vectors = reference("weightwatcher_layers")
    matrix, theirs = torch.from_numpy(unpack(vectors["layers"][name])), vectors["pooled"][name]
    assert frobenius(matrix).item() ** 2 == pytest.approx(theirs["norm"], rel=1e-6)
    assert spectral(matrix).item() == pytest.approx(theirs["sv_max"], rel=1e-6)
    assert stable_rank(matrix).item() == pytest.approx(theirs["stable_rank"], rel=1e-6)
