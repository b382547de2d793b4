from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import ndimage

from weightsmith.data.faces.phog import PHOG, canny, sobel


def levels_of(vector, levels=4, bins=16):
    """The vector cut into levels: arrays (cells down, cells across, bins)."""
    cut, start = [], 0
    for level in range(levels + 1):
        side = 2**level
        cut.append(vector[start : start + side * side * bins].reshape(side, side, bins))
        start += side * side * bins
    assert start == len(vector)
    return cut


def slow(image, edges, bins=16, levels=4):
    """Pixel by pixel and cell by cell, from the definition; the Sobel sums written out."""
    padded = np.pad(np.asarray(image, float), 1, mode="edge")
    height, width = image.shape
    pyramid = [np.zeros((2**level, 2**level, bins)) for level in range(levels + 1)]
    for i in range(height):
        for j in range(width):
            if not edges[i, j]:
                continue
            n = padded[i : i + 3, j : j + 3]
            right = n[0, 2] + 2 * n[1, 2] + n[2, 2] - n[0, 0] - 2 * n[1, 0] - n[2, 0]
            up = n[0, 0] + 2 * n[0, 1] + n[0, 2] - n[2, 0] - 2 * n[2, 1] - n[2, 2]
            degrees = math.degrees(math.atan2(up, right)) % 360
            k = int((degrees + 1e-7) // (360 / bins)) % bins
            for level, histogram in enumerate(pyramid):
                histogram[i * 2**level // height, j * 2**level // width, k] += math.hypot(right, up)
    vector = np.concatenate([histogram.ravel() for histogram in pyramid])
    return vector / vector.sum()


@pytest.mark.parametrize("shape", [(32, 32), (33, 47)])
def test_the_definition_pixel_by_pixel(shape):
    image = np.random.default_rng(2).integers(0, 256, shape)
    everywhere = np.ones(shape, bool)
    assert np.allclose(PHOG(edges=False)(image), slow(image, everywhere), atol=1e-7)
    assert np.allclose(PHOG()(image), slow(image, canny(image)), atol=1e-7)
    assert not np.allclose(PHOG()(image), PHOG(edges=False)(image), atol=1e-4)


def test_5456_values_sum_to_one_and_every_level_to_a_fifth(photo):
    vector = PHOG()(photo)
    assert vector.shape == (5456,)
    assert vector.sum() == pytest.approx(1, abs=1e-5)
    parts = levels_of(vector)
    for part in parts:
        assert part.sum() == pytest.approx(0.2, abs=1e-5)
    for coarse, fine in itertools.pairwise(parts):
        side = len(coarse)
        assert np.allclose(fine.reshape(side, 2, side, 2, 16).sum(axis=(1, 3)), coarse, atol=1e-6)


def test_a_flat_image_has_no_gradients():
    for value in (0, 0.1, 200):
        for edges in (True, False):
            assert not PHOG(edges=edges)(np.full((40, 50), value)).any()


@pytest.mark.parametrize("degrees", range(0, 360, 30))
def test_a_ramp_falls_into_the_bin_of_its_direction(degrees):
    turn = math.radians(degrees + 5)
    down, across = np.indices((64, 64))
    image = across * math.cos(turn) - down * math.sin(turn)  # grows towards `turn`, anticlockwise as seen
    inner = np.pad(image, 8, mode="linear_ramp")[8:-8, 8:-8]  # the same; the rim alone bends the gradient
    finest = levels_of(PHOG(edges=False)(inner))[4][1:-1, 1:-1]
    assert set(np.flatnonzero(finest.sum(axis=(0, 1)))) == {int((degrees + 5) // 22.5)}


@pytest.mark.parametrize("edges", [True, False])
def test_turning_the_image_by_90_degrees_shifts_the_bins_by_four(photo, edges):
    upright = levels_of(PHOG(edges=edges)(photo))
    turned = levels_of(PHOG(edges=edges)(np.rot90(photo)))  # anticlockwise
    for before, after in zip(upright, turned, strict=True):
        assert np.allclose(np.roll(np.rot90(before), 4, axis=2), after, atol=1e-7)
    assert not np.allclose(upright[0], turned[0], atol=1e-3)


def test_light_and_dark_exchanged_turn_every_direction_by_180_degrees(photo):
    bright = levels_of(PHOG()(photo))
    dark = levels_of(PHOG()(255 - photo))
    for before, after in zip(bright, dark, strict=True):
        assert np.allclose(np.roll(before, 8, axis=2), after, atol=1e-7)


def test_unsigned_directions_are_the_signed_ones_folded(photo):
    signed = PHOG()(photo).reshape(-1, 16)
    unsigned = PHOG(bins=8, signed=False)(photo).reshape(-1, 8)
    assert np.allclose(signed[:, :8] + signed[:, 8:], unsigned, atol=1e-6)


def test_sobel_of_a_plane_is_its_slope():
    down, across = np.indices((6, 7))
    right, below = sobel(3.0 * across - 2.0 * down)
    assert np.allclose(right[1:-1, 1:-1], 8 * 3)
    assert np.allclose(below[1:-1, 1:-1], 8 * -2)


def test_a_flat_image_has_no_edges():
    for value in (0, 0.1, 255):
        assert not canny(np.full((20, 30), value)).any()


@pytest.mark.parametrize("where", [5, 12, 20])
def test_a_bar_has_its_two_sides_as_edges(where):
    # Of the two pixels at a side the outer one wins: the inner one loses some gradient to the side opposite.
    image = np.zeros((32, 32))
    image[:, where : where + 7] = 100
    found = canny(image)
    assert set(np.flatnonzero(found[16])) == {where - 1, where + 7}
    assert np.array_equal(canny(image.T), found.T)


def test_weak_edges_count_only_beside_strong_ones():
    image = np.random.default_rng(0).normal(0, 0.01, (64, 64))  # the quiet part
    image[:, 20:] += np.linspace(20, 5, 64)[:, None]  # one edge, from strong to weak
    image[40:50, 44:54] += 5  # as weak, alone
    found = canny(image, quiet=0.97)
    assert found[2:-2, 19:21].any(axis=1).all()
    alone = canny(image, quiet=0.985)
    assert not alone[38:52, 42:56].any()
    assert alone[2:-2, 19:21].any(axis=1).mean() > 0.8


def test_turning_and_mirroring_the_image_turns_its_edges(photo):
    assert np.array_equal(canny(np.rot90(photo)), np.rot90(canny(photo)))
    assert np.array_equal(canny(photo[:, ::-1]), canny(photo)[:, ::-1])


def test_edges_are_those_of_another_implementation(photo):
    feature = pytest.importorskip("skimage.feature", reason="scikit-image is not installed")
    ours = canny(photo)
    smooth = ndimage.gaussian_filter(photo.astype(float), 2**0.5, mode="nearest")
    high = np.quantile(np.hypot(*sobel(smooth)), 0.7)
    theirs = feature.canny(photo.astype(float), 2**0.5, low_threshold=0.4 * high, high_threshold=high, mode="nearest")
    assert ours.sum() > 500
    assert (ours & theirs).sum() >= 0.98 * max(ours.sum(), theirs.sum())
