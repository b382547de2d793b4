"""A cut done by hand, for tests of what comes after one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn

from weightsmith.networks.card import card_of
from weightsmith.networks.models.mlp import Mlp

__all__ = ["EPOCHS", "as_it_is", "without_units"]

EPOCHS = 4


def as_it_is(network: nn.Module) -> nn.Module:
    return network


def without_units(*units: int) -> Callable[[nn.Module], nn.Module]:
    """A cut of the only hidden layer of an MLP, by hand."""

    def cut(network: nn.Module) -> nn.Module:
        old = network.dense1
        kept = [unit for unit in range(old.out_features) if unit not in units]
        small = Mlp((len(kept),), input_shape=(1, 8, 8), classes=10).build()
        with torch.no_grad():
            small.dense1.weight.copy_(old.weight[kept])
            small.dense1.bias.copy_(old.bias[kept])
            small.output.weight.copy_(network.output.weight[:, kept])
            small.output.bias.copy_(network.output.bias)
        small.card = dataclasses.replace(card_of(network), architecture=small.architecture)
        return small

    return cut
