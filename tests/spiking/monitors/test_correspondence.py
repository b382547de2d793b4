from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.core.statistics import wilson
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.monitors.correspondence import Confusion, Correspondence, Rates, confusion, correspondence
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF
from weightsmith.spiking.simulation.exits import Margin

WEIGHT = torch.randn(3, 1, 3, 3, generator=torch.Generator().manual_seed(0)) * 0.2
AMPLITUDE = torch.tensor([1.0, 2.0, 0.5])


def network(amplitude=AMPLITUDE, card=None):
    """A convolution whose spikes are worth ``AMPLITUDE`` each, so that these are its thresholds."""
    return SpikingNetwork(
        (
            Synapses("conv", INPUT, WEIGHT, padding=(1, 1)),
            Neurons("relu", "conv", AMPLITUDE, start=0.5, amplitude=amplitude, layer="conv"),
            Flatten("flat", "relu"),
            Synapses("out", "flat", torch.tensor([[1.0], [0.5]]).repeat(1, 60)),
        ),
        (1, 4, 5),
        IF(),
        Constant(),
        card or Card(input_shape=(1, 4, 5)),
    )


def rows(images):
    return torch.rand(images, 1, 4, 5, generator=torch.Generator().manual_seed(3))


def activations(batch):
    return {"relu": functional.relu(functional.conv2d(batch, WEIGHT, padding=1))}


def watched(net, x, steps, images=16, **options):
    rates = Rates(net, images=images)
    net.run(x, steps, observers=[rates], **options)
    return rates


def test_rates_come_to_stand_for_activations():
    x = rows(20)
    short, long = (correspondence(watched(network(), x, steps), activations, x) for steps in (8, 500))
    (few,), (many,) = short.populations, long.populations
    assert (long.images, long.steps, many.units, many.layer, many.calibrated) == (16, 500.0, 60, "conv", True)
    # Starting at half a threshold, spikes · amplitude is off by at most half an amplitude in all.
    assert many.error < 2 / 500 / 0.1 > many.scatter
    assert few.error > 10 * many.error
    assert many.slope == pytest.approx(1, abs=0.01)
    assert many.correlation > 0.9999 > few.correlation


def test_figures_are_those_of_plain_formulas():
    x = rows(20)
    rates = watched(network(), x, 9, images=[1, 4, 5, 19, 40])
    assert rates.images.tolist() == [1, 4, 5, 19]
    found = correspondence(rates, activations, x, points=10_000).populations[0]
    a = activations(x[[1, 4, 5, 19]])["relu"].double().flatten(2).transpose(1, 2).numpy().reshape(-1)
    y = (rates.of("relu") * AMPLITUDE.numpy()).reshape(-1)
    slope = np.linalg.lstsq(a[:, None], y, rcond=None)[0][0]
    assert found.slope == pytest.approx(slope, rel=1e-9)
    assert found.correlation == pytest.approx(np.corrcoef(a, y)[0, 1], rel=1e-9)
    assert found.error == pytest.approx(np.linalg.norm(y - a) / np.linalg.norm(a), rel=1e-9)
    assert found.scatter == pytest.approx(np.linalg.norm(y - slope * a) / np.linalg.norm(y), rel=1e-9)
    assert np.array_equal(found.activations, a.astype(np.float32))  # all points, in order
    assert np.array_equal(found.rates, y.astype(np.float32))


def test_rates_are_counted_by_unit_and_image():
    x = torch.zeros(3, 1, 4, 5)
    x[1, 0, 2, 3] = 1.0
    net = SpikingNetwork(
        (
            Synapses("conv", INPUT, torch.tensor([0.25, 0.5]).reshape(2, 1, 1, 1)),
            Neurons("relu", "conv", torch.ones(2), start=0.5),
            Flatten("flat", "relu"),
            Synapses("out", "flat", torch.ones(2, 40)),
        ),
        (1, 4, 5),
        IF(),
        Constant(),
    )
    found = watched(net, x, 32, images=[0, 1]).of("relu")
    assert found.shape == (2, 20, 2)
    assert found[1, 2 * 5 + 3].tolist() == [8 / 32, 16 / 32]
    assert np.count_nonzero(found) == 2


def test_without_an_amplitude_there_is_no_error_but_a_slope():
    x = rows(8)
    rates = watched(network(amplitude=None), x, 400)
    found = correspondence(
        rates, lambda batch: {"relu": activations(batch)["relu"] / AMPLITUDE.reshape(3, 1, 1) * 7}, x
    )
    (population,) = found.populations
    assert (population.calibrated, population.error) == (False, None)
    assert population.slope == pytest.approx(1 / 7, rel=0.02)
    assert population.scatter < 0.05


