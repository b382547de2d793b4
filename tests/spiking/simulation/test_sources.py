from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.spiking.networks import inputs, network

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.simulation.sources import Currents, Draws, Trains, source_of


def test_the_encoding_decides_what_flows():
    found = network("conv")
    x = inputs(found)
    drawn = source_of(found, x, 5, 7)
    assert isinstance(drawn, Draws)
    assert (len(drawn), drawn.scale, drawn.seed, drawn.first) == (3, 1.0, 5, 7)
    assert torch.equal(drawn.x, x)
    constant = source_of(dataclasses.replace(found, encode=Constant()), x, 5, 7)
    assert isinstance(constant, Currents)
    assert len(constant) == 3
    for step in (0, 9):
        assert torch.equal(constant.step(torch.tensor([2, 0]), step), x[[2, 0]])


def test_inputs_are_shaped_and_normalised_by_the_card():
    found = network("mlp")
    card = Card(input_shape=(127,), normalisation=Normalisation((0.5,), (0.5,)))
    pixels = torch.randint(0, 256, (4, 127), dtype=torch.uint8)
    shown = source_of(dataclasses.replace(found, card=card), pixels, 0, 0).x
    assert shown.dtype == torch.float32
    assert shown.is_contiguous()
    assert torch.allclose(shown, pixels / 127.5 - 1, atol=1e-6)


def test_many_images_come_in_order():
    found = network("mlp", encode=Constant())
    x = torch.arange(1500.0)[:, None].expand(1500, 127) / 1500
    assert torch.equal(source_of(found, x, 0, 0).x, x)


@pytest.mark.parametrize("images", [slice(None), slice(1, 3), torch.tensor([3, 0])], ids=["all", "slice", "rows"])
def test_the_number_of_an_image_decides_its_spikes(images):
    found = network("conv", encode=Poisson(0.5))
    x = inputs(found, 4)
    whole = source_of(found, x, 1, 0)
    for step in (0, 3):
        assert torch.equal(whole.step(images, step), whole.step(slice(None), step)[images])
    alone = source_of(found, x[2:], 1, 2)
    assert torch.equal(alone.step(slice(None), 5), whole.step(slice(2, None), 5))
    assert not torch.equal(source_of(found, x[2:], 1, 0).step(slice(None), 5), whole.step(slice(2, None), 5))
    assert torch.equal(alone.keys(), whole.keys()[2:])


def test_given_trains():
    spikes = np.random.default_rng(0).integers(-1, 2, (3, 5, 2, 4, 4)).astype(np.int8)
    source = Trains(spikes)
    assert len(source) == 3
    for images in (slice(1, None), torch.tensor([2, 0]), torch.tensor([1])):
        rows = images if isinstance(images, slice) else images.numpy()
        assert np.array_equal(source.step(images, 3).numpy(), spikes[rows, 3])


@pytest.mark.parametrize(
    ("x", "seed", "error", "message"),
    [
        (torch.zeros(0, 3, 7, 6), 0, UsageError, "there is no image to run on"),
        (torch.zeros(2, 3, 7, 7), 0, DataMismatch, r"takes inputs of shape \(3, 7, 6\), not \(3, 7, 7\)"),
        (torch.full((2, 3, 7, 6), 1.01), 0, DataMismatch, "between −1 and 1, these reach 1.01"),
        (torch.full((2, 3, 7, 6), torch.nan), 0, DataMismatch, "image 0 holds NaN"),
        (torch.zeros(2, 3, 7, 6), -1, OptionError, "seed must be"),
    ],
)
def test_inputs_that_are_refused(x, seed, error, message):
    with pytest.raises(error, match=message):
        source_of(network("conv"), x, seed, 0).step(slice(None), 0)


def test_double_currents_stay_double():
    """A third in float64 is not the third of float32, and a run in double precision can tell."""
    found = network("mlp", encode=Constant())
    x = torch.full((1, 127), 1 / 3, dtype=torch.float64)
    assert torch.equal(source_of(found, x, 0, 0).x, x)
    assert source_of(found, x.float(), 0, 0).x.dtype == torch.float32
    assert source_of(network("mlp"), x, 0, 0).x.dtype == torch.float32
    for path in ("auto", "steps"):
        exact, rounded = (found.run(given, 1, precision="float64", path=path, observers=[]) for given in (x, x.float()))
        assert exact.spikes() == rounded.spikes()
        assert found.run(x, 5, path=path).spikes() == found.run(x.float(), 5, path=path).spikes()
