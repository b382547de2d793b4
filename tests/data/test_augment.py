from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.data.augment import Augment, CropFlip, NoAugment


def slow(batch, pad, flip, generator):
    """One image after another, pixel by pixel, with the draws in the documented order."""
    n, channels, height, width = batch.shape
    top = torch.randint(0, 2 * pad + 1, (n, 1), generator=generator)[:, 0].tolist()
    left = torch.randint(0, 2 * pad + 1, (n, 1), generator=generator)[:, 0].tolist()
    mirrored = (torch.rand((n, 1), generator=generator) < flip)[:, 0].tolist()
    out = torch.zeros_like(batch)
    for i in range(n):
        for row in range(height):
            for column in range(width):
                r, c = row + top[i] - pad, column + left[i] - pad
                if 0 <= r < height and 0 <= c < width:
                    out[i, :, row, width - 1 - column if mirrored[i] else column] = batch[i, :, r, c]
    assert channels == out.shape[1]
    return out


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6)),
    pad=st.integers(0, 7),
    flip=st.sampled_from([0.0, 0.3, 1.0]),
    pixels=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_the_slow_version(shape, pad, flip, pixels, seed):
    draw = torch.Generator().manual_seed(seed)
    batch = torch.randint(1, 256, shape, generator=draw, dtype=torch.uint8)
    batch = batch if pixels else batch.float() / 255
    kept = batch.clone()
    fast = CropFlip(pad, flip)(batch, torch.Generator().manual_seed(seed))
    assert torch.equal(fast, slow(batch, pad, flip, torch.Generator().manual_seed(seed)))
    assert fast.dtype == batch.dtype
    assert fast.is_contiguous()
    assert torch.equal(batch, kept)


def test_offsets_and_flips_have_the_stated_chances():
    images = torch.zeros(20_000, 1, 3, 3)
    images[:, 0, 1, 0] = 1  # one bright pixel, left of the centre
    out = CropFlip(pad=1, flip=0.25)(images, torch.Generator().manual_seed(3))
    rows = out.sum((0, 1, 3)) / len(images)
    assert torch.allclose(rows, torch.tensor([2 / 9, 2 / 9, 2 / 9]), atol=0.02)
    lost = 1 - out.sum().item() / len(images)
    assert lost == pytest.approx(1 / 3, abs=0.02)  # shifted out to the left in one of three offsets
    far_right = out[..., 2].sum().item() / len(images)
    assert far_right == pytest.approx(0.25 / 3, abs=0.01)  # not shifted and flipped


def test_the_global_generator_is_left_alone():
    state = torch.random.get_rng_state()
    CropFlip()(torch.zeros(4, 3, 8, 8), torch.Generator())
    assert torch.equal(state, torch.random.get_rng_state())


def test_text_form():
    assert Augment.parse("crop-flip") == CropFlip(4, 0.5)
    assert Augment.parse("crop-flip:2,flip=0.0") == CropFlip(2, 0)
    assert Augment.parse("none") == NoAugment()
    with pytest.raises(OptionError, match="≤ 1"):
        CropFlip(flip=1.5)


def test_none_gives_the_batch_and_rows_are_refused():
    rows = torch.zeros(3, 5)
    assert NoAugment()(rows, torch.Generator()) is rows
    with pytest.raises(DataMismatch, match=r"crop-flip: images .* not inputs of shape \(3, 5\)"):
        CropFlip()(rows, torch.Generator())
