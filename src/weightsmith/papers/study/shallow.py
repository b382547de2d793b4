"""A network with one hidden layer as four arrays, for the thousands of networks of a study.

h = f(W₁x + b₁)        scores = W₂h + b₂
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.models.activations import Activation
from weightsmith.reducing.decisions import Choice

__all__ = ["Shallow"]

_Floats = NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Shallow:
    """W₁ (units × inputs), b₁, W₂ (classes × units), b₂, and the text form of f."""

    inward: _Floats
    inward_bias: _Floats
    outward: _Floats
    outward_bias: _Floats
    activation: str = "sigmoid"

    @property
    def units(self) -> int:
        """The number of hidden units."""
        return len(self.inward)

    @property
    def finite(self) -> bool:
        """Whether all weights are finite."""
        return all(bool(np.isfinite(part).all()) for part in self._parts())

    def hidden(self, x: _Floats) -> _Floats:
        """The activations of the units (rows × units)."""
        net = torch.from_numpy(x @ self.inward.T + self.inward_bias)
        values: _Floats = Activation.parse(self.activation).module()(net).numpy()
        return values

    def accuracy(self, hidden: _Floats, labels: NDArray[Any]) -> float:
        """The accuracy in percent on rows with the activations ``hidden``; of equal scores the first wins."""
        called = (hidden @ self.outward.T + self.outward_bias).argmax(axis=1)
        return 100.0 * int((called == labels).sum()) / len(labels)

    def reduced(self, choice: Choice) -> Shallow:
        """The network after ``choice``: its removals are applied and merged in order."""
        if choice.units != self.units:
            raise UsageError(f"{choice.site}: the choice is for {choice.units} units, the network has {self.units}")
        inward, bias = self.inward.copy(), self.inward_bias.copy()
        columns, shift = self.outward.T.copy(), self.outward_bias.copy()
        for removal in choice.removals:
            gone, into = removal.unit, list(removal.into)
            columns[into] += np.outer(removal.factors, columns[gone]).astype(np.float32)
            shift += np.float32(removal.constant) * columns[gone]
            if removal.inputs != "keep":
                share = np.float32(1.0 if removal.inputs == "sum" else 0.5)
                inward[into], bias[into] = share * (inward[into] + inward[gone]), share * (bias[into] + bias[gone])
        kept = list(choice.kept)
        outward = np.ascontiguousarray(columns[kept].T)
        return dataclasses.replace(
            self, inward=inward[kept], inward_bias=bias[kept], outward=outward, outward_bias=shift
        )

    @torch.no_grad()
    def write_into(self, network: nn.Module) -> None:
        """Set the parameters of ``network``, an MLP of this shape, to these values."""
        for parameter, values in zip(network.parameters(), self._parts(), strict=True):
            parameter.copy_(torch.from_numpy(values))

    def _parts(self) -> tuple[_Floats, ...]:
        return self.inward, self.inward_bias, self.outward, self.outward_bias
