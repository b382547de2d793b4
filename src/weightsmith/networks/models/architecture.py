"""An architecture is an option object: a small JSON spec that builds a network, also at other widths.

``Architecture.parse("mlp:300,100")`` reads the text form; the input shape and the number of classes come from the data
(:meth:`Architecture.fitted`) or are part of the text; ``build`` makes the torch module. The module carries its
architecture, so that a saved, reduced or converted network can be rebuilt from the spec alone:

>>> from weightsmith.networks.models.mlp import Mlp
>>> network = Mlp((300, 100), input_shape=(784,), classes=10).build(seed=0)
>>> str(architecture_of(network))
'mlp:300,100,input_shape=[784],classes=10'

:meth:`Architecture.resized` is the same spec with other numbers of units, by the names of the layers:

>>> str(architecture_of(network).resized({"dense1": 120}))
'mlp:120,100,input_shape=[784],classes=10'
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName
from weightsmith.core.options import Option, param
from weightsmith.core.seeds import torch_stream
from weightsmith.networks.models.activations import Activation
from weightsmith.networks.models.initialisers import initialise, variance

__all__ = ["Architecture", "WidthSlot", "architecture_of"]


class WidthSlot(NamedTuple):
    """The entry of a spec that holds the width of a layer: a ``position`` in the values of a ``parameter``."""

    parameter: str
    position: int


class Architecture(Option, family="network"):
    """The family of architectures, with their common parameters."""

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
        network = self.outline()
        try:
            network = network.to_empty(device="cpu")
        except RuntimeError as error:
            raise OptionError(f"{self}: not enough memory on this machine") from error
        initialise(network, self.initialiser or self.activation_option.initialiser, torch_stream(seed, "initialise"))
        network.architecture = self  # type: ignore[assignment]  # torch types every attribute as a tensor or module
        return network

    def outline(self) -> nn.Module:
        """The network without values, on torch's meta device: only names, kinds and shapes of its layers."""
        if not self.input_shape or self.classes is None:
            raise OptionError(f"{self.name} needs input_shape and classes before it can be built (the data give them)")
        with torch.device("meta"):  # nothing is drawn from torch's global generator
            return self.assemble()

    def width_slots(self) -> dict[str, WidthSlot]:
        """The width slot of each layer, by its name in the module tree; layers that share one are coupled."""
        raise OptionError(f"{self.name} cannot be built with other layer widths")

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """Every parameter that holds widths, with defaults filled in."""
        raise OptionError(f"{self.name} cannot be built with other layer widths")

    def with_widths(self, widths: Mapping[str, tuple[int, ...]]) -> Self:
        """This spec with the given values of :meth:`widths_in_use`, in its shortest form."""
        changed = dataclasses.replace(self, **widths)  # type: ignore[arg-type]  # each is a parameter of its own type
        for field in dataclasses.fields(self):
            if field.name in widths and field.default in ((), None):
                shorter = dataclasses.replace(changed, **{field.name: field.default})
                changed = shorter if shorter.widths_in_use() == changed.widths_in_use() else changed
        return changed

    def resized(self, units: Mapping[str, int]) -> Self:
        """This spec with ``units`` (layer name in the module tree → output units); other layers are unchanged.

        Layers whose outputs are added to each other must all be named, with the same number. The output layer keeps
        its classes. Sizes that the spec cannot express raise an :class:`OptionError`.
        """
        slots, before = self.width_slots(), self.widths_in_use()
        for layer in units:
            if layer not in slots:
                raise self._without_width(layer, slots)
        after = {parameter: [*widths] for parameter, widths in before.items()}
        first: dict[WidthSlot, str] = {}
        for layer, slot in slots.items():
            number = units.get(layer, before[slot.parameter][slot.position])
            if first.setdefault(slot, layer) == layer:
                after[slot.parameter][slot.position] = number
            elif (other := after[slot.parameter][slot.position]) != number:
                raise OptionError(
                    f"{self.name}: {first[slot]} and {layer} must have the same number of units, not {other} and "
                    f"{number} (their outputs are added)"
                )
        asked = {parameter: tuple(widths) for parameter, widths in after.items()}
        return self if asked == before else self.with_widths(asked)

    def _without_width(self, layer: str, slots: Mapping[str, WidthSlot]) -> OptionError | UnknownName:
        modules = dict(self.outline().named_modules())
        if layer not in modules:
            return UnknownName(f"layer of {self.name}", layer, slots)
        return OptionError(
            f"{self.name}: {layer} ({type(modules[layer]).__name__}) has no width of its own: the output layer gives "
            "the classes, and only hidden dense layers and convolutions have widths"
        )

    def fitted(self, input_shape: Sequence[int], classes: int) -> Self:
        """This architecture for data of that shape; values already set in it must agree."""
        shape = tuple(input_shape)
        rows = 1 in (len(self.input_shape), len(shape)) and math.prod(self.input_shape) == math.prod(shape)
        if self.input_shape and self.input_shape != shape and not rows:
            raise DataMismatch(f"{self.name} takes inputs of shape {self.input_shape}, the data have {shape}")
        if self.classes is not None and self.classes != classes:
            raise DataMismatch(f"{self.name} has {self.classes} classes, the data have {classes}")
        return dataclasses.replace(self, input_shape=self.input_shape or shape, classes=classes)

    @property
    def activation_option(self) -> Activation:
        """The activation as an option object."""
        return Activation.parse(self.activation)


def architecture_of(network: nn.Module) -> Architecture | None:
    """The architecture a network was built from; None for a user-defined module."""
    found = getattr(network, "architecture", None)
    return found if isinstance(found, Architecture) else None
