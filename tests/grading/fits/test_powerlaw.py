"""The fit against closed forms, WeightWatcher's numbers and the powerlaw package's."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.grading.fits.cuts import Hill
from weightsmith.grading.fits.powerlaw import PowerLaw, TailScan, distances, fit_power_law


def pooled(weights: np.ndarray, factor: float) -> np.ndarray:
    """Eigenvalues of WᵀW of all kernel positions together, ascending, times ``factor``; those that are not zero."""
    slices = np.float64(weights).reshape(*weights.shape[:2], -1).transpose(2, 0, 1)
    singular = np.linalg.svd(slices, compute_uv=False)
    cut = singular.max() * max(weights.shape[:2]) * np.finfo(float).eps
    return np.sort(singular[singular > cut] ** 2) * factor


def test_two_values_have_a_closed_form():
    fit = fit_power_law(np.array([2.0, 6.0]))
    assert fit is not None
    assert fit.alpha == pytest.approx(1 + 2 / math.log(3), rel=1e-15)
    assert fit.sigma == pytest.approx(2 / math.log(3) / math.sqrt(2), rel=1e-15)
    assert (fit.D, fit.xmin, fit.tail, fit.evals) == (pytest.approx(0.5 - math.exp(-2), rel=1e-15), 2.0, 2, 2)


def test_the_quantiles_of_a_pareto_law_give_its_exponent():
    n, alpha = 4000, 3.0
    values = (1 - np.arange(n) / n) ** (-1 / (alpha - 1))
    fit = fit_power_law(values)
    assert fit is not None
    assert fit.alpha == pytest.approx(alpha, rel=5e-3)
    assert fit.D < 2e-3


@pytest.mark.parametrize("values", [[], [1.0], [3.0, 3.0], [0.7] * 50])
def test_without_spread_there_is_no_fit(values):
    assert fit_power_law(np.array(values)) is None
    assert distances(np.array(values)).xmin.size == 0


@pytest.mark.parametrize(
    "values", [[0.0, 1.0], [-1.0, 2.0], [1.0, math.inf], [1.0, math.nan], [math.nan, 1.0], [2.0, 1.0]]
)
def test_what_is_not_a_spectrum_is_refused(values):
    with pytest.raises(UsageError, match="ascending, > 0 and finite"):
        fit_power_law(np.array(values))
    with pytest.raises(UsageError, match="ascending, > 0 and finite"):
        distances(np.array(values))


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.integers(-900, 900))
def test_a_power_of_two_in_the_scale_changes_no_bit(seed, size, power):
    values = np.sort(np.random.default_rng(seed).pareto(1.5, size) + 0.01)
    fit, scaled = fit_power_law(values), fit_power_law(np.ldexp(values, power))
    assert fit is not None
    assert scaled == PowerLaw(fit.alpha, fit.sigma, math.ldexp(fit.xmin, power), fit.D, fit.tail, fit.evals, fit.cut)


@pytest.mark.parametrize("power", range(-60, 61, 10))
def test_alpha_does_not_depend_on_the_scale(power):
    for seed in range(20):
        draw = np.random.default_rng(seed)
        values = np.linalg.svd(draw.standard_t(3, (60, 40)), compute_uv=False)[::-1] ** 2
        fit, scaled = fit_power_law(values), fit_power_law(values * 10.0**power)
        assert fit is not None
        assert scaled is not None
        assert (scaled.alpha, scaled.D) == pytest.approx((fit.alpha, fit.D), rel=1e-9)
        assert scaled.tail == fit.tail
        assert scaled.xmin == pytest.approx(fit.xmin * 10.0**power, rel=1e-12)


def test_a_spread_beyond_any_ratio_is_fitted():
    fit = fit_power_law(np.array([1e-320, 1e-20, 1.0, 1e20, 1e300]))
    assert fit is not None
    assert math.isfinite(fit.alpha)
    assert 0 < fit.D < 1


def test_single_precision_is_fitted_in_double():
    values = np.sort(np.random.default_rng(0).pareto(2, 50).astype(np.float32) + 1)
    assert fit_power_law(values) == fit_power_law(values.astype(np.float64))


def test_the_fit_is_the_least_of_all_distances():
    values = np.sort(np.random.default_rng(1).standard_t(3, 300) ** 2)
    fit, every = fit_power_law(values), distances(values)
    assert fit is not None
    best = int(np.argmin(every.D))
    assert (fit.xmin, fit.alpha, fit.D) == (every.xmin[best], every.alpha[best], every.D[best])
    assert list(every.xmin) == list(values[:-1])


def test_records_survive_json():
    values = np.sort(np.random.default_rng(2).pareto(2, 30) + 1)
    fit, every = fit_power_law(values, Hill(0.25)), distances(values)
    assert fit is not None
    assert PowerLaw.from_json(fit.to_json()) == fit
    assert TailScan.from_json(every.to_json()) == every


@pytest.mark.parametrize("layer", ["conv", "heavy", "low_rank", "tall", "wide"])
def test_weightwatcher_on_fixed_layers(reference, unpack, layer):
    vectors = reference("weightwatcher_layers")
    weights, peer = unpack(vectors["layers"][layer]), vectors["pooled"][layer]
    fit = fit_power_law(pooled(weights, 0.5 if weights.ndim == 4 else 1.0))
    assert fit is not None
    found = {"alpha": fit.alpha, "D": fit.D, "sigma": fit.sigma, "xmin": fit.xmin, "num_pl_spikes": fit.tail}
    assert found == pytest.approx({key: peer[key] for key in found}, rel=1e-5)


@pytest.mark.parametrize("position", range(4))
def test_weightwatcher_on_slices(reference, unpack, position):
    vectors = reference("weightwatcher_layers")
    matrix = unpack(vectors["layers"]["conv"]).reshape(22, 20, 4)[:, :, position]
    peer, fit = vectors["slices_of_conv"][f"conv.{position}"], fit_power_law(pooled(matrix, 2.0))
    assert fit is not None
    found = {"alpha": fit.alpha, "D": fit.D, "sigma": fit.sigma, "xmin": fit.xmin, "num_pl_spikes": fit.tail}
    assert found == pytest.approx({key: peer[key] for key in found}, rel=1e-5)


@pytest.mark.parametrize("sample", ["exponential", "pareto_alpha_2.5", "squares"])
def test_the_powerlaw_package(reference, sample):
    entry = reference("powerlaw_fits")[sample]
    searched, fit = entry["xmin_searched"], fit_power_law(np.array(entry["sample"]))
    assert fit is not None
    assert fit.xmin == searched["xmin"]
    assert (fit.alpha, fit.D, fit.sigma) == pytest.approx(
        (searched["alpha"], searched["D"], searched["sigma"]), rel=1e-9
    )


NETWORKS = {
    "dist_dense": "distiller_resnet20_dense",
    "resnet20": "akamaster_resnet20",
    "resnet32": "akamaster_resnet32",
}


def rows(shared_data: Path, name: str) -> list[dict[str, str]]:
    """What WeightWatcher 0.7.7 wrote for a network, the layers with at least 20 eigenvalues."""
    path = shared_data.parent / "reference" / "grade" / f"ww077_{name}.csv"
    if not path.exists():
        pytest.skip("needs the folder reference/grade beside WEIGHTSMITH_DATA")
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if int(row["num_evals"]) >= 20]


def weights_of(shared_data: Path, network: str) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    tensors = load_file(shared_data / "weights" / f"{NETWORKS[network]}.safetensors")
    return {key.removeprefix("module."): value for key, value in tensors.items()}


def assert_same(fit: PowerLaw | None, row: dict[str, str]) -> None:
    assert fit is not None
    assert fit.alpha == pytest.approx(float(row["alpha"]), abs=1e-6)
    assert fit.tail == int(row["num_pl_spikes"])
    # Equal but for the single precision of the peer's spectrum and the ten digits of the file.
    assert fit.xmin == pytest.approx(float(row["xmin"]), rel=1e-6)
    assert (fit.D, fit.sigma) == pytest.approx((float(row["D"]), float(row["sigma"])), rel=1e-5)


@pytest.mark.data
@pytest.mark.parametrize("network", NETWORKS)
def test_weightwatcher_on_trained_networks(shared_data, network):
    layers, tensors = rows(shared_data, f"{network}_pooled"), weights_of(shared_data, network)
    assert len(layers) >= 19
    for row in layers:
        weights = tensors[f"{row['name']}.weight"]
        assert_same(fit_power_law(pooled(weights, 0.5 if weights.ndim == 4 else 1.0)), row)


@pytest.mark.data
def test_weightwatcher_on_the_slices_of_a_trained_network(shared_data):
    layers, tensors = rows(shared_data, "resnet20_slices"), weights_of(shared_data, "resnet20")
    assert len(layers) > 80
    for row in layers:
        weights = tensors[f"{row['name']}.weight"]
        positions = weights.reshape(*weights.shape[:2], -1)
        matrix = positions[:, :, int(float(row["slice_id"]))]
        assert_same(fit_power_law(pooled(matrix, positions.shape[2] / 2)), row)
