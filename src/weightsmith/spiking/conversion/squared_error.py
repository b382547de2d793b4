"""Thresholds for a number of steps: per channel the one with the least squared error.

In T steps a neuron with the threshold θ can represent the values 0, θ/T, 2θ/T … θ of an activation a. A large θ rounds
small activations coarsely, a small one clips large ones. Among several ratios of the largest sampled activation the
threshold is the one that minimises

    Σ_a (q(a) − a)²,        q(a) = clamp(⌊a·T/θ + ½⌋, 0, T) · θ/T

over sampled activations a of the channel; q(a) is the value of a signed neuron that starts at half a threshold, after T
steps.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weightsmith.core.progress import StepCallback
from weightsmith.core.seeds import stream
from weightsmith.networks.evaluation import batches_for
from weightsmith.spiking.conversion.convert import Converted

__all__ = ["least_squared_error", "sampled_activations"]

_BATCH = 32


def least_squared_error(samples: Tensor, steps: int, ratios: Tensor) -> Tensor:
    """Per channel of ``samples`` (channels, values) the threshold with the least squared error after ``steps`` steps.

    A channel without positive samples gets the threshold 0.

    >>> least_squared_error(torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]), 2, torch.tensor([0.5, 0.75, 1.0]))
    tensor([2., 0.])
    """
    largest = samples.amax(dim=1).clamp(min=0)
    errors = []
    for ratio in ratios.tolist():
        level = torch.where(largest > 0, largest * ratio, 1.0)[:, None] / steps
        said = torch.floor(samples / level + 0.5).clamp(0, steps) * level
        errors.append((said - samples).square().sum(dim=1))
    best = torch.stack(errors).argmin(dim=0)
    return largest * ratios.to(largest)[best]


def sampled_activations(
    converted: Converted, x: Tensor, count: int, *, seed: int = 0, progress: StepCallback | None = None
) -> dict[str, Tensor]:
    """For every population about ``count`` activations of each channel (channels, values), positions drawn by the seed.

    ``x`` are inputs as they come from the data; in layers with few positions all activations are used.
    """
    network = converted.network
    found: dict[str, list[Tensor]] = {node.name: [] for node in network.populations}
    for done, inputs in batches_for(network.card, x, _BATCH, memory_format=torch.channels_last):
        network.encode.check_inputs(inputs)
        for name, values in converted.activations(inputs).items():
            rows = values.transpose(0, 1).flatten(1)
            share = min(rows.shape[1], math.ceil(count * len(inputs) / len(x)))
            drawn = stream(seed, "samples", name, done).choice(rows.shape[1], share, replace=False)
            found[name].append(rows[:, torch.from_numpy(drawn)])
        if progress is not None:
            progress(done, len(x))
    return {name: torch.cat(parts, dim=1) for name, parts in found.items()}
