"""Norms, ranks and entropy: closed forms on diagonal matrices, and torch's own norms as another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.grading.metrics import LayerMetrics, layer_metrics, log_alpha_norm
from weightsmith.grading.spectra.spectrum import spectrum


def diagonal(*entries: float) -> torch.Tensor:
    return torch.diag(torch.tensor(entries, dtype=torch.float64))[None]


def test_every_number_of_a_diagonal_matrix_by_hand():
    found = layer_metrics(spectrum(diagonal(10.0, 2.0, 1.0, 0.0)), alpha=3.0)
    # λ = 100, 4, 1, 0
    shares = np.array([100, 4, 1]) / 105
    assert found.to_dict() == pytest.approx(
        {
            "lambda_max": 100.0,
            "lambda_smallest": 1.0,
            "norm": 105.0,
            "log_norm": math.log10(105),
            "log_spectral_norm": 2.0,
            "stable_rank": 1.05,
            "log_stable_rank": math.log10(105) / 2,
            "rank": 3,
            "rank_loss": 1,
            "weak_rank_loss": 1,
            "entropy": float(-(shares * np.log(shares)).sum() / math.log(3)),
            "sv_max": 10.0,
            "sv_min": 0.0,
            "Q": 1.0,
            "alpha_weighted": 6.0,
            "log_alpha_norm": math.log10(100**3 + 4**3 + 1),
        },
        rel=1e-12,
    )


def test_without_an_exponent_only_the_two_that_need_it_are_missing():
    fields = layer_metrics(spectrum(diagonal(3.0, 2.0))).to_dict()
    assert {name for name, value in fields.items() if value is None} == {"alpha_weighted", "log_alpha_norm"}


@settings(max_examples=50, deadline=None)
@given(count=st.integers(1, 4), rows=st.integers(2, 15), columns=st.integers(2, 15), seed=st.integers(0, 10**6))
def test_norms_agree_with_those_of_the_weights(count, rows, columns, seed):
    weights = torch.randn(count, rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = layer_metrics(spectrum(weights, method="svd"), alpha=2.5)
    largest = float(torch.linalg.matrix_norm(weights, 2).max())
    total = float(weights.square().sum())
    assert found.sv_max == pytest.approx(largest, rel=1e-12)
    assert found.lambda_max == pytest.approx(largest**2, rel=1e-12)
    assert found.norm == pytest.approx(total, rel=1e-12)
    assert found.log_norm == pytest.approx(math.log10(total), abs=1e-12)
    assert found.stable_rank == pytest.approx(total / largest**2, rel=1e-12)
    assert found.alpha_weighted == pytest.approx(2.5 * math.log10(largest**2), abs=1e-12)
    assert found.sv_min == pytest.approx(float(torch.linalg.svdvals(weights).min()), rel=1e-8)
    assert (found.Q, found.rank) == (
        max(rows, columns) / min(rows, columns),
        int(torch.linalg.matrix_rank(weights).sum()),
    )
    assert 1 <= found.stable_rank <= found.rank + 1e-9
    assert 0 <= found.entropy <= 1 + 1e-12


def test_entropy_is_one_for_equal_eigenvalues_and_small_for_one_that_dominates():
    assert layer_metrics(spectrum(diagonal(*[2.0] * 7))).entropy == pytest.approx(1.0, rel=1e-12)
    assert layer_metrics(spectrum(diagonal(1e5, *[1.0] * 6))).entropy < 1e-6
    assert layer_metrics(spectrum(diagonal(5.0))).entropy is None  # of one eigenvalue: 0/0
    assert layer_metrics(spectrum(diagonal(5.0, 0.0))).entropy is None


def test_entropy_and_ranks_do_not_depend_on_scale():
    weights = torch.randn(1, 12, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    plain = layer_metrics(spectrum(weights))
    for scale in (1e-120, 1e-30, 1e30, 1e120):
        moved = layer_metrics(spectrum(weights * scale), alpha=3.0)
        assert moved.entropy == pytest.approx(plain.entropy, rel=1e-12)
        assert moved.stable_rank == pytest.approx(plain.stable_rank, rel=1e-12)
        assert moved.log_norm == pytest.approx(plain.log_norm + 2 * math.log10(scale), abs=1e-10)
        assert (moved.rank, moved.rank_loss, moved.weak_rank_loss) == (9, 0, 0)
        assert moved.log_alpha_norm == pytest.approx(
            log_alpha_norm(spectrum(weights).eigenvalues, 3.0) + 6 * math.log10(scale), rel=1e-10
        )


def test_log_stable_rank_has_no_value_where_it_divides_by_zero():
    assert layer_metrics(spectrum(diagonal(1.0, 0.5))).log_stable_rank is None
    below = layer_metrics(spectrum(diagonal(0.1, 0.1)))
    assert below.log_stable_rank == pytest.approx(math.log10(0.02) / math.log10(0.01))


def test_rank_is_lost_strongly_and_weakly():
    # λ/λ_max = 1, 0.01, 4e-6, 0, 4.1e-7, 1e-10
    found = layer_metrics(spectrum(diagonal(1.0, 0.1, 2e-3, 0.0, 6.4e-4, 1e-5)))
    assert (found.rank, found.rank_loss) == (5, 1)
    assert found.weak_rank_loss == 3  # zero, 4.1e-7 and 1e-10
    assert found.sv_min == 0.0
    assert found.lambda_smallest == pytest.approx(1e-10, rel=1e-5)


def test_a_pooled_layer_has_the_smallest_singular_value_of_all_its_matrices():
    stack = torch.cat([diagonal(4.0, 3.0), diagonal(2.0, 0.5)])
    found = layer_metrics(spectrum(stack))
    assert (found.sv_max, found.sv_min, found.norm, found.rank) == (4.0, 0.5, 29.25, 4)


@pytest.mark.parametrize("alpha", [1.0001, 2.0, 50.0, 3000.0, 1e7])
def test_the_alpha_norm_stays_in_range_whatever_the_exponent(alpha):
    values = np.array([1e-8, 0.5, 20.0, 20.0, 1e3])
    top = alpha * 3 + math.log10(sum(math.exp(alpha * math.log(v / 1e3)) for v in values))
    assert log_alpha_norm(values, alpha) == pytest.approx(top, rel=1e-12)
    if alpha == 2.0:
        assert log_alpha_norm(values, alpha) == pytest.approx(math.log10((values**2).sum()), rel=1e-12)


def test_equal_largest_eigenvalues_count_each():
    assert log_alpha_norm(np.array([10.0, 10.0, 10.0, 10.0]), 500.0) == pytest.approx(500 + math.log10(4))


def test_the_record_survives_json():
    found = layer_metrics(spectrum(diagonal(3.0, 1.0, 0.3)), alpha=2.2)
    assert LayerMetrics.from_json(found.to_json()) == found


def test_the_scale_of_a_convolution_reaches_all_that_depend_on_it():
    plain = spectrum(torch.cat([diagonal(4.0, 3.0), diagonal(2.0, 0.5)]))
    full, half = layer_metrics(plain, 2.0), layer_metrics(plain.scaled(0.5), 2.0)
    assert half.norm == full.norm / 2
    assert half.lambda_max == full.lambda_max / 2
    assert half.sv_max == pytest.approx(full.sv_max / math.sqrt(2))
    assert half.log_alpha_norm == pytest.approx(full.log_alpha_norm - 2 * math.log10(2))
    assert half.entropy == pytest.approx(full.entropy)
    assert (half.stable_rank, half.rank, half.rank_loss) == (full.stable_rank, full.rank, full.rank_loss)


@pytest.mark.parametrize("layer", ["conv", "heavy", "low_rank", "tall", "wide"])
def test_weightwatcher_agrees(reference, unpack, layer):
    """Its numbers come from float32, hence the tolerance; ``sv_min`` of convolutions is wrong there."""
    vectors = reference("weightwatcher_layers")
    weights = torch.from_numpy(unpack(vectors["layers"][layer]).copy())
    expected = vectors["pooled"][layer]
    is_conv = weights.dim() == 4
    stack = weights.flatten(2).permute(2, 0, 1) if is_conv else weights[None]
    found = layer_metrics(spectrum(stack).scaled(0.5 if is_conv else 1.0), alpha=expected["alpha"]).to_dict()
    found["matrix_rank"] = found.pop("rank")
    compared = sorted(set(found) & set(expected) - {"sv_min", "weak_rank_loss"})
    assert len(compared) >= 10
    for name in compared:
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name
