"""Multi-layer perceptrons with optional batch norm and dropout."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Literal

from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.networks.models.architecture import Architecture, WidthSlot
from weightsmith.networks.models.batchnorm import batch_norm
from weightsmith.networks.models.dropout import Dropout

__all__ = ["Mlp", "mlp"]


class Mlp(Architecture, name="mlp"):
    """Dense layers ``dense1 … denseN`` of the given widths, then ``output``.

    Dropout follows the activation of the last ``dropout_layers`` hidden layers, never the output; with SELU the default
    is alpha dropout. Batch norm comes before or after the activation; the slides also put one on the input.
    """

    hidden: tuple[int, ...] = param(ge=1, doc="widths of the hidden layers")
    bias: bool = param(default=True)
    batch_norm: Literal["before", "after"] | None = param(default=None, doc="before or after the activation")
    input_norm: bool = param(default=False, doc="batch norm on the input")
    statistics: Literal["torch", "seed"] = param(default="torch", doc="running averages of the batch norms")
    dropout: float = param(default=0.0, ge=0, lt=1, doc="rate on the last hidden layers")
    dropout_layers: int = param(default=3, ge=1, doc="number of last hidden layers with dropout")
    input_dropout: float = param(default=0.0, ge=0, lt=1, doc="rate on the input")
    dropout_kind: Literal["inverted", "after", "alpha"] | None = param(
        default=None, doc="none: alpha for SELU, else inverted"
    )

    def assemble(self) -> nn.Module:
        """The layers in a Sequential with readable names."""
        inputs = math.prod(self.input_shape)
        kind = self.dropout_kind or self.activation_option.dropout
        layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        if self.input_norm:
            layers["input_norm"] = batch_norm(inputs, 1, self.statistics)
        if self.input_dropout:
            layers["input_dropout"] = Dropout(self.input_dropout, kind)
        for number, width in enumerate(self.hidden, start=1):
            layers[f"dense{number}"] = nn.Linear(inputs, width, bias=self.bias)
            if self.batch_norm == "before":
                layers[f"norm{number}"] = batch_norm(width, 1, self.statistics)
            layers[f"activation{number}"] = self.activation_option.module()
            if self.batch_norm == "after":
                layers[f"norm{number}"] = batch_norm(width, 1, self.statistics)
            if self.dropout and number > len(self.hidden) - self.dropout_layers:
                layers[f"dropout{number}"] = Dropout(self.dropout, kind)
            inputs = width
        layers["output"] = nn.Linear(inputs, self.classes or 0, bias=self.bias)
        return nn.Sequential(layers)

    def width_slots(self) -> dict[str, WidthSlot]:
        """Every hidden layer has a width."""
        return {f"dense{index + 1}": WidthSlot("hidden", index) for index in range(len(self.hidden))}

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """The hidden layers."""
        return {"hidden": self.hidden}


def mlp(*widths: int, seed: int = 0, **options: object) -> nn.Module:
    """An MLP from its widths, input and output included; further parameters of :class:`Mlp` by name.

    >>> mlp(784, 300, 100, 10).dense2
    Linear(in_features=300, out_features=100, bias=True)
    """
    if len(widths) < 2:
        raise OptionError(f"an MLP needs at least its inputs and outputs, not {widths}")
    inputs, *hidden, classes = widths
    values = {"hidden": tuple(hidden), "input_shape": (inputs,), "classes": classes, **options}
    return Mlp.from_values(values).build(seed)
