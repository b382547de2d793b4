from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from weightsmith.data.edges import canny, sobel


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