def test_points_are_drawn_by_the_seed():
    x = rows(16)
    rates = watched(network(), x, 9)
    one, same, other = (
        correspondence(rates, activations, x, points=50, seed=seed).populations[0] for seed in (1, 1, 2)
    )
    whole = correspondence(rates, activations, x, points=10_000).populations[0]
    assert len(one.rates) == len(one.activations) == 50
    assert np.array_equal(one.rates, same.rates)
    assert not np.array_equal(one.activations, other.activations)
    pairs = set(zip(whole.activations.tolist(), whole.rates.tolist(), strict=True))
    assert set(zip(one.activations.tolist(), one.rates.tolist(), strict=True)) <= pairs
    assert len(whole.rates) == 16 * 60
    assert len(correspondence(rates, activations, x).populations[0].rates) == 16 * 60  # fewer than 2,000


def test_batches_are_normalised_as_the_network_takes_them():
    card = Card(input_shape=(1, 4, 5), normalisation=Normalisation((0.5,), (0.5,)))
    x = rows(6)
    rates = watched(network(card=card), x, 300)
    seen = []

    def noted(batch):
        seen.append(batch)
        return {"relu": activations(batch)["relu"].minimum(AMPLITUDE.reshape(3, 1, 1))}  # one spike a step is the most

    found = correspondence(rates, noted, x).populations[0]
    assert torch.allclose(torch.cat(seen), (x - 0.5) / 0.5)
    assert found.error < 0.01


def test_images_that_end_early_are_rated_by_their_own_steps():
    x = rows(12)
    net = network()
    rates = watched(net, x, 200, early=Margin(3.0, least=20))
    assert rates.steps.min() < 200
    assert 0.2 < rates.of("relu").max() <= 1
    assert correspondence(rates, activations, x).steps == rates.steps.mean()


def test_what_is_not_defined_is_none():
    x = rows(4)
    silent = network().with_factor(1e6)
    found = correspondence(watched(silent, x, 5), activations, x).populations[0]
    assert (found.slope, found.correlation, found.scatter, found.error) == (0.0, None, None, 1.0)
    zero = correspondence(watched(network(), x, 5), lambda b: {"relu": torch.zeros(len(b), 3, 4, 5)}, x).populations[0]
    assert (zero.slope, zero.correlation, zero.scatter, zero.error) == (None, None, None, None)
    flat = correspondence(watched(network(), x, 5), lambda b: {"relu": torch.full((len(b), 3, 4, 5), 0.1)}, x)
    assert flat.populations[0].correlation is None
    assert flat.populations[0].slope is not None
    assert Correspondence.from_json(flat.to_json()) == flat


def test_what_does_not_fit_is_refused():
    x = rows(8)
    rates = watched(network(), x, 5)
    with pytest.raises(DataMismatch, match="image 7 was run, but x has 3 rows"):
        correspondence(rates, activations, x[:3])
    with pytest.raises(DataMismatch, match="no activations of the population 'relu', only of other"):
        correspondence(rates, lambda b: {"other": b}, x)
    with pytest.raises(DataMismatch, match=r"relu has values of shape \(3, 4, 5\), not the \(1, 4, 5\)"):
        correspondence(rates, lambda b: {"relu": b}, x)
    with pytest.raises(DataMismatch, match="NaN"):
        correspondence(rates, lambda b: {"relu": torch.full((len(b), 3, 4, 5), torch.nan)}, x)
    with pytest.raises(UnknownName, match="unknown population 'rule'"):
        rates.of("rule")
    with pytest.raises(UsageError, match="has seen nothing"):
        correspondence(Rates(network()), activations, x)


def test_confusion_by_hand():
    network_says, spiking_says = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 2, -1, 0], np.int16)
    found = confusion(network_says, spiking_says, 3)
    assert found.matrix.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert found.undecided.tolist() == [0, 0, 1]
    assert found.agreement == wilson(3, 6)
    assert confusion(network_says, spiking_says, 3, confidence=0.9).agreement == wilson(3, 6, 0.9)
    assert Confusion.from_json(found.to_json()) == found


def test_answers_that_are_no_classes_are_refused():
    with pytest.raises(DataMismatch, match="the spiking network answers 3, which is not one of the 3 classes"):
        confusion(np.array([0]), np.array([3]), 3)
    with pytest.raises(DataMismatch, match="the network answers -1"):
        confusion(np.array([-1]), np.array([0]), 3)
    with pytest.raises(UsageError, match=r"not \(2,\) and \(3,\)"):
        confusion(np.zeros(2, int), np.zeros(3, int), 3)
    with pytest.raises(UsageError, match="one answer"):
        confusion(np.empty(0, int), np.empty(0, int), 3)
