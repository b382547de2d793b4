from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName
from weightsmith.data.normalise import (
    CIFAR10,
    CIFAR100,
    FASHION_MNIST,
    HALF,
    IMAGENET,
    MNIST,
    NONE,
    STANDARD,
    Normalisation,
)

NAMED = [NONE, HALF, IMAGENET, CIFAR10, CIFAR100, MNIST, FASHION_MNIST]
finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-6, 1e6)


@pytest.mark.parametrize("known", NAMED, ids=str)
def test_names_read_back_and_survive_a_record(known):
    assert Normalisation.parse(str(known)) == known
    assert Normalisation.from_json(known.to_json()) == known


@given(st.lists(st.tuples(finite, positive), min_size=1, max_size=4))
def test_text_form_is_exact(pairs):
    mean, std = zip(*pairs, strict=True)
    made = Normalisation(mean, std)
    again = Normalisation.parse(str(made))
    assert again == made
    assert (again.mean, again.std) == (mean, std)


def test_spelled_out_values_of_a_named_one_get_no_name_of_their_own_but_half_does():
    assert Normalisation.parse("0.50/0.5") == HALF
    assert Normalisation.parse(" 0.5,0.5,0.5/0.5,0.5,0.5 ").mean == (0.5, 0.5, 0.5)
    assert Normalisation.parse("ImageNet") == IMAGENET


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("cifar1", UnknownName, "did you mean 'cifar10'"),
        ("0.5", UnknownName, "unknown normalisation '0.5'"),
        ("a,b/c,d", OptionError, "'a,b' is not a list of numbers"),
        ("0.5/", OptionError, "'' is not a list of numbers"),
        ("0.1,0.2/0.5", OptionError, "2 means but 1 deviations"),
        ("0.5/0", OptionError, "> 0"),
        ("nan/1", OptionError, "finite"),
        ("0.5/inf", OptionError, "finite"),
    ],
)
def test_wrong_text_is_named(text, error, message):
    with pytest.raises(error, match=None) as caught:
        Normalisation.parse(text)
    assert message in str(caught.value)


def test_a_name_cannot_stand_for_other_values():
    with pytest.raises(OptionError, match="other values"):
        Normalisation((0.1,), (0.2,), "0.5/0.5")
    with pytest.raises(UnknownName):
        Normalisation((0.1,), (0.2,), "mine")


def test_apply_is_the_formula_pixel_by_pixel():
    x = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    out = IMAGENET.apply(x)
    for n in range(2):
        for c in range(3):
            expected = (x[n, c].double() / 255 - IMAGENET.mean[c]) / IMAGENET.std[c]
            torch.testing.assert_close(out[n, c].double(), expected, rtol=0, atol=1e-6)
    assert out.dtype == torch.float32


def test_half_maps_pixels_onto_minus_one_to_one():
    assert HALF.apply(torch.tensor([[0, 255]], dtype=torch.uint8)).tolist() == [[-1.0, 1.0]]


def test_floats_are_taken_as_they_are_and_never_shared():
    x = torch.tensor([[0.25, 3.0]], dtype=torch.float64)
    out = NONE.apply(x)
    assert torch.equal(out, x)
    assert out.data_ptr() != x.data_ptr()
    assert HALF.apply(x).dtype == torch.float64
    assert torch.equal(HALF.apply(x), (x - 0.5) / 0.5)


@pytest.mark.parametrize("known", NAMED, ids=str)
def test_undo_is_the_inverse(known):
    x = torch.rand(2, max(1, len(known.mean)), 3, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(known.undo(known.apply(x)), x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 3), (5, 1, 4, 4), (5, 4, 4)])
def test_three_channels_fit_only_three_channels(shape):
    with pytest.raises(DataMismatch, match="imagenet has 3 channels"):
        IMAGENET.apply(torch.zeros(shape))


def test_integers_stay_unless_they_are_normalised_and_others_are_refused():
    tokens = torch.zeros(2, 2, dtype=torch.int64)
    assert NONE.apply(tokens).dtype == torch.int64
    assert torch.equal(HALF.apply(tokens), -torch.ones(2, 2))
    with pytest.raises(DataMismatch, match="int32"):
        HALF.apply(tokens.int())
    with pytest.raises(DataMismatch, match="uint8"):
        HALF.undo(torch.zeros(2, 2, dtype=torch.uint8))


def test_standard_is_fitted_per_column_and_per_channel_as_numpy_does():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(3000, 4)).astype(np.float32) * [1, 10, 0.01, 0] + [0, 5, -3, 7]
    fitted = STANDARD.fitted(torch.from_numpy(rows.astype(np.float32)))
    given = rows.astype(np.float32).astype(np.float64)
    assert np.allclose(fitted.mean, given.mean(0), rtol=1e-9)
    assert np.allclose(fitted.std, [*given.std(0)[:3], 1.0], rtol=1e-6)
    assert abs(fitted.apply(torch.from_numpy(rows).float())[:, :3].std(0, correction=0) - 1).max() < 1e-4
    pixels = torch.from_numpy(draw.integers(0, 256, (40, 3, 5, 5), np.uint8))
    by_channel = STANDARD.fitted(pixels)
    assert np.allclose(by_channel.std, (pixels.double() / 255).numpy().std(axis=(0, 2, 3)), rtol=1e-6)


def test_standard_keeps_its_values_through_json_and_is_refused_before_it_has_any():
    fitted = STANDARD.fitted(torch.tensor([[1.0, 5.0], [3.0, 9.0]]))
    assert Normalisation.from_json(fitted.to_json()) == fitted
    assert (str(fitted), str(Normalisation.parse("standard"))) == ("standard", "standard")
    assert Normalisation.parse("standard").unfitted
    with pytest.raises(OptionError, match="fitted when a network is trained"):
        STANDARD.apply(torch.zeros(2, 2))
