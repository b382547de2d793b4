"""Lowering to NIR, first pass: one threshold per population, and no :class:`Scale` nodes.

A neuron whose weights, bias and threshold are all multiplied by one factor fires the same spikes. So a population with
thresholds θ_c gets θ = max θ_c for all, and the weights and bias that lead to channel c are multiplied by θ/θ_c. Spike
amplitudes are in the weights that follow, and do not change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch
from torch import Tensor

from weightsmith.spiking.graph import INPUT, Add, Neurons, Node, Scale, Shape, Synapses, shapes_of

__all__ = ["diagonal", "free_name", "with_one_threshold"]


def with_one_threshold(nodes: Iterable[Node], input_shape: Shape) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Nodes in float64 that fire the same spikes, and a description of what was folded."""
    draft = _Draft([_in_float64(node) for node in nodes], input_shape)
    for node in tuple(draft.nodes):
        if isinstance(node, Scale):
            draft.fold_scale(node)
    for node in tuple(draft.nodes):
        if isinstance(node, Neurons):
            draft.fold_thresholds(node)
    return tuple(draft.nodes), tuple(draft.folded)


def diagonal(name: str, source: str, factor: Tensor, kernel: Tensor | None) -> Synapses:
    """Synapses that multiply every channel by its factor; for images, with this ``kernel`` in each channel."""
    weight = torch.diag(factor.double())
    if kernel is not None:
        weight = weight[:, :, None, None] * kernel.double()
    return Synapses(name, source, weight)


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """``wanted``, with a number appended if the name is taken."""
    known = {INPUT, *taken}
    return next(name for name in _numbered(wanted, len(known)) if name not in known)


def _numbered(wanted: str, count: int) -> Iterable[str]:
    yield wanted
    for number in range(2, count + 3):
        yield f"{wanted}_{number}"


def _in_float64(node: Node) -> Node:
    tensors = {
        field.name: getattr(node, field.name).detach().cpu().double()
        for field in dataclasses.fields(node)
        if isinstance(getattr(node, field.name), Tensor)
    }
    return dataclasses.replace(node, **tensors)


class _Draft:
    """A list of nodes under change."""

    def __init__(self, nodes: list[Node], input_shape: Shape) -> None:
        self.nodes, self._input_shape = nodes, input_shape
        self.folded: list[str] = []

    def fold_scale(self, node: Scale) -> None:
        """Remove a :class:`Scale`: its readers read its source times the factor."""
        name = self._times(node.source, node.factor, node.name)
        last = self.nodes[-1].name == node.name
        self.nodes = [_reading(other, node.name, name) for other in self.nodes if other.name != node.name]
        if last:  # the output node stays at the end
            self.nodes.sort(key=lambda other: other.name == name)
        self.folded.append(f"scale {node.name} into {name}")

    def fold_thresholds(self, node: Neurons) -> None:
        """Give all channels of a population the largest of their thresholds."""
        largest = node.threshold.max()
        if bool((node.threshold == largest).all()):
            return
        name = self._times(node.source, largest / node.threshold, node.name)
        same = torch.full_like(node.threshold, float(largest))
        self._put(dataclasses.replace(node, source=name, threshold=same))
        self.folded.append(f"thresholds of {node.name} into {name}")

    def _times(self, name: str, factor: Tensor, reader: str) -> str:
        """A node, read by ``reader`` only, that gives ``factor`` times the output of ``name``."""
        node = next((node for node in self.nodes if node.name == name), None)
        alone = sum(name in other.sources for other in self.nodes) == 1
        if isinstance(node, Synapses) and alone:
            weight = node.weight * factor.reshape(-1, *[1] * (node.weight.dim() - 1))
            self._put(dataclasses.replace(node, weight=weight, bias=None if node.bias is None else node.bias * factor))
            return name
        if isinstance(node, Add) and alone:
            self._put(Add(name, tuple(self._times(source, factor, name) for source in node.sources)))
            return name
        image = len(shapes_of(self.nodes, self._input_shape)[name]) == 3
        free = free_name(f"{name}_scaled", [node.name for node in self.nodes])
        made = diagonal(free, name, factor, torch.ones(1, 1) if image else None)
        position = next(index for index, other in enumerate(self.nodes) if other.name == reader)
        self.nodes.insert(position, made)
        return free

    def _put(self, node: Node) -> None:
        self.nodes = [node if other.name == node.name else other for other in self.nodes]


def _reading(node: Node, old: str, new: str) -> Node:
    """``node``, reading ``new`` where it read ``old``."""
    if old not in node.sources:
        return node
    if isinstance(node, Add):
        return Add(node.name, tuple(new if source == old else source for source in node.sources))
    return dataclasses.replace(node, source=new)
