from __future__ import annotations

import cmath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from weightsmith.core.errors import OptionError
from weightsmith.data.faces.lpq import LPQ, whitening

FREQUENCIES = ((1, 0), (0, 1), (1, 1), (1, -1))  # across and down, in units of 1/m
SMOOTH = np.outer([1, 2, 1], [1, 2, 1]) / 16  # its transform is positive at all four


def slow_numbers(image, row, column, m):
    """The paper's sum as it stands, one term at a time: Σ_y f(x − y) exp(−2πi u·y)."""
    half, found = m // 2, []
    for across, down in FREQUENCIES:
        total = 0j
        for i in range(-half, half + 1):
            for j in range(-half, half + 1):
                wave = cmath.exp(-2j * cmath.pi * (across * j + down * i) / m)
                total += float(image[row - i, column - j]) * wave
        found.append(total)
    return [f.real for f in found] + [f.imag for f in found]


def slow_code(numbers):
    return sum(2**j for j, number in enumerate(numbers) if number >= 0)


@pytest.mark.parametrize("m", [3, 5, 7])
def test_codes_are_the_signs_of_a_direct_transform(m):
    image = np.random.default_rng(m).integers(0, 256, (13, 12))
    half = m // 2
    expected = [
        [slow_code(slow_numbers(image, row, column, m)) for column in range(half, 12 - half)]
        for row in range(half, 13 - half)
    ]
    assert LPQ(window=m, blocks=1).codes(image).tolist() == expected


def test_one_patch_by_hand():
    # A wave along the row, cos(2πx/7 + 1): by the sum above F(a, 0) = 49/2 exp(−i), and nothing at the others.
    x = np.arange(7) - 3
    patch = np.tile(np.cos(2 * np.pi * x / 7 + 1), (7, 1))
    assert LPQ(blocks=1).codes(patch).tolist() == [[0b11101111]]
    assert LPQ(blocks=1).codes(-patch).tolist() == [[0b11111110]]


def test_a_flat_image_has_one_code():
    for value in (0, 7, 255, 0.1, -3.3, 1e12):
        assert (LPQ().codes(np.full((30, 20), value)) == 255).all()
    vector = LPQ()(np.full((128, 128), 200, np.uint8)).reshape(16, 256)
    assert (vector[:, 255] == 1).all()
    assert vector.sum() == 16
    # Flat parts of an image that is not flat, too: rounding must not draw signs.
    image = np.full((40, 40), 0.1)
    image[30:] = np.random.default_rng(0).random((10, 40))
    assert (LPQ(blocks=1).codes(image)[:20] == 255).all()


def test_4096_values_are_the_histograms_of_the_blocks():
    image = np.random.default_rng(1).integers(0, 256, (128, 134))
    codes, vector = LPQ().codes(image), LPQ()(image)
    assert codes.shape == (122, 128)
    assert vector.shape == (4096,)
    edges = [0, 31, 61, 92, 122]  # 122 rows in four
    for i in range(4):
        for j in range(4):
            block = codes[edges[i] : edges[i + 1], 32 * j : 32 * j + 32]
            expected = np.bincount(block.ravel(), minlength=256) / block.size
            assert np.allclose(vector.reshape(4, 4, 256)[i, j], expected, atol=1e-7)


@given(st.integers(0, 10**6))
def test_a_symmetric_blur_changes_no_code_of_a_periodic_image(seed):
    """Where the window sees whole periods there is no border effect, and the invariance is exact."""
    image = np.tile(np.random.default_rng(seed).normal(size=(7, 7)), (4, 4))
    blurred = ndimage.convolve(image, SMOOTH, mode="wrap")
    assert np.array_equal(LPQ().codes(image), LPQ().codes(blurred))
    # Not for want of sensitivity: a blur whose transform is negative turns the signs it should.
    spread = ndimage.convolve(image, np.array([[1, 0, 0, 0, 0, 0, 1]]) / 2, mode="wrap")  # cos(6π/7) < 0 across
    turned = LPQ().codes(image) ^ LPQ().codes(spread)
    assert (turned == 0b11011101).all()


def test_blur_leaves_most_codes_of_a_photograph_as_they_are(photo):
    def kept(describe, sigma):
        sharp, soft = describe(photo.astype(float)), describe(ndimage.gaussian_filter(photo.astype(float), sigma))
        return float(np.mean(sharp == soft))

    def bits(by):
        return lambda image: np.unpackbits(by.codes(image)[..., None], axis=-1)

    def neighbours(image):
        """The control: signs of the differences to the eight neighbours, which no theory protects."""
        middle = image[1:-1, 1:-1]
        around = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
        return np.stack([image[i : i + 122, j : j + 122] >= middle[:122, :122] for i, j in around])

    for sigma in (0.5, 1.0, 1.5):
        control = kept(neighbours, sigma)
        for describe in (LPQ(), LPQ(decorrelate=0.9)):
            found = kept(bits(describe), sigma)
            assert found > {0.5: 0.96, 1.0: 0.88, 1.5: 0.8}[sigma]
            assert 1 - found < 0.6 * (1 - control)


@pytest.mark.parametrize("rho", [0.5, 0.9, 0.99])
def test_whitening_uncorrelates_what_the_model_says(rho):
    rotation = whitening(7, rho)
    assert np.allclose(rotation @ rotation.T, np.eye(8))
    # The covariance of the eight numbers, from the patch's own covariance, all by loops of the definition.
    units = np.eye(49).reshape(49, 7, 7)
    basis = np.array([slow_numbers(unit, 3, 3, 7) for unit in units]).T
    at = np.array([(i, j) for i in range(7) for j in range(7)])
    covariance = basis @ (rho ** np.linalg.norm(at[:, None] - at, axis=2)) @ basis.T
    rotated = rotation @ covariance @ rotation.T
    apart = rotated - np.diag(np.diag(rotated))
    assert np.abs(apart).max() < 1e-4 * np.diag(rotated).min()
    assert (np.diff(np.diag(rotated)) <= 1e-4 * np.diag(rotated).max()).all()
    before = covariance - np.diag(np.diag(covariance))
    assert np.abs(before).max() > 0.01 * np.diag(covariance).min()  # there was something to remove


def test_decorrelated_codes_are_signs_of_the_rotated_numbers():
    image = np.random.default_rng(5).integers(0, 256, (9, 9))
    rotation = whitening(7, 0.9)
    expected = [
        [slow_code(rotation @ slow_numbers(image, row, column, 7)) for column in range(3, 6)] for row in range(3, 6)
    ]
    assert LPQ(blocks=1, decorrelate=0.9).codes(image).tolist() == expected


def test_a_window_has_a_middle():
    with pytest.raises(OptionError, match="lpq: window must be odd, not 6"):
        LPQ(window=6)
