from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import DataMismatch
from weightsmith.data.faces.descriptors import Descriptor, grey_image, part_of
from weightsmith.data.faces.lpq import LPQ
from weightsmith.data.faces.phog import PHOG

EVERY = [LPQ(), LPQ(decorrelate=0.9), LPQ(blocks=3, window=5), PHOG(), PHOG(edges=False), PHOG(2, bins=9, signed=False)]


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(0).integers(0, 256, (64, 51), np.uint8)


@pytest.mark.parametrize("describe", EVERY, ids=str)
def test_every_descriptor_keeps_its_promises(describe, noise):
    before = noise.copy()
    vector = describe(noise)
    assert vector.dtype == np.float32
    assert vector.shape == (describe.length,)
    assert vector.min() >= 0
    assert np.array_equal(noise, before)
    assert Descriptor.parse(str(describe)) == describe
    least = describe.least_size
    assert describe(noise[:least, :least]).shape == (describe.length,)
    with pytest.raises(DataMismatch, match=f"{least} a side are needed"):
        describe(noise[:, : least - 1])


@pytest.mark.parametrize("describe", EVERY, ids=str)
def test_brightness_and_contrast_do_not_matter(describe, noise):
    # Doubling and adding a whole number are exact, so the description must be the same to the last bit.
    assert np.array_equal(describe(noise), describe(2.0 * noise + 77))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((8, 8, 3)), r"a grey image \(h, w\) of numbers is needed, not float64 \(8, 8, 3\)"),
        (np.full((8, 8), "x"), "of numbers is needed"),
        (np.full((8, 8), np.nan), "NaN or infinity"),
        (np.zeros((4, 8)), "8×4 pixels is too small, 5 a side"),
    ],
)
def test_what_is_no_grey_image_is_refused(image, message):
    with pytest.raises(DataMismatch, match=f"thing: .*{message}"):
        grey_image(image, 5, "thing")


@given(st.integers(1, 300), st.integers(0, 5))
def test_parts_cover_evenly_and_halving_nests(extra, level):
    parts = 2**level
    length = parts + extra
    found = part_of(length, parts)
    sizes = np.bincount(found, minlength=parts)
    assert (np.diff(found) >= 0).all()
    assert len(sizes) == parts
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(part_of(length, 2 * parts) // 2, found)
