"""The share of sigmoids and tanhs that are flat where their inputs lie.

The derivatives a·(1 − a) and 1 − a² of an activation a are a factor of every gradient that passes (seed 002, eqs. 8 and
10). An activation counts as saturated where its derivative is below a twentieth of its largest value: |n| > 4.4 for a
sigmoid, 2.2 for a tanh.

>>> flat_share("tanh", torch.tanh(torch.tensor([0.0, 2.0, 3.0, -9.0])))
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["SaturationWatch", "flat_share"]

_FLAT = 0.05  # of the largest derivative
_KINDS = {"sigmoid": "sigmoid", "sigmoid_": "sigmoid", "tanh": "tanh", "tanh_": "tanh"}


def flat_share(kind: str, answers: Tensor) -> float:
    """The share of the ``answers`` of a sigmoid or tanh where it is flat."""
    a = answers.detach()
    slope = 4 * a * (1 - a) if kind == "sigmoid" else 1 - a.square()
    return float((slope < _FLAT).double().mean())


class SaturationWatch(TorchFunctionMode):
    """Sees every sigmoid and tanh, of modules and plain functions, and notes its share for the layer called last."""

    def __init__(self, calls: Sequence[str]) -> None:
        super().__init__()
        self._calls = calls
        self._shares: dict[str, list[float]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call ``func`` unchanged, and measure its result."""
        answer = func(*args, **(kwargs or {}))
        kind = _KINDS.get(getattr(func, "__name__", ""))
        if kind and self._calls and isinstance(answer, Tensor) and answer.numel() and torch.is_grad_enabled():
            self._shares.setdefault(self._calls[-1], []).append(flat_share(kind, answer))
        return answer

    def share(self, layer: str) -> float | None:
        """The mean share behind a layer; None if there is no sigmoid or tanh."""
        shares = self._shares.get(layer)
        return sum(shares) / len(shares) if shares else None
