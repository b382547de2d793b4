"""One fit per matrix: each must be what a slow loop over all candidates finds on that row alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.grading.fits.slices import SliceFit, fit_slices


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


def rows(count: int, width: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sort(rng.pareto(1.5, (count, width)) + 0.1, axis=1)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 6), width=st.integers(2, 25), seed=st.integers(0, 10**6))
def test_every_row_has_the_fit_of_the_slow_search(count, width, seed):
    parts = rows(count, width, seed)
    found = fit_slices(parts, 2)
    assert [fit.index for fit in found] == list(range(count))
    for fit, row in zip(found, parts, strict=True):
        alpha, xmin, distance, tail, positive = slowly(row)
        assert (fit.alpha, fit.D) == pytest.approx((alpha, distance), rel=1e-9)
        assert (fit.xmin, fit.tail, fit.evals) == (xmin, tail, positive)
        assert fit.lambda_max == row[-1]


def test_zeros_are_no_eigenvalues_of_a_fit():
    full = rows(1, 12, 3)[0]
    padded = np.concatenate([np.zeros(5), full])[None]
    (with_zeros,), (without,) = fit_slices(padded, 8), fit_slices(full[None], 8)
    assert with_zeros == without
    assert with_zeros.evals == 12


def test_rows_with_too_few_positive_values_are_passed_over():
    parts = np.zeros((4, 10))
    parts[0, 3:] = rows(1, 7, 0)
    parts[1, 2:] = rows(1, 8, 1)
    parts[3] = rows(1, 10, 2)
    assert [(fit.index, fit.evals) for fit in fit_slices(parts, 8)] == [(1, 8), (3, 10)]
    assert [fit.index for fit in fit_slices(parts, 7)] == [0, 1, 3]
    assert fit_slices(np.zeros((3, 9)), 1) == ()


def test_a_row_of_equal_values_has_no_tail():
    parts = np.stack([np.full(9, 2.5), rows(1, 9, 0)[0]])
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
    parts = rows(5, 16, 4)
    for plain, moved in zip(fit_slices(parts, 8), fit_slices(parts * scale, 8), strict=True):
        assert (moved.alpha, moved.D) == pytest.approx((plain.alpha, plain.D), rel=1e-9)
        assert moved.tail == plain.tail
        assert moved.xmin / scale == pytest.approx(plain.xmin)
        assert moved.lambda_max / scale == pytest.approx(plain.lambda_max)


def test_rows_do_not_influence_each_other():
    parts = rows(7, 20, 5)
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
    parts = rows(3, 11, 6)
    before = parts.copy()
    for fit in fit_slices(parts, 8):
        assert SliceFit.from_json(fit.to_json()) == fit
    assert np.array_equal(parts, before)


def test_a_view_of_a_larger_array_is_read_right():
    parts = rows(6, 24, 7)
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
