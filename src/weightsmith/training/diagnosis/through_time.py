"""The gradient through time of recurrent layers.

A recurrent layer hands the gradient from one time step to the one before it (Bengio, Simard and Frasconi 1994; Pascanu,
Mikolov and Bengio 2013, eq. 5): with the states h_t, the inputs x_t and the loss L,

    ∂L/∂x_t = Σ_{k ≥ t} ∂L/∂h_k · (Π_{t < i ≤ k} ∂h_i/∂h_{i−1}) · ∂h_t/∂x_t

and the product shrinks or grows by a factor per step. The probe measures g_t = ‖∂L/∂x_t‖ over all images: it needs
nothing from inside the layer, and works for any number of layers and for cells, whose t-th call is time step t. The
ratio g_1 / g_T, T the last time step with a gradient, is about 1 if all steps count equally. A bidirectional layer
gets its gradient from both ends: its ratio is min_t g_t / max_t g_t. A network that reads the state of every time step
(a mean over time, a label per step) hands each of them a gradient of its own and does not depend on the product.

>>> layer = nn.RNN(2, 4)
>>> with contextlib.ExitStack() as hooks:
...     watch = TimeWatch(layer, hooks)
...     layer(torch.ones(30, 5, 2))[0][-1].sum().backward()
>>> watch.reading().steps, watch.reading().ratio < 1e-3
(30, True)
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from weightsmith.training.diagnosis.gradients import SHRUNK, ThroughTime

__all__ = ["RECURRENT", "TimeWatch"]

RECURRENT = (nn.RNNBase, nn.RNNCellBase)


class TimeWatch:
    """Listens to the gradient at the inputs of a recurrent layer until ``hooks`` is closed."""

    def __init__(self, layer: nn.Module, hooks: contextlib.ExitStack) -> None:
        self._layer, self._hooks = layer, hooks
        self._norms: list[dict[int, Tensor]] = []  # of each call, by time step
        hooks.callback(layer.register_forward_pre_hook(self._before, with_kwargs=True).remove)

    def reading(self) -> ThroughTime | None:
        """The measurement; None before a backward pass, for a single time step, or if no gradient arrived."""
        if isinstance(self._layer, nn.RNNCellBase):
            norms = [float(call[0]) for call in self._norms if call]
        else:
            whole = max(self._norms, key=len, default={})
            norms = [float(whole[step]) for step in sorted(whole)]
        reached = [step for step, norm in enumerate(norms) if norm > 0]
        if len(norms) < 2 or not reached or not all(map(math.isfinite, norms)):
            return None
        last = norms[reached[-1]]
        if getattr(self._layer, "bidirectional", False):
            return ThroughTime(min(norms) / max(norms), sum(norm >= SHRUNK * max(norms) for norm in norms), len(norms))
        reach = next(
            (back for back, norm in enumerate(reversed(norms[: reached[-1] + 1])) if norm < SHRUNK * last), len(norms)
        )
        return ThroughTime(norms[0] / last, reach, len(norms))

    def _before(self, _layer: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any] | None:
        """Pass the layer the same values as a tensor of its own, whose gradient excludes other uses of the values."""
        given = args[0] if args else named.get("input")
        values = given.data if isinstance(given, PackedSequence) else given
        if not torch.is_grad_enabled() or not isinstance(values, Tensor) or not values.is_floating_point():
            return None
        own = values.view_as(values) if values.requires_grad else values.detach().requires_grad_()
        call: dict[int, Tensor] = {}
        self._norms.append(call)
        sizes = given.batch_sizes if isinstance(given, PackedSequence) else None
        self._hooks.callback(own.register_hook(lambda gradient: self._arrived(call, gradient, sizes)).remove)  # type: ignore[no-untyped-call]
        new = given._replace(data=own) if isinstance(given, PackedSequence) else own
        return ((new, *args[1:]), named) if args else (args, {**named, "input": new})

    def _arrived(self, call: dict[int, Tensor], gradient: Tensor, sizes: Tensor | None) -> None:
        for step, part in enumerate(self._by_step(gradient.detach(), sizes)):
            call[step] = torch.linalg.vector_norm(part, dtype=torch.float64)

    def _by_step(self, gradient: Tensor, sizes: Tensor | None) -> tuple[Tensor, ...]:
        if sizes is not None:
            return torch.split(gradient, sizes.tolist())
        if isinstance(self._layer, nn.RNNCellBase):
            return (gradient,)
        batched_first = getattr(self._layer, "batch_first", False) and gradient.dim() == 3
        return tuple(gradient.unbind(1 if batched_first else 0))
