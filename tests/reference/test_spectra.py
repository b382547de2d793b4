"""WeightWatcher and powerlaw against the definitions, in float64 and without their code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

LAYERS = ["conv", "heavy", "low_rank", "tall", "wide"]


def _spectrum(weights: np.ndarray, factor: float) -> np.ndarray:
    """Eigenvalues of WᵀW, ascending; those of all kernel positions together, times ``factor``."""
    slices = weights.reshape(*weights.shape[:2], -1).transpose(2, 0, 1)
    return np.sort(np.concatenate([np.linalg.svd(matrix, compute_uv=False) ** 2 for matrix in slices])) * factor


def _distance(tail: np.ndarray, alpha: float) -> float:
    n = len(tail)
    return float(np.abs(np.arange(n) / n - (1 - (tail / tail[0]) ** (1 - alpha))).max())


def _fit(eigenvalues: np.ndarray) -> tuple[float, float, float, int]:
    """α, D, λ_min and the number of eigenvalues beyond λ_min: the candidate with the smallest distance."""
    positive = eigenvalues[eigenvalues > 1e-5]
    candidates = []
    for start in range(len(positive) - 1):
        tail = positive[start:]
        alpha = 1 + len(tail) / np.log(tail / tail[0]).sum()
        candidates.append((_distance(tail, alpha), start, alpha))
    distance, start, alpha = min(candidates)
    return float(alpha), distance, float(positive[start]), len(positive) - start


def _expected(eigenvalues: np.ndarray, rank: int) -> dict[str, float]:
    alpha, distance, smallest, tail = _fit(eigenvalues)
    total, largest = float(eigenvalues.sum()), float(eigenvalues[-1])
    share = eigenvalues[eigenvalues > 1e-9 * largest] / total
    return {
        "D": distance,
        "alpha": alpha,
        "alpha_weighted": alpha * math.log10(largest),
        "entropy": float(-(share * np.log(share)).sum()) / math.log(rank),
        "lambda_max": largest,
        "log_alpha_norm": math.log10((eigenvalues**alpha).sum()),
        "log_norm": math.log10(total),
        "log_spectral_norm": math.log10(largest),
        "matrix_rank": rank,
        "norm": total,
        "num_evals": len(eigenvalues),
        "num_pl_spikes": tail,
        "rank_loss": len(eigenvalues) - rank,
        "sigma": (alpha - 1) / math.sqrt(tail),
        "spectral_norm": largest,
        "stable_rank": total / largest,
        "sv_max": math.sqrt(largest),
        "weak_rank_loss": int((eigenvalues < 1e-6).sum()),
        "xmax": largest,
        "xmin": smallest,
    }


def _rank(weights: np.ndarray) -> int:
    slices = weights.reshape(*weights.shape[:2], -1).transpose(2, 0, 1)
    return int(sum(np.linalg.matrix_rank(matrix) for matrix in slices))


@pytest.mark.parametrize("layer", LAYERS)
def test_weightwatcher_pooled(reference: Any, unpack: Any, layer: str) -> None:
    vectors = reference("weightwatcher_layers")
    weights = unpack(vectors["layers"][layer])
    # Conv weights are multiplied by sqrt(1/2) there, linear ones are not; no 1/N.
    factor = 0.5 if weights.ndim == 4 else 1.0
    expected = _expected(_spectrum(weights, factor), _rank(weights))
    # Of the smallest singular values of the kernel positions the largest.
    positions = weights.reshape(*weights.shape[:2], -1).transpose(2, 0, 1)
    expected["sv_min"] = max(math.sqrt(max(_spectrum(matrix[:, :, None], factor)[0], 0)) for matrix in positions)
    assert vectors["pooled"][layer] == pytest.approx(expected, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("position", range(4))
def test_weightwatcher_slices(reference: Any, unpack: Any, position: int) -> None:
    vectors = reference("weightwatcher_layers")
    matrix = unpack(vectors["layers"]["conv"]).reshape(22, 20, 4)[:, :, position]
    # sqrt(rf/2) with rf = 4 kernel positions.
    eigenvalues = _spectrum(matrix[:, :, None], 2.0)
    expected = _expected(eigenvalues, 20) | {"sv_min": math.sqrt(eigenvalues[0])}
    assert vectors["slices_of_conv"][f"conv.{position}"] == pytest.approx(expected, rel=1e-5)


def test_every_layer_is_checked(reference: Any) -> None:
    vectors = reference("weightwatcher_layers")
    assert sorted(vectors["layers"]) == sorted(vectors["pooled"]) == LAYERS
    assert sorted(vectors["slices_of_conv"]) == [f"conv.{position}" for position in range(4)]


@pytest.mark.parametrize("sample", ["exponential", "pareto_alpha_2.5", "squares"])
def test_powerlaw_fits(reference: Any, sample: str) -> None:
    entry = reference("powerlaw_fits")[sample]
    values = np.array(entry["sample"])
    assert (np.diff(values) > 0).all()

    alpha, distance, smallest, count = _fit(values)
    searched = entry["xmin_searched"]
    assert searched["xmin"] == smallest
    assert (searched["alpha"], searched["D"]) == pytest.approx((alpha, distance), rel=1e-9)
    assert searched["sigma"] == pytest.approx((alpha - 1) / math.sqrt(count), rel=1e-9)

    given = entry["xmin_given"]
    tail = values[values >= given["xmin"]]
    alpha = 1 + len(tail) / np.log(tail / tail[0]).sum()
    assert (given["alpha"], given["D"]) == pytest.approx((alpha, _distance(tail, alpha)), rel=1e-9)


@pytest.mark.parametrize("other", ["exponential", "lognormal"])
@pytest.mark.parametrize("sample", ["exponential", "pareto_alpha_2.5", "squares"])
def test_likelihood_ratios(reference: Any, sample: str, other: str) -> None:
    """Vuong's ratio of two maximum-likelihood fits of the tail, and the two-sided p of a normal variable."""
    entry = reference("powerlaw_fits")[sample]
    values, given = np.array(entry["sample"]), entry["xmin_given"]
    tail = values[values >= given["xmin"]]
    power_law = np.log((given["alpha"] - 1) / tail[0]) - given["alpha"] * np.log(tail / tail[0])
    difference = power_law - (_exponential(tail) if other == "exponential" else _lognormal(tail))
    ratio = difference.sum() / (math.sqrt(len(tail)) * difference.std())
    seen = given["power_law_against"][other]
    # The peer's own search for the best fit stops early.
    assert seen["normalised_ratio"] == pytest.approx(ratio, rel=2e-3)
    assert seen["p"] == pytest.approx(math.erfc(abs(seen["normalised_ratio"]) / math.sqrt(2)), rel=1e-9)


def _exponential(tail: np.ndarray) -> np.ndarray:
    """Log-likelihoods of the best exponential beyond the first value: its rate is one over the mean excess."""
    rate = 1 / (tail.mean() - tail[0])
    return np.log(rate) - rate * (tail - tail[0])


def _lognormal(tail: np.ndarray) -> np.ndarray:
    """Log-likelihoods of the best lognormal cut off below the first value, found by search."""

    def likelihoods(parameters: np.ndarray) -> np.ndarray:
        mean, deviation = parameters[0], math.exp(parameters[1])
        z = (np.log(tail) - mean) / deviation
        return norm.logpdf(z) - np.log(tail * deviation) - norm.logsf((math.log(tail[0]) - mean) / deviation)

    logs = np.log(tail)
    best = minimize(
        lambda parameters: -likelihoods(parameters).sum(),
        [logs.mean(), math.log(logs.std())],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000},
    )
    return likelihoods(best.x)
