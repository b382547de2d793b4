"""Three kinds of dropout, with an optional generator so that training never reads global random state.

- ``inverted``: kept values are divided by the keep probability in training; nothing happens at test time.
- ``after``: kept values are unchanged in training, and *all* values are multiplied by the keep probability at test
  time, which is the slides' "weights times the keep probability after training" (seed 002).
- ``alpha``: dropped values become SELU's negative limit and the result is rescaled to keep mean 0 and variance 1
  (Klambauer et al. 2017); used with SELU.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from weightsmith.core.errors import OptionError

__all__ = ["Dropout", "DropoutKind", "reseed_dropout"]

DropoutKind = Literal["inverted", "after", "alpha"]

# −λα of SELU: the value it tends to for z → −∞.
_SELU_LIMIT = -1.0507009873554805 * 1.6732632423543772


class Dropout(nn.Module):
    """Drop each value with probability ``rate`` in training.

    >>> layer = Dropout(0.5, "after").eval()
    >>> layer(torch.ones(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, rate: float, kind: DropoutKind = "inverted") -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise OptionError(f"dropout rate must be ≥ 0 and < 1, not {rate!r}")
        if kind not in ("inverted", "after", "alpha"):
            raise OptionError(f"dropout kind must be inverted, after or alpha, not {kind!r}")
        self.rate, self.kind = float(rate), kind
        self.generator: torch.Generator | None = None

    def forward(self, values: Tensor) -> Tensor:
        """Drop in training; at test time only ``after`` changes the values."""
        keep = 1 - self.rate
        if not self.training:
            return values * keep if self.kind == "after" and self.rate else values
        if not self.rate:
            return values
        kept = torch.empty_like(values).bernoulli_(keep, generator=self.generator)
        if self.kind == "inverted":
            return values * kept / keep
        if self.kind == "after":
            return values * kept
        # Affine correction a·x + b that restores variance 1 and mean 0 (Klambauer et al. 2017, section 3).
        scale = 1 / math.sqrt(keep + _SELU_LIMIT**2 * keep * self.rate)
        shift = -scale * self.rate * _SELU_LIMIT
        return scale * (values * kept + _SELU_LIMIT * (1 - kept)) + shift

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return f"rate={self.rate:g}, kind={self.kind}"


def reseed_dropout(network: nn.Module, generator: torch.Generator | None) -> None:
    """Make every :class:`Dropout` of ``network`` draw from ``generator`` (None: torch's global one)."""
    for module in network.modules():
        if isinstance(module, Dropout):
            module.generator = generator
