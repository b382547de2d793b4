from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.spiking.conversion.balance import Balance, Mse, Percentile, balanced
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.conversion.squared_error import least_squared_error, sampled_activations
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.neurons import IF, Graded

RATIOS = torch.linspace(0.15, 1, 35)


def _by_loops(values, steps, ratios):
    best, least = None, None
    for ratio in ratios:
        level = max(values) * ratio
        error = 0.0
        for value in values:
            said = min(max(np.floor(value * steps / level + 0.5), 0), steps) * level / steps
            error += (said - value) ** 2
        if least is None or error < least:
            best, least = level, error
    return best


@pytest.mark.parametrize("steps", [1, 2, 4, 16])
def test_of_all_ratios_the_one_with_the_least_error(steps):
    generator = np.random.default_rng(steps)
    samples = np.maximum(generator.normal(0, 1, (5, 300)), 0)
    found = least_squared_error(torch.from_numpy(samples), steps, RATIOS.double())
    expected = [_by_loops(row, steps, RATIOS.double().tolist()) for row in samples]
    assert found.tolist() == pytest.approx(expected)


def test_few_steps_cut_off_what_is_rare():
    """One large activation among many small ones: with one step it is given up, with many it is kept."""
    samples = torch.cat([torch.full((1, 999), 0.2), torch.ones(1, 1)], dim=1)
    few, many = (float(least_squared_error(samples, steps, RATIOS)) for steps in (1, 64))
    assert few == pytest.approx(0.2, abs=0.03)
    assert many > 0.5


def _converted(neuron=None):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 7), nn.ReLU(), nn.Linear(7, 2))
    return convert(net, neuron or IF(signed=True), Constant(), input_shape=(2, 6, 6))


def test_samples_are_activations_and_drawn_by_the_seed():
    converted, x = _converted(), torch.randn(40, 2, 6, 6, generator=torch.Generator().manual_seed(1))
    found, again, other = (sampled_activations(converted, x, 100, seed=seed) for seed in (0, 0, 1))
    assert found["1"].shape == (3, 80 + 20)
    assert found["4"].shape == (7, 40)  # one position for each image: all of them
    true = converted.activations(x)
    for channel in range(3):
        assert set(found["1"][channel].tolist()) <= set(true["1"][:, channel].flatten().tolist())
    assert torch.equal(found["1"], again["1"])
    assert not torch.equal(found["1"], other["1"])


def test_thresholds_for_the_steps_of_the_run():
    converted, x = _converted(), torch.randn(64, 2, 6, 6, generator=torch.Generator().manual_seed(1))
    few, many = (balanced(converted, Mse(), x, steps=steps).network for steps in (2, 64))
    for node in few.populations:
        other = many.node(node.name)
        assert node.threshold.mean() < other.threshold.mean()
        assert node.start == 0.5
        assert torch.equal(node.amplitude, node.threshold)
    samples = sampled_activations(converted, x, 8192)["1"]
    assert torch.equal(few.node("1").threshold, least_squared_error(samples, 2, RATIOS))
    half = balanced(converted, Mse(factor=0.5), x, steps=2).network
    assert torch.equal(half.node("1").threshold, few.node("1").threshold * 0.5)
    assert Balance.parse("mse:images=64") == Mse(images=64)


def test_what_mse_refuses():
    x = torch.randn(4, 2, 6, 6)
    with pytest.raises(UsageError, match="give steps"):
        balanced(_converted(), Mse(), x)
    with pytest.raises(UsageError, match="spikes of one size, not graded:5; use balance=percentile"):
        balanced(_converted(Graded(5)), Mse(), x, steps=2)
    dead = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.init.constant_(dead[0].weight, 0.0)
    nn.init.constant_(dead[0].bias, -1.0)
    with pytest.raises(DataMismatch, match="dead layer"):
        balanced(convert(dead, IF(), Constant(), input_shape=(3,)), Mse(), torch.rand(4, 3), steps=2)


def test_graded_neurons_start_empty():
    x = torch.randn(8, 2, 6, 6)
    assert {node.start for node in balanced(_converted(Graded(5)), Percentile(), x).network.populations} == {0.0}
