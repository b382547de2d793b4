"""Inputs of one shape made into those of another, so that a network can be reused on data it was not built for.

Images are resized by bilinear interpolation (smoothed first where they shrink, so that fine detail does not turn into
false patterns), a grey image goes to every channel, a coloured one to a single channel by its brightness. All of this
is linear with weights that add up to 1, so it does not matter whether inputs are normalised before or after it; only
a normalisation with a value per channel must come after grey images got their channels.

>>> list(fit_inputs((1, 28, 28), (3, 32, 32)))
['resize', 'channels']
>>> fit_inputs((3, 32, 32), (3, 32, 32))
OrderedDict()
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch
from weightsmith.data.normalise import NONE, Normalisation

__all__ = ["Brightness", "Channels", "Resize", "fit_inputs"]


def fit_inputs(
    given: tuple[int, ...], wanted: tuple[int, ...], normalisation: Normalisation = NONE
) -> OrderedDict[str, nn.Module]:
    """The layers, by name, that make inputs of shape ``given`` into inputs of shape ``wanted``; none if they are equal.

    ``normalisation`` is applied where grey images get their channels, and refused elsewhere: the network's card, which
    says what is done to raw inputs, is the place for it.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if 1 in (len(given), len(wanted)) and math.prod(given) == math.prod(wanted):
        if len(wanted) == 3 and len(given) == 1:
            layers["shape"] = nn.Unflatten(1, wanted)
        elif len(wanted) == 1 and len(given) > 1:
            layers["shape"] = nn.Flatten()
    elif len(given) == len(wanted) == 3 and (given[0] == wanted[0] or 1 in (given[0], wanted[0])):
        if given[1:] != wanted[1:]:
            layers["resize"] = Resize(given[1:], wanted[1:])
        if given[0] == 1 != wanted[0]:
            layers["channels"] = Channels(wanted[0], normalisation)
        elif wanted[0] == 1 != given[0]:
            layers["brightness"] = Brightness(given[0])
    elif given != wanted:
        raise DataMismatch(f"inputs of shape {given} cannot be made into the {wanted} that the network takes")
    if normalisation != NONE and "channels" not in layers:
        raise DataMismatch(f"the normalisation {normalisation} belongs on the card: no grey image is given channels")
    return layers


class Resize(nn.Module):
    """Images of another height and width, bilinear; pixels are areas (their corners are not aligned)."""

    def __init__(self, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        super().__init__()
        self.size = wanted
        self.smooth = any(after < before for before, after in zip(given, wanted, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, c, *size)."""
        return nn.functional.interpolate(x, self.size, mode="bilinear", align_corners=False, antialias=self.smooth)

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return f"{self.size[0]}×{self.size[1]}{', smoothed' if self.smooth else ''}"


class Channels(nn.Module):
    """A grey image in every channel, each normalised in its own way.

    >>> Channels(2, Normalisation((0.0, 0.5), (1.0, 0.5)))(torch.ones(1, 1, 1, 1)).flatten()
    tensor([1., 1.])
    """

    def __init__(self, count: int, normalisation: Normalisation = NONE) -> None:
        super().__init__()
        if len(normalisation.mean) not in (0, 1, count):
            raise DataMismatch(f"normalisation {normalisation} does not fit {count} channels")
        means, deviations = normalisation.mean or (0.0,), normalisation.std or (1.0,)
        self.means, self.deviations = (values * (count // len(values)) for values in (means, deviations))

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1, h, w) → (n, count, h, w)."""
        return torch.cat([(x - m) / s for m, s in zip(self.means, self.deviations, strict=True)], dim=1)

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return f"{len(self.means)}, means={self.means}, deviations={self.deviations}"


class Brightness(nn.Module):
    """One channel from several: of three 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601), otherwise the mean."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.shares = (0.299, 0.587, 0.114) if count == 3 else (1 / count,) * count

    def forward(self, x: Tensor) -> Tensor:
        """(n, count, h, w) → (n, 1, h, w)."""
        first, *others = (x[:, i : i + 1] * share for i, share in enumerate(self.shares))
        for other in others:
            first = first + other
        return first

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return ", ".join(f"{share:.3g}" for share in self.shares)
