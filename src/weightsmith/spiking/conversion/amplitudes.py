"""Fold spike amplitudes into the weights that read the spikes.

Neurons give spikes of size 1. If a spike of channel c represents a value a_c (its threshold, if rates are to equal
activations), everything that reads it must see a_c·spike:

    synapses     W[:, c] ← a_c · W[:, c]            (with groups, the columns of c's own group)
    scales       factor_c ← a_c · factor_c
    pools, gates and flattening pass the amplitude on to their readers;
    sums, neurons and the output read raw values, so that a scale is put before them
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UnknownName
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Shape, Synapses
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["with_amplitudes"]


def with_amplitudes(network: SpikingNetwork, amplitudes: Mapping[str, Tensor]) -> SpikingNetwork:
    """The network in which a spike of population p, channel c, is worth ``amplitudes[p][c]``.

    ``INPUT`` may be named too, for inputs whose encoding scales them down. Existing amplitudes of a population are
    multiplied. New scales are named after the node they scale: ``name*scale``.
    """
    _check(network, amplitudes)
    worth = {name: values for name, values in amplitudes.items() if bool((values != 1).any())}
    carried = {INPUT: worth[INPUT]} if INPUT in worth else {}
    folding = _Folding(network.shapes, carried)
    for node in network.nodes:
        if isinstance(node, Neurons) and node.name in amplitudes:
            before = 1 if node.amplitude is None else node.amplitude
            folding.take(dataclasses.replace(node, amplitude=amplitudes[node.name] * before), worth.get(node.name))
        else:
            folding.take(node, None)
    folding.settle(network.nodes[-1].name)
    return dataclasses.replace(network, nodes=tuple(folding.nodes))


class _Folding:
    """The new nodes so far, and the amplitudes that are still to be folded."""

    def __init__(self, shapes: Mapping[str, Shape], carried: Mapping[str, Tensor]) -> None:
        self.nodes: list[Node] = []
        self._shapes, self._carried = shapes, dict(carried)

    def take(self, node: Node, worth: Tensor | None) -> None:
        """Add a node that reads earlier ones; ``worth`` is the amplitude of its own spikes."""
        amplitude = self._carried.get(node.sources[0])
        match node:
            case Add():
                node = dataclasses.replace(node, sources=tuple(map(self.settle, node.sources)))
            case Neurons():
                node = dataclasses.replace(node, source=self.settle(node.source))
                if worth is not None:
                    self._carried[node.name] = worth
            case Synapses() if amplitude is not None:
                node = dataclasses.replace(node, weight=_columns(node, amplitude))
            case Scale() if amplitude is not None:
                node = dataclasses.replace(node, factor=_product(node.factor, amplitude))
            case Flatten() if amplitude is not None:
                positions = math.prod(self._shapes[node.source][1:])
                self._carried[node.name] = amplitude.repeat_interleave(positions)
            case Pool() | Gate() if amplitude is not None:
                self._carried[node.name] = amplitude
        self.nodes.append(node)

    def settle(self, name: str) -> str:
        """The name of the node that gives the values of ``name`` with all amplitudes applied."""
        amplitude = self._carried.get(name)
        if amplitude is None:
            return name
        scaled = f"{name}*scale"
        if all(node.name != scaled for node in self.nodes):
            self.nodes.append(Scale(scaled, name, amplitude))
        return scaled


def _columns(node: Synapses, amplitude: Tensor) -> Tensor:
    """The weights with the column of every input channel times its amplitude."""
    if node.dense:
        return _product(node.weight, amplitude)
    # Output channels come group by group, and those of one group read the same input channels.
    each = amplitude.reshape(node.groups, -1).repeat_interleave(len(node.weight) // node.groups, dim=0)
    return _product(node.weight, each[..., None, None])


def _product(values: Tensor, amplitude: Tensor) -> Tensor:
    return (values.double() * amplitude.double()).to(values.dtype if values.is_floating_point() else torch.float32)


def _check(network: SpikingNetwork, amplitudes: Mapping[str, Tensor]) -> None:
    names = [node.name for node in network.populations]
    for name, values in amplitudes.items():
        if name != INPUT and name not in names:
            raise UnknownName("population", name, names)
        channels = network.shapes[name][0]
        if tuple(values.shape) != (channels,) or not bool((values.isfinite() & (values > 0)).all()):
            raise DataMismatch(f"{name}: amplitudes must be {channels} positive numbers, one per channel")
