from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from weightsmith.core.errors import DataMismatch
from weightsmith.data.normalise import HALF, IMAGENET, NONE
from weightsmith.networks.fitting import Brightness, Channels, Resize, fit_inputs

PIXELS = torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(0))


def run(layers, x):
    return nn.Sequential(layers)(x)


@pytest.mark.parametrize("size", [(9, 7), (18, 21), (4, 3), (20, 5)])
def test_images_are_resized_as_pillow_does(size):
    ours = Resize((9, 7), size)(PIXELS)[0, 0].numpy()
    theirs = Image.fromarray(PIXELS[0, 0].numpy()).resize(size[::-1], Image.Resampling.BILINEAR)
    assert np.allclose(ours, np.asarray(theirs), atol=1e-5)


def test_a_chequerboard_that_shrinks_turns_grey_and_not_into_a_pattern():
    board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(8, 8)[None, None]
    inner = Resize((16, 16), (5, 5))(board)[0, 0, 1:-1, 1:-1]
    assert (inner - 0.5).abs().max() < 0.05
    assert (nn.functional.interpolate(board, (5, 5), mode="bilinear")[0, 0] - 0.5).abs().max() > 0.3


def test_grey_images_go_to_every_channel_and_are_normalised_there():
    layers = fit_inputs((1, 9, 7), (3, 9, 7), IMAGENET)
    grey = PIXELS[:, :1]
    assert torch.allclose(run(layers, grey), IMAGENET.apply(grey.expand(-1, 3, -1, -1)))
    assert torch.equal(Channels(4)(grey), grey.expand(-1, 4, -1, -1))
    assert torch.equal(Channels(3, HALF)(grey), HALF.apply(grey.expand(-1, 3, -1, -1)))
    with pytest.raises(DataMismatch, match="does not fit 2 channels"):
        Channels(2, IMAGENET)


def test_colours_become_brightness():
    red = torch.tensor([1.0, 0, 0]).reshape(1, 3, 1, 1)
    assert Brightness(3)(red).item() == pytest.approx(0.299)
    assert Brightness(3)(torch.full((1, 3, 1, 1), 0.7)).item() == pytest.approx(0.7)
    assert torch.allclose(run(fit_inputs((2, 9, 7), (1, 9, 7)), PIXELS[:, :2]), PIXELS[:, :2].mean(1, keepdim=True))


def test_fitting_and_normalising_can_change_places():
    layers = fit_inputs((3, 9, 7), (1, 5, 12))
    assert torch.allclose(run(layers, HALF.apply(PIXELS)), HALF.apply(run(layers, PIXELS)), atol=1e-6)
    resize = fit_inputs((3, 9, 7), (3, 5, 12))
    assert torch.allclose(run(resize, IMAGENET.apply(PIXELS)), IMAGENET.apply(run(resize, PIXELS)), atol=1e-5)


@pytest.mark.parametrize(
    ("given", "wanted", "layers"),
    [
        ((3, 9, 7), (3, 9, 7), []),
        ((12,), (12,), []),
        ((3, 2, 2), (12,), ["shape"]),
        ((12,), (3, 2, 2), ["shape"]),
        ((1, 9, 7), (3, 4, 7), ["resize", "channels"]),
        ((3, 9, 7), (1, 9, 9), ["resize", "brightness"]),
    ],
)
def test_only_what_is_needed_is_done(given, wanted, layers):
    made = fit_inputs(given, wanted)
    assert list(made) == layers
    assert run(made, torch.zeros(2, *given)).shape == (2, *wanted)


@pytest.mark.parametrize(
    ("given", "wanted", "normalisation", "message"),
    [
        ((12,), (13,), NONE, r"\(12,\) cannot be made into the \(13,\)"),
        ((2, 4, 4), (3, 4, 4), NONE, "cannot be made into"),
        ((1, 4, 4), (20,), NONE, "cannot be made into"),
        ((3, 4, 4), (3, 5, 5), IMAGENET, "belongs on the card"),
    ],
)
def test_what_cannot_be_fitted_is_named(given, wanted, normalisation, message):
    with pytest.raises(DataMismatch, match=message):
        fit_inputs(given, wanted, normalisation)
