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
from weightsmith.grading.fits.powerlaw import PowerLaw, SliceFit, TailScan, distances, fit_power_law, fit_slices


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


def slowly(row: np.ndarray) -> tuple[float, float, float, int, int] | None:
    """α, λ_min, D, length of the tail and number of positive values, by the formula in SPEC's own words."""
    positive = row[row > 0]
    best = None
    for start in range(len(positive) - 1):
        if start and positive[start] == positive[start - 1]:
            continue
        tail = positive[start:]
        spread = sum(math.log(value / tail[0]) for value in tail)
        if spread == 0:
            continue
        alpha = 1 + len(tail) / spread
        distance = max(abs(i / len(tail) - (1 - (v / tail[0]) ** (1 - alpha))) for i, v in enumerate(tail))
        if best is None or distance < best[2] - 1e-12:
            best = alpha, float(tail[0]), distance, len(tail), len(positive)
    return best


def rows_slices(count: int, width: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sort(rng.pareto(1.5, (count, width)) + 0.1, axis=1)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 6), width=st.integers(2, 25), seed=st.integers(0, 10**6))
def test_every_row_has_the_fit_of_the_slow_search(count, width, seed):
    parts = rows_slices(count, width, seed)
    found = fit_slices(parts, 2)
    assert [fit.index for fit in found] == list(range(count))
    for fit, row in zip(found, parts, strict=True):
        alpha, xmin, distance, tail, positive = slowly(row)
        assert (fit.alpha, fit.D) == pytest.approx((alpha, distance), rel=1e-9)
        assert (fit.xmin, fit.tail, fit.evals) == (xmin, tail, positive)
        assert fit.lambda_max == row[-1]


def test_zeros_are_no_eigenvalues_of_a_fit():
    full = rows_slices(1, 12, 3)[0]
    padded = np.concatenate([np.zeros(5), full])[None]
    (with_zeros,), (without,) = fit_slices(padded, 8), fit_slices(full[None], 8)
    assert with_zeros == without
    assert with_zeros.evals == 12


def test_rows_with_too_few_positive_values_are_passed_over():
    parts = np.zeros((4, 10))
    parts[0, 3:] = rows_slices(1, 7, 0)
    parts[1, 2:] = rows_slices(1, 8, 1)
    parts[3] = rows_slices(1, 10, 2)
    assert [(fit.index, fit.evals) for fit in fit_slices(parts, 8)] == [(1, 8), (3, 10)]
    assert [fit.index for fit in fit_slices(parts, 7)] == [0, 1, 3]
    assert fit_slices(np.zeros((3, 9)), 1) == ()


def test_a_row_of_equal_values_has_no_tail():
    parts = np.stack([np.full(9, 2.5), rows_slices(1, 9, 0)[0]])
    assert [fit.index for fit in fit_slices(parts, 8)] == [1]


def test_ties_are_never_parted():
    """A tail that starts inside a run of equal values is no candidate: all of them belong to it."""
    row = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 5.0, 9.0, 9.0, 20.0])
    (fit,) = fit_slices(row[None], 8)
    alpha, xmin, distance, tail, _ = slowly(row)
    assert (fit.alpha, fit.xmin, fit.D, fit.tail) == (pytest.approx(alpha), xmin, pytest.approx(distance), tail)
    assert fit.tail == (row >= fit.xmin).sum()


@pytest.mark.parametrize("scale", [1e-300, 1e-60, 1e60, 1e300])
def test_the_scale_of_a_row_moves_only_its_units(scale):
    parts = rows_slices(5, 16, 4)
    for plain, moved in zip(fit_slices(parts, 8), fit_slices(parts * scale, 8), strict=True):
        assert (moved.alpha, moved.D) == pytest.approx((plain.alpha, plain.D), rel=1e-9)
        assert moved.tail == plain.tail
        assert moved.xmin / scale == pytest.approx(plain.xmin)
        assert moved.lambda_max / scale == pytest.approx(plain.lambda_max)


def test_rows_do_not_influence_each_other():
    parts = rows_slices(7, 20, 5)
    together = fit_slices(parts, 8)
    for index in range(7):
        (alone,) = fit_slices(parts[index : index + 1], 8)
        assert (alone.alpha, alone.xmin, alone.D, alone.tail) == (
            together[index].alpha,
            together[index].xmin,
            together[index].D,
            together[index].tail,
        )


def test_the_record_survives_json_and_the_input_stays_as_it_is():
    parts = rows_slices(3, 11, 6)
    before = parts.copy()
    for fit in fit_slices(parts, 8):
        assert SliceFit.from_json(fit.to_json()) == fit
    assert np.array_equal(parts, before)


def test_a_view_of_a_larger_array_is_read_right():
    parts = rows_slices(6, 24, 7)
    strided = np.sort(np.asfortranarray(parts)[::2, ::2], axis=1)
    copied = np.ascontiguousarray(strided)
    assert fit_slices(np.asfortranarray(strided), 8) == fit_slices(copied, 8)


@pytest.mark.parametrize("position", range(4))
def test_weightwatcher_agrees_on_a_convolution_without_pooling(reference, unpack, position):
    vectors = reference("weightwatcher_layers")
    matrix = unpack(vectors["layers"]["conv"]).reshape(22, 20, 4)[:, :, position]
    expected = vectors["slices_of_conv"][f"conv.{position}"]
    values = np.linalg.svd(matrix, compute_uv=False)[::-1] ** 2
    (fit,) = fit_slices(values[None], 8)
    assert (fit.alpha, fit.D) == pytest.approx((expected["alpha"], expected["D"]), rel=1e-5)
    assert fit.tail == expected["num_pl_spikes"]
    assert fit.xmin * 2.0 == pytest.approx(expected["xmin"], rel=1e-5)  # scaled by rf/2 there
    assert fit.lambda_max * 2.0 == pytest.approx(expected["lambda_max"], rel=1e-5)
