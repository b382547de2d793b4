"""Train many small networks in one batch: one batched matrix product per step.

With a network of a few hundred weights, most of the time is spent in Python. Here the weights of n networks are stacked
(n × inputs × units), each network has its own rows in its own order, and their losses are summed: no gradient of one
depends on another. Adam works elementwise, so each network trains as it would alone, except for rounding, with the same
random draws as ``weightsmith.train("mlp:…", optimiser="adam")`` with the same seed.

Narrower networks are padded with masked units, h·0, through which no gradient flows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.seeds import torch_stream
from weightsmith.networks.models.activations import Activation
from weightsmith.networks.models.mlp import Mlp
from weightsmith.papers.study.shallow import Shallow

__all__ = ["FoldNetwork", "TrainingSettings", "train_batched"]

_MOST_UNITS = 8192  # hidden units of a group: activations of a batch of 32 then stay in the cache
_LARGEST_SHARE, _LARGEST_REST = 1.25, 8  # limits on the width of a network relative to the narrowest of its group


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """The training settings of all networks: Adam at a constant rate, cross-entropy, all epochs."""

    rate: float = 0.01
    epochs: int = 300
    batch: int = 32
    activation: str = "sigmoid"
    initialiser: str | None = "torch-default"


@dataclasses.dataclass(frozen=True)
class FoldNetwork:
    """One network to train: its rows and labels, its hidden units, the seed of its weights and of its order."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    units: int
    seed: int


def train_batched(tasks: Sequence[FoldNetwork], classes: int, recipe: TrainingSettings) -> list[Shallow]:
    """The trained networks, in the order of ``tasks``; groups depend on the sizes only."""
    trained: dict[int, Shallow] = {}
    for group in _groups(tasks):
        members = [tasks[index] for index in group]
        trained.update(zip(group, _Group(members, classes, recipe).trained(), strict=True))
    return [trained[index] for index in range(len(tasks))]


def _groups(tasks: Sequence[FoldNetwork]) -> list[list[int]]:
    """Groups of limited size, of tasks with the same number of rows and similar numbers of units."""
    groups: list[list[int]] = []
    for index in sorted(range(len(tasks)), key=lambda k: (len(tasks[k].x), tasks[k].units)):
        task, first = tasks[index], tasks[groups[-1][0]] if groups else None
        fits = (
            first is not None
            and len(first.x) == len(task.x)
            and task.units <= _LARGEST_SHARE * first.units + _LARGEST_REST
            and task.units * (len(groups[-1]) + 1) <= _MOST_UNITS
        )
        if fits:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


class _Group:
    """Networks with the same number of training rows, padded to the widest."""

    def __init__(self, members: Sequence[FoldNetwork], classes: int, recipe: TrainingSettings) -> None:
        self.members, self.classes, self.recipe = members, classes, recipe
        self.widest = max(task.units for task in members)
        self.rows = len(members[0].x)
        # The networks of one fold share their rows, which are in memory only once.
        sources = {id(task.x): task for task in members}
        where = {key: index for index, key in enumerate(sources)}
        self.source = torch.tensor([where[id(task.x)] for task in members])[:, None]
        self.x = torch.from_numpy(np.stack([task.x for task in sources.values()]))
        self.y = torch.from_numpy(np.stack([task.y for task in sources.values()]))

    def trained(self) -> list[Shallow]:
        """Train all networks and unstack them."""
        recipe, activation = self.recipe, Activation.parse(self.recipe.activation).module()
        parameters = [part.requires_grad_() for part in self._initial()]
        inward, inward_bias, outward, outward_bias = parameters
        on = self._switches()
        optimiser = torch.optim.Adam(parameters, lr=recipe.rate, fused=True)
        for epoch in range(1, recipe.epochs + 1):
            order = self._order(epoch)
            x, y = self.x[self.source, order], self.y[self.source, order]
            for start in range(0, self.rows, recipe.batch):
                rows, labels = x[:, start : start + recipe.batch], y[:, start : start + recipe.batch]
                hidden = activation(torch.baddbmm(inward_bias, rows, inward))
                scores = torch.baddbmm(outward_bias, hidden if on is None else hidden * on, outward)
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
                optimiser.zero_grad()
                torch.autograd.backward(loss / labels.shape[1])
                optimiser.step()
        return [self._taken(index, [part.detach() for part in parameters]) for index in range(len(self.members))]

    def _order(self, epoch: int) -> Tensor:
        draws = (torch_stream(task.seed, "order", epoch) for task in self.members)
        return torch.stack([torch.randperm(self.rows, generator=generator) for generator in draws])

    def _initial(self) -> list[Tensor]:
        """The initial weights of each network, transposed and padded with zeros."""
        count, inputs = len(self.members), self.x.shape[2]
        parts = [
            torch.zeros(count, inputs, self.widest),
            torch.zeros(count, 1, self.widest),
            torch.zeros(count, self.widest, self.classes),
            torch.zeros(count, 1, self.classes),
        ]
        for index, task in enumerate(self.members):
            network = Mlp(
                (task.units,),
                input_shape=(inputs,),
                classes=self.classes,
                activation=self.recipe.activation,
                initialiser=self.recipe.initialiser,
            ).build(task.seed)
            weight, bias, outward, outward_bias = (value.detach() for value in network.parameters())
            parts[0][index, :, : task.units] = weight.T
            parts[1][index, 0, : task.units] = bias
            parts[2][index, : task.units] = outward.T
            parts[3][index, 0] = outward_bias
        return parts

    def _switches(self) -> Tensor | None:
        """The unit masks: 1 for a unit of the network, 0 for padding; None if all have the same width."""
        if all(task.units == self.widest for task in self.members):
            return None
        widths = torch.tensor([task.units for task in self.members])
        return (torch.arange(self.widest) < widths[:, None, None]).float()

    def _taken(self, index: int, parts: Sequence[Tensor]) -> Shallow:
        units = self.members[index].units
        inward, inward_bias, outward, outward_bias = (part[index].numpy() for part in parts)
        return Shallow(
            np.ascontiguousarray(inward[:, :units].T),
            inward_bias[0, :units].copy(),
            np.ascontiguousarray(outward[:units].T),
            outward_bias[0].copy(),
            self.recipe.activation,
        )
