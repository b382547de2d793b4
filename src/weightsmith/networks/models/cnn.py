"""A small convolutional network for a first try on images, trained in minutes on a CPU.

Every width is a block: a 3×3 convolution with padding 1, optional batch norm, activation and a 2×2 pool, as long as the
image has two pixels left to pool; then dense layers. ``cnn:32,64`` has two blocks and a dense layer of 128.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.networks.models.architecture import Architecture, WidthSlot
from weightsmith.networks.models.batchnorm import batch_norm
from weightsmith.networks.models.dropout import Dropout

__all__ = ["Cnn", "cnn"]


class Cnn(Architecture, name="cnn"):
    """Blocks ``conv1, norm1, act1, pool1, conv2 …``, then ``flatten``, dense layers and ``output``."""

    widths: tuple[int, ...] = param(default=(32, 64), ge=1, min_length=1, doc="channels of each block")
    dense: tuple[int, ...] = param(default=(128,), ge=1, doc="widths of the dense layers after the blocks")
    bias: bool = param(default=True)
    batch_norm: bool = param(default=False, doc="after each convolution")
    pool: Literal["avg", "max"] = param(default="max")
    dropout: float = param(default=0.0, ge=0, lt=1, doc="rate after each dense layer")

    def check(self) -> None:
        """Inputs are images."""
        super().check()
        if self.input_shape and len(self.input_shape) != 3:
            raise OptionError(f"cnn: input_shape must be channels, height, width, not {self.input_shape}")

    def assemble(self) -> nn.Module:
        """A Sequential with a name for each layer."""
        channels, height, width = self.input_shape
        network = nn.Sequential()
        for number, units in enumerate(self.widths, 1):
            network.add_module(f"conv{number}", nn.Conv2d(channels, units, 3, padding=1, bias=self.bias))
            if self.batch_norm:
                network.add_module(f"norm{number}", batch_norm(units, 2, "torch"))
            network.add_module(f"act{number}", self.activation_option.module())
            if min(height, width) > 1:
                network.add_module(f"pool{number}", nn.AvgPool2d(2) if self.pool == "avg" else nn.MaxPool2d(2))
                height, width = height // 2, width // 2
            channels = units
        network.add_module("flatten", nn.Flatten())
        inputs = channels * height * width
        for number, units in enumerate(self.dense, 1):
            network.add_module(f"dense{number}", nn.Linear(inputs, units, bias=self.bias))
            network.add_module(f"dense{number}_act", self.activation_option.module())
            if self.dropout:
                network.add_module(f"dropout{number}", Dropout(self.dropout, self.activation_option.dropout))
            inputs = units
        network.add_module("output", nn.Linear(inputs, self.classes or 0, bias=self.bias))
        return network

    def width_slots(self) -> dict[str, WidthSlot]:
        """Every convolution and every dense layer but the last."""
        return {
            **{f"conv{index + 1}": WidthSlot("widths", index) for index in range(len(self.widths))},
            **{f"dense{index + 1}": WidthSlot("dense", index) for index in range(len(self.dense))},
        }

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """Channels of the blocks, and the dense layers."""
        return {"widths": self.widths, "dense": self.dense}


def cnn(
    *widths: int,
    input_shape: tuple[int, ...] = (1, 28, 28),
    classes: int = 10,
    seed: int = 0,
    **options: object,
) -> nn.Module:
    """A small CNN of these widths; further parameters of :class:`Cnn` by name.

    >>> cnn(8, 16, dense=(32,)).dense1
    Linear(in_features=784, out_features=32, bias=True)
    """
    given = {"widths": widths} if widths else {}
    return Cnn.from_values({**given, "input_shape": input_shape, "classes": classes, **options}).build(seed)
