"""The last check of every spiking network that comes from a file: nothing in it may be impossible or hostile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.networks.card import Card
from weightsmith.networks.readers.ranges import shown
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import Gate, Neurons, Node, Pool, Shape, Synapses, shapes_of
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF

__all__ = ["assembled"]

_WIDEST = 1 << 20  # of a window, its step or its margin
_MOST_UNITS = 1 << 30  # of one image: membranes are made for each


def assembled(
    path: Path,
    nodes: Sequence[Node],
    input_shape: Shape,
    *,
    neuron: IF | LIF,
    encode: Poisson | Constant,
    card: Card,
) -> SpikingNetwork:
    """The network of these parts, or a :class:`FileRefused` that says what is wrong with the file ``path``."""
    for node in nodes:
        _check_ranges(path, node)
    if max(input_shape, default=0) > _MOST_UNITS:
        raise FileRefused(path, "describes an input larger than any image")
    try:
        shapes = shapes_of(nodes, input_shape)
        _check_sizes(path, shapes)
        return SpikingNetwork(tuple(nodes), input_shape, neuron, encode, card)
    except (UsageError, DataMismatch) as error:
        raise FileRefused(path, f"is no spiking network that can be run: {error}") from error


def _check_ranges(path: Path, node: Node) -> None:
    if not node.name.isprintable():
        raise FileRefused(path, f"a node is called {shown(node.name)}: control characters in a name")
    whole: tuple[int, ...] = ()
    margins: tuple[int, ...] = ()
    match node:
        case Synapses():
            whole, margins = (*node.stride, *node.dilation, node.groups), node.padding
        case Pool() | Gate():
            whole, margins = (*node.kernel, *node.stride), node.padding
        case Neurons():
            if not math.isfinite(node.start):
                raise FileRefused(path, f"{shown(node.name)} starts at {node.start} thresholds")
            if node.leak is not None and not bool(((node.leak > 0) & (node.leak <= 1)).all()):
                raise FileRefused(path, f"{shown(node.name)} has a leak that is not between 0 and 1")
    if any(not 1 <= value <= _WIDEST for value in whole) or any(not 0 <= value <= _WIDEST for value in margins):
        raise FileRefused(path, f"{shown(node.name)} has a window, step or margin that no network has")


def _check_sizes(path: Path, shapes: dict[str, Shape]) -> None:
    for name, shape in shapes.items():
        if min(shape) < 1:
            raise FileRefused(path, f"{shown(name)} gives values of shape {shape}, which are none")
    units = sum(math.prod(shape) for shape in shapes.values())
    if units > _MOST_UNITS:
        raise FileRefused(path, f"describes {units:,} values for one image, more than can be computed")
