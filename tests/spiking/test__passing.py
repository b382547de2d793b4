from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.core.errors import UsageError
from weightsmith.spiking._passing import Passing
from weightsmith.spiking.encoding import Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Gate, Neurons, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF
from weightsmith.spiking.stepping import Stepper


def from_stepping(gate, steps, images):
    """Spikes in front of a gate and behind it, (images, steps, positions, channels), from the step-by-step twin."""
    generator = torch.Generator().manual_seed(3)
    nodes = (
        Synapses("first", INPUT, torch.randn(3, 2, 3, 3, generator=generator), padding=(1, 1)),
        Neurons("one", "first", torch.full((3,), 1.5)),
        gate,
        Flatten("flat", gate.name),
    )
    shape = SpikingNetwork(nodes, (2, 5, 6), IF(), Poisson()).shapes["flat"]
    network = SpikingNetwork((*nodes, Synapses("out", "flat", torch.ones(2, *shape))), (2, 5, 6), IF(), Poisson())
    stepper = Stepper(network)
    state = stepper.begin(images)
    before, behind = [], []
    for _ in range(steps):
        values, _ = stepper.step(state, torch.randint(-1, 2, (images, 2, 5, 6), generator=generator))
        before.append(values["one"].flatten(2).transpose(1, 2))
        behind.append(values[gate.name].flatten(2).transpose(1, 2))
    return (torch.stack(part, dim=1).to(torch.uint8).numpy() for part in (before, behind))


@pytest.mark.parametrize("window", [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 1), (1, 1))])
@pytest.mark.parametrize("chunk", [1, 3, 11])
def test_what_passes_is_what_the_twin_lets_pass(window, chunk, monkeypatch):
    monkeypatch.setattr("weightsmith.spiking._passing._AT_ONCE", 2000)  # several images, but not all at once
    gate = Gate("most", "one", *window)
    before, behind = from_stepping(gate, 11, 5)
    assert 0.05 < before.mean() < 0.6
    passing = Passing(gate, (3, 5, 6))
    for step in range(0, 11, chunk):
        # Images 11 and 14 end after six steps.
        kept = [0, 1, 2, 3, 4] if step < 6 else [0, 2, 3]
        part = slice(step, step + chunk)
        found = passing.passed(np.array(kept) + 10, step, before[kept, part])
        assert np.array_equal(found, behind[kept, part])


def test_a_new_block_begins_with_clean_counts():
    passing = Passing(Gate("most", "one", (1, 2), (1, 2)), (1, 1, 2))
    left, right = np.array([[[[1], [0]]]], np.uint8), np.array([[[[0], [1]]]], np.uint8)
    assert passing.passed(np.array([0]), 0, left).item() == 1
    assert passing.passed(np.array([0]), 1, right).item() == 0  # one each: the first of equals passes
    assert passing.passed(np.array([1]), 0, right).item() == 1
    with pytest.raises(UsageError, match="most: images are shown from step 4 on"):
        passing.passed(np.array([2]), 4, right)
