"""An architecture is an option object: a small JSON spec that builds a network, and builds it again at other widths.

``Architecture.parse("mlp:300,100")`` reads what a person types; the input shape and the number of classes come from
the data (:meth:`Architecture.fitted`) or are written out; ``build`` makes the torch module. The module carries its
architecture, so that a saved, reduced or converted network can be made anew from the spec alone:

>>> from weightsmith.networks.mlp import Mlp
>>> network = Mlp((300, 100), input_shape=(784,), classes=10).build(seed=0)
>>> str(architecture_of(network))
'mlp:300,100,input_shape=[784],classes=10'
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.options import Option, param
from weightsmith.core.seeds import torch_stream
from weightsmith.networks.activations import Activation
from weightsmith.networks.initialisers import initialise, variance

__all__ = ["Architecture", "architecture_of"]


class Architecture(Option, family="network"):
    """The family of architectures, and what all of them have in common."""

    input_shape: tuple[int, ...] = param(default=(), ge=1, doc="shape of one input", kw_only=True)
    classes: int | None = param(default=None, ge=1, doc="number of outputs", kw_only=True)
    activation: str = param(default="relu", doc="text form of an activation", kw_only=True)
    initialiser: str | None = param(default=None, doc="none: the one that fits the activation", kw_only=True)

    def check(self) -> None:
        """The activation and the initialiser must be known ones."""
        Activation.parse(self.activation)
        if self.initialiser is not None:
            variance(self.initialiser, 1, 1)

    @abstractmethod
    def assemble(self) -> nn.Module:
        """The bare module, its parameters not yet set; called on torch's meta device."""

    def build(self, seed: int = 0) -> nn.Module:
        """The network with weights drawn from ``seed`` by the initialiser that fits the activation, biases zero."""
        if not self.input_shape or self.classes is None:
            raise OptionError(f"{self.name} needs input_shape and classes before it can be built (the data tell them)")
        with torch.device("meta"):  # nothing is drawn from torch's global generator
            network = self.assemble()
        try:
            network = network.to_empty(device="cpu")
        except RuntimeError as error:
            raise OptionError(f"{self}: this machine has not enough memory for it") from error
        initialise(network, self.initialiser or self.activation_option.initialiser, torch_stream(seed, "initialise"))
        network.architecture = self  # type: ignore[assignment]  # torch types every attribute as a tensor or module
        return network

    def fitted(self, input_shape: Sequence[int], classes: int) -> Self:
        """This architecture for data of that shape; what is written in it already must agree."""
        shape = tuple(input_shape)
        rows = 1 in (len(self.input_shape), len(shape)) and math.prod(self.input_shape) == math.prod(shape)
        if self.input_shape and self.input_shape != shape and not rows:
            raise DataMismatch(f"{self.name} takes inputs of shape {self.input_shape}, the data have {shape}")
        if self.classes is not None and self.classes != classes:
            raise DataMismatch(f"{self.name} tells {self.classes} classes apart, the data have {classes}")
        return dataclasses.replace(self, input_shape=self.input_shape or shape, classes=classes)

    @property
    def activation_option(self) -> Activation:
        """The activation as an option object."""
        return Activation.parse(self.activation)


def architecture_of(network: nn.Module) -> Architecture | None:
    """The architecture a network was built from; None for a module of the user's own."""
    found = getattr(network, "architecture", None)
    return found if isinstance(found, Architecture) else None
