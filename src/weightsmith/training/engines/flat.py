"""The trainable parameters of a network in one vector, their gradients in another.

Clipping, the optimiser, the sum over processes and the copy of the best weights are then one operation each instead of
one per parameter, which matters in a small network. Every parameter becomes a view of the vector, in its own memory
layout (channels-last filters stay so) and starting on a cache line; the gaps in between are zero and stay zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UsageError

__all__ = ["Flat"]

_LINE = 64  # bytes of a cache line


class Flat:
    """Takes over the trainable parameters of ``network`` until :meth:`release`.

    >>> network = nn.Linear(2, 3)
    >>> flat = Flat(network)
    >>> flat.names, len(flat.values), flat.parameter.numel()
    (('weight', 'bias'), 2, 32)
    >>> _ = flat.parameter.data.fill_(7)
    >>> network.bias
    Parameter containing:
    tensor([7., 7., 7.], requires_grad=True)
    >>> flat.release()
    """

    def __init__(self, network: nn.Module) -> None:
        trainable = [(name, value) for name, value in network.named_parameters() if value.requires_grad]
        if not trainable:
            raise UsageError("the network has no trainable parameter: all are frozen, or there are none")
        kinds = {(value.dtype, value.device) for _, value in trainable}
        if len(kinds) > 1:
            found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            raise UsageError(f"the parameters have several types or devices ({found}); convert them with network.to(…)")
        dtype, device = kinds.pop()
        step = _LINE // trainable[0][1].element_size()
        sizes = [-(-value.numel() // step) * step for _, value in trainable]
        self.names = tuple(name for name, _ in trainable)
        self.values: tuple[nn.Parameter, ...] = tuple(value for _, value in trainable)
        self.parameter = nn.Parameter(torch.zeros(sum(sizes), dtype=dtype, device=device))
        self.gradient = torch.zeros_like(self.parameter.data)
        self.parameter.grad = self.gradient
        self._sizes, start = tuple(sizes), 0
        for value, size in zip(self.values, sizes, strict=True):
            view = _view(self.parameter.data, start, value)
            view.copy_(value.data)
            value.data, value.grad = view, _view(self.gradient, start, value)
            start += size
        self._addresses = tuple(value.data_ptr() for value in self.values)
        self.gradients: tuple[Tensor, ...] = tuple(value.grad for value in self.values if value.grad is not None)

    def check(self) -> None:
        """Refuse a network that has replaced the memory of a parameter: updates of the vector would not reach it."""
        for name, value, address in zip(self.names, self.values, self._addresses, strict=True):
            if value.data_ptr() != address:
                raise UsageError(
                    f"{name}: the network replaces the memory of its parameter while it trains (p.data = …); change it "
                    "in place instead (p.data.copy_(…))"
                )

    def spread(self, numbers: Sequence[float]) -> Tensor:
        """A vector like that of the parameters, in which each parameter's entries hold its number."""
        parts = [self.gradient.new_full((size,), number) for number, size in zip(numbers, self._sizes, strict=True)]
        return torch.cat(parts)

    def release(self) -> None:
        """Give every parameter its own contiguous memory again, and no gradient."""
        for value in self.values:
            value.data, value.grad = value.data.clone(memory_format=torch.contiguous_format), None


def _view(vector: Tensor, start: int, like: Tensor) -> Tensor:
    """The part of ``vector`` from ``start`` on with the shape and memory layout of ``like``."""
    dense = like.is_contiguous() or (like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last))
    layout = like.stride() if dense else torch.empty(like.shape, device="meta").stride()
    return vector.as_strided(like.shape, layout, start)
