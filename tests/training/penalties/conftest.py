"""What the tests of all penalties share: weights with gradients, and a short training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from weightsmith.training.optimisers import Optimiser
from weightsmith.training.penalties import Penalty, Weight, weights_of


@pytest.fixture
def weight() -> Callable[..., Weight]:
    """A float64 weight of these values (or of this shape, random) with a gradient of zeros."""

    def make(values: Tensor | Sequence[int], name: str = "layer.weight", unit_axis: int = 0) -> Weight:
        if not isinstance(values, Tensor):
            values = torch.randn(*values, dtype=torch.float64, generator=torch.Generator().manual_seed(len(values)))
        parameter = nn.Parameter(values.clone())
        parameter.grad = torch.zeros_like(parameter)
        return Weight(name, parameter, unit_axis)

    return make


@pytest.fixture
def descend() -> Callable[..., list[str]]:
    """Full-batch training with penalties as the loop does it; returns what was removed."""

    def run(
        network: nn.Module,
        loss: Callable[[], Tensor],
        penalties: Sequence[str],
        *,
        rate: float,
        steps: int,
        optimiser: str = "sgd",
    ) -> list[str]:
        option = Optimiser.parse(optimiser)
        updates = [option.build(parameter, rate) for parameter in network.parameters() if parameter.requires_grad]
        penalisers = [Penalty.parse(text).on(weights_of(network)) for text in penalties]
        for penaliser in penalisers:
            penaliser.start_epoch()
        for _ in range(steps):
            network.zero_grad()
            loss().backward()
            for penaliser in penalisers:
                penaliser.add_gradient()
            for update in updates:
                update.step()
            for penaliser in penalisers:
                penaliser.after_step(rate * option.gain)
        return [sentence for penaliser in penalisers for sentence in penaliser.removed()]

    return run
