"""Weights and thresholds as multiples of a power of two, so that every order of sums gives the same spikes.

Sums of such numbers are exact in float32 as long as they stay below 2²⁴ steps. What is left is a membrane that meets
its threshold exactly: one tool fires there, the others do not, and a threshold that is folded into the weights may fall
to either side. The threshold is therefore moved up by half a step, between two values that a membrane can have. With a
hard reset and without leak no spike of ours changes by that. With leak it is part of the rounding. With a soft reset
and without leak it would not help, since the threshold is taken away from the membrane.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import INPUT, Add, Neurons, Node, Pool, Scale, Synapses

__all__ = ["between_steps", "rounded"]

_FINEST = 24
_FEW = 1000  # which mostly tell that a layer is not rounded, without a look at all of it


def rounded(nodes: Iterable[Node], digits: int) -> tuple[Node, ...]:
    """Weights, biases and thresholds rounded to multiples of 2^−digits; a layer that vanishes is named."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Synapses):
            weight = _round(node.weight, digits)
            if not bool(weight.any()):
                raise UsageError(f"{node.name}: all weights are 0 when rounded to 2^-{digits}; ask for more digits")
            bias = None if node.bias is None else _round(node.bias, digits)
            result.append(dataclasses.replace(node, weight=weight, bias=bias))
        elif isinstance(node, Neurons):
            threshold = _round(node.threshold, digits)
            if not bool((threshold > 0).all()):
                raise UsageError(f"{node.name}: its threshold is 0 when rounded to 2^-{digits}; ask for more digits")
            result.append(dataclasses.replace(node, threshold=threshold))
        else:
            result.append(node)
    return tuple(result)


def between_steps(nodes: Sequence[Node], *, spikes_enter: bool) -> tuple[Node, ...]:
    """Thresholds moved up by half of the step in which the membranes of their population move, where there is one."""
    given = {node.name: node for node in nodes}
    result: list[Node] = []
    for node in nodes:
        digits = _digits(node.source, given, spikes_enter) if isinstance(node, Neurons) else None
        if isinstance(node, Neurons) and digits is not None:
            steps = torch.floor(node.threshold * 2.0**digits)
            result.append(dataclasses.replace(node, threshold=(steps + 0.5) / 2.0**digits))
        else:
            result.append(node)
    return tuple(result)


def _round(values: Tensor, digits: int) -> Tensor:
    return torch.round(values * 2.0**digits) / 2.0**digits


def _digits(name: str, given: dict[str, Node], spikes_enter: bool) -> int | None:
    """Binary digits after the point that everything ``name`` can give has at most; None if there is no such number."""
    node = given.get(name)
    match node:
        case None:
            return 0 if name != INPUT or spikes_enter else None
        case Neurons():
            return 0
        case Add():
            return _most(_digits(source, given, spikes_enter) for source in node.sources)
        case Scale():
            return _sum(_digits(node.source, given, spikes_enter), _digits_of(node.factor))
        case Pool() if node.average:
            share = torch.tensor([1 / (node.kernel[0] * node.kernel[1])], dtype=torch.float64)
            return _sum(_digits(node.source, given, spikes_enter), _digits_of(share))
        case Synapses():
            weights = _sum(_digits(node.source, given, spikes_enter), _digits_of(node.weight))
            return _most([weights, 0 if node.bias is None else _digits_of(node.bias)])
    return _digits(node.sources[0], given, spikes_enter)


def _digits_of(values: Tensor) -> int | None:
    exact = values.double()
    few = exact.flatten()[:_FEW]
    for digits in range(_FINEST + 1):
        if _is_whole(few * 2.0**digits) and _is_whole(exact * 2.0**digits):
            return digits
    return None


def _is_whole(values: Tensor) -> bool:
    return bool((values == values.round()).all())


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _most(values: Iterable[int | None]) -> int | None:
    found = list(values)
    return None if None in found else max(value for value in found if value is not None)
