"""VGG networks for small images, in the form that converts into spiking networks.

The lists are those of the code base behind the L4-norm paper (seed 000; Rathi et al. 2020): 3×3 convolutions with
padding 1, no bias, no batch norm, 2×2 average pooling, dropout between convolutions but not before a pool. Every one
of these is an option.
"""

from __future__ import annotations

import math
from typing import Literal

from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.networks.models.architecture import Architecture, WidthSlot
from weightsmith.networks.models.batchnorm import batch_norm
from weightsmith.networks.models.dropout import Dropout

__all__ = ["LISTS", "Vgg", "vgg"]

_POOL = "A"
LISTS: dict[int, tuple[int | str, ...]] = {
    5: (64, "A", 128, 128, "A"),
    9: (64, "A", 128, 256, "A", 256, 512, "A", 512, "A", 512),
    11: (64, "A", 128, 256, 256, "A", 512, 512, 512, "A", 512, 512),
    13: (64, 64, "A", 128, 128, "A", 256, 256, "A", 512, 512, 512, "A", 512),
    16: (64, 64, "A", 128, 128, "A", 256, 256, 256, "A", 512, 512, 512, "A", 512, 512, 512),
    19: (64, 64, "A", 128, 128, "A", *[256] * 4, "A", *[512] * 4, "A", *[512] * 4),
}
_CLASSIFIERS = {11: (1024, 1024)}  # the paper's VGG-11 for CIFAR-100; the others have 4096, 4096


class Vgg(Architecture, name="vgg"):
    """``features`` (convolutions and pools by the list of this depth), then ``classifier`` (dense layers)."""

    depth: Literal[5, 9, 11, 13, 16, 19] = param()
    widths: tuple[int, ...] = param(default=(), ge=1, doc="channels of each convolution; empty: the list's own")
    classifier: tuple[int, ...] | None = param(
        default=None, ge=1, doc="widths of the dense layers; none: the list's own"
    )
    bias: bool = param(default=False)
    batch_norm: bool = param(default=False, doc="after each convolution")
    statistics: Literal["torch", "seed"] = param(default="torch", doc="running averages of the batch norms")
    pool: Literal["avg", "max"] = param(default="avg")
    dropout: float = param(default=0.2, ge=0, lt=1, doc="rate between convolutions")
    classifier_dropout: float = param(default=0.5, ge=0, lt=1, doc="rate after each hidden dense layer")

    def check(self) -> None:
        """Widths must be one per convolution, and the image must survive the pools."""
        super().check()
        convolutions = sum(item != _POOL for item in LISTS[self.depth])
        if self.widths and len(self.widths) != convolutions:
            raise OptionError(f"vgg: depth {self.depth} has {convolutions} convolutions, widths has {len(self.widths)}")
        if self.input_shape and len(self.input_shape) != 3:
            raise OptionError(f"vgg: input_shape must be channels, height, width, not {self.input_shape}")
        least = 2 ** LISTS[self.depth].count(_POOL)
        if self.input_shape and min(self.input_shape[1:]) < least:
            raise OptionError(
                f"vgg: depth {self.depth} needs images of at least {least}×{least}, not {self.input_shape}"
            )

    @property
    def plan(self) -> tuple[int | str, ...]:
        """The list of this depth with the widths in use; ``"A"`` marks a pool."""
        widths = iter(self.widths or [item for item in LISTS[self.depth] if item != _POOL])
        return tuple(item if item == _POOL else next(widths) for item in LISTS[self.depth])

    def assemble(self) -> nn.Module:
        """``features`` and ``classifier`` as Sequentials."""
        channels, height, width = self.input_shape
        features: list[nn.Module] = []
        for item, following in zip(self.plan, (*self.plan[1:], None), strict=True):
            if item == _POOL:
                features.append(nn.AvgPool2d(2) if self.pool == "avg" else nn.MaxPool2d(2))
                height, width = height // 2, width // 2
                continue
            features.append(nn.Conv2d(channels, int(item), 3, padding=1, bias=self.bias))
            channels = int(item)
            if self.batch_norm:
                features.append(batch_norm(channels, 2, self.statistics))
            features.append(self.activation_option.module())
            if following != _POOL:
                features.append(Dropout(self.dropout, self.activation_option.dropout))
        return _Vgg(nn.Sequential(*features), self._dense(math.prod((channels, height, width))))

    def width_slots(self) -> dict[str, WidthSlot]:
        """Every convolution has a width, and every dense layer but the last."""
        layers = dict(self.outline().named_modules())
        convolutions = [name for name, module in layers.items() if isinstance(module, nn.Conv2d)]
        dense = [name for name, module in layers.items() if isinstance(module, nn.Linear)]
        return {
            **{name: WidthSlot("widths", index) for index, name in enumerate(convolutions)},
            **{name: WidthSlot("classifier", index) for index, name in enumerate(dense[:-1])},
        }

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """The given widths, or those of the list."""
        return {
            "widths": tuple(int(item) for item in self.plan if item != _POOL),
            "classifier": _CLASSIFIERS.get(self.depth, (4096, 4096)) if self.classifier is None else self.classifier,
        }

    def _dense(self, inputs: int) -> nn.Sequential:
        layers: list[nn.Module] = [nn.Flatten()]
        for width in self.widths_in_use()["classifier"]:
            layers += [
                nn.Linear(inputs, width, bias=self.bias),
                self.activation_option.module(),
                Dropout(self.classifier_dropout, self.activation_option.dropout),
            ]
            inputs = width
        return nn.Sequential(*layers, nn.Linear(inputs, self.classes or 0, bias=self.bias))


class _Vgg(nn.Sequential):
    def __init__(self, features: nn.Sequential, classifier: nn.Sequential) -> None:
        super().__init__()
        self.features, self.classifier = features, classifier


def vgg(
    depth: int, input_shape: tuple[int, ...] = (3, 32, 32), classes: int = 10, seed: int = 0, **options: object
) -> nn.Module:
    """A VGG of that depth; further parameters of :class:`Vgg` by name.

    >>> vgg(5, classifier=(512, 512)).classifier[1]
    Linear(in_features=8192, out_features=512, bias=False)
    """
    return Vgg.from_values({"depth": depth, "input_shape": input_shape, "classes": classes, **options}).build(seed)
