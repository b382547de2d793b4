"""Encodings of images as spikes or currents.

``poisson``: at every step a pixel x fires with probability scale·|x|, and the spike carries the sign of x: spikes
−1, 0, +1 (seed 000 and its code base, which calls these Bernoulli trains Poisson). ``constant``: the value itself flows
in as a current at every step; with a ``step`` the value x is given in 8 bits, as the whole number

    q = clamp(round(x / step), −127, 127)

The draw for a pixel depends on the seed, the number of the image, the step and the pixel, and on nothing else: any two
runs of any networks on the same images see the same spikes, however they are cut into batches. It is a counter-based
generator, the output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014) on a key per image plus a counter:

    key = mix(seed' + γ·(image + 1))
    u = mix(key + γ·(step·pixels + pixel + 1)) >> 40,        a spike where u < 2²⁴·scale·|x|
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch, OptionError
from weightsmith.core.options import Option, param
from weightsmith.core.seeds import subseed

__all__ = ["WHOLE", "Constant", "ConstantInput", "Encode", "Poisson", "draws", "image_keys"]

GOLDEN = 0x9E3779B97F4A7C15  # γ: 2⁶⁴ divided by the golden ratio, odd
_MULTIPLIERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LEVELS = 1 << 24
WHOLE = 127  # the largest input in 8 bits


class Encode(Option, family="encode"):
    """The family of encodings: ``poisson`` and ``constant``."""

    def given(self, x: Tensor) -> Tensor:
        """The normalised inputs ``x`` in the unit in which they flow in, or are drawn from."""
        return x

    def check_inputs(self, x: Tensor) -> None:
        """Refuse inputs (normalised) that cannot be encoded."""
        broken = ~torch.isfinite(x)
        if bool(broken.any()):
            image = int(broken.flatten(1).any(dim=1).nonzero()[0])
            raise DataMismatch(f"image {image} holds NaN or infinity")


class Poisson(Encode, name="poisson"):
    """Signed random spikes with probability scale·|x| at every step."""

    scale: float = param(default=1.0, gt=0, le=1, doc="factor on |x|")

    def check_inputs(self, x: Tensor) -> None:
        """Refuse inputs whose spike probability would exceed 1."""
        super().check_inputs(x)
        largest = float(x.abs().max()) if x.numel() else 0.0
        if largest * self.scale > 1:
            raise DataMismatch(
                f"poisson spikes need inputs between −1 and 1, these reach {largest:.4g}; "
                f"train with normalise=0.5/0.5, give a scale (poisson:{0.99 / largest:.3g}), or encode=constant"
            )


class ConstantInput(Encode, name="constant"):
    """The value of the pixel as a current, the same at every step.

    With a ``step`` it is a whole number of steps in 8 bits, so that the first layer too computes with integers.

    >>> ConstantInput(step=0.5).given(torch.tensor([0.3, -1.3, 99.0]))
    tensor([  1.,  -3., 127.])
    """

    step: float | None = param(
        default=None, gt=0, doc="inputs are rounded to 8 bits, multiples of this; none: they are not"
    )

    def check(self) -> None:
        """A step must be finite."""
        if self.step is not None and not math.isfinite(self.step):
            raise OptionError(f"constant: step must be a finite number, not {self.step}")

    def given(self, x: Tensor) -> Tensor:
        """The inputs as they are or, with a step, in 8 bits."""
        return x if self.step is None else torch.round(x / self.step).clamp(-WHOLE, WHOLE)


Constant = ConstantInput  # short name within this package, where no learning-rate schedule has it


def image_keys(seed: int, images: Tensor) -> Tensor:
    """One key (int64) for each image number, from which its draws are made."""
    return _mix(_signed(subseed(seed, "spikes")) + (images + 1) * _signed(GOLDEN))


def draws(keys: Tensor, step: int, pixels: int) -> Tensor:
    """The draws (images, pixels) of one step: whole numbers below 2²⁴, as int64 on the device of the keys."""
    counters = torch.arange(1, pixels + 1, device=keys.device) + step * pixels
    return (_mix(keys[:, None] + counters * _signed(GOLDEN)) >> 40) & (LEVELS - 1)


def _mix(values: Tensor) -> Tensor:
    """The finaliser of SplitMix64; int64 arithmetic wraps as uint64 does, but right shifts must not copy the sign."""
    for shift, multiplier in _MULTIPLIERS:
        values = (values ^ ((values >> shift) & ((1 << (64 - shift)) - 1))) * _signed(multiplier)
    return values ^ ((values >> 31) & ((1 << 33) - 1))


def _signed(value: int) -> int:
    """The int64 with the bits of this uint64."""
    return value - (1 << 64) if value >= 1 << 63 else value
