"""The nodes of a spiking network: populations of neurons and the operations between them.

Nodes are in topological order; each names the nodes it reads, ``INPUT`` being the network's input.
Neurons give spikes of size 1: their amplitude is part of the weights that follow. The outputs of the last node are
summed over the steps, and the largest sum is the answer.

Everything between two populations is linear, except a :class:`Gate`, the spiking form of max pooling.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from torch import Tensor

from weightsmith.core.errors import DataMismatch, UsageError

__all__ = [
    "INPUT",
    "Add",
    "Flatten",
    "Gate",
    "Neurons",
    "Node",
    "Pool",
    "Scale",
    "Shape",
    "Synapses",
    "is_finite",
    "shapes_of",
]

INPUT = "input"
Shape = tuple[int, ...]
Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Synapses:
    """Weighted connections: (out, in) between features, (out, in/groups, height, width) between images.

    ``bias`` is a current that flows at every step.
    """

    name: str
    source: str
    weight: Tensor
    bias: Tensor | None = None
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def sources(self) -> tuple[str, ...]:
        """The node it reads."""
        return (self.source,)

    @property
    def dense(self) -> bool:
        """Whether it connects features, not images."""
        return self.weight.dim() == 2


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """The average (or the sum) over windows; zeros of the padding count."""

    name: str
    source: str
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)
    average: bool = True

    @property
    def sources(self) -> tuple[str, ...]:
        """The node it reads."""
        return (self.source,)


@dataclasses.dataclass(frozen=True, eq=False)
class Gate:
    """Max pooling for spikes: each window passes on the unit that has fired most so far (the first of equals).

    The count includes the present step (Rueckauer et al., "Conversion of continuous-valued deep networks to efficient
    event-driven networks", Front. Neurosci. 2017, section 2.2.3). For signed spikes, and for values that are
    not spikes, the change of the largest sum passes, with S the sums so far: max S(t) − max S(t − 1). The total passed
    on is then exactly the largest sum of each window.
    """

    name: str
    source: str
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)

    @property
    def sources(self) -> tuple[str, ...]:
        """The node it reads."""
        return (self.source,)


@dataclasses.dataclass(frozen=True, eq=False)
class Flatten:
    """Images as features, channel by channel."""

    name: str
    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The node it reads."""
        return (self.source,)


@dataclasses.dataclass(frozen=True, eq=False)
class Scale:
    """Every channel times its factor."""

    name: str
    source: str
    factor: Tensor

    @property
    def sources(self) -> tuple[str, ...]:
        """The node it reads."""
        return (self.source,)


@dataclasses.dataclass(frozen=True, eq=False)
class Add:
    """The sum of several nodes of one shape."""

    name: str
    sources: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Neurons:
    """A population: one neuron for every value of its source.

    ``threshold`` has one value per channel, or one per unit in the shape of the source; ``leak``, if given,
    likewise; it replaces the network's leak. Membranes start at ``start`` thresholds. ``amplitude`` (per channel) is
    the value of one spike in units of the network that was converted, if known: rate · amplitude is then comparable
    with an activation. ``layer`` names the layer of that network whose values are thresholded here. ``ceiling`` is the
    value at which that network clips them (6 for ReLU6); here the limit of one spike per step has the same effect.
    """

    name: str
    source: str
    threshold: Tensor
    start: float = 0.0
    leak: Tensor | None = None
    amplitude: Tensor | None = None
    layer: str = ""
    ceiling: float = math.inf

    @property
    def sources(self) -> tuple[str, ...]:
        """The node it reads."""
        return (self.source,)

    def rectified(self, values: Tensor) -> Tensor:
        """The activation of the network that was converted: a ReLU, clipped at the ceiling."""
        return values.relu() if math.isinf(self.ceiling) else values.clamp(0, self.ceiling)


Node = Synapses | Pool | Gate | Flatten | Scale | Add | Neurons


def shapes_of(nodes: Iterable[Node], input_shape: Shape) -> dict[str, Shape]:
    """The output shape of each node for one image: (channels, height, width) or (features,).

    Repeated names, nodes that read a later one, and sizes that do not fit are refused.
    """
    if len(input_shape) not in (1, 3) or min(input_shape) < 1:
        raise UsageError(f"an input has one or three dimensions, not the shape {tuple(input_shape)}")
    shapes: dict[str, Shape] = {INPUT: tuple(input_shape)}
    for node in nodes:
        if node.name in shapes:
            raise UsageError(f"the node {node.name!r} occurs twice in the network")
        missing = next((name for name in node.sources if name not in shapes), None)
        if missing is not None:
            raise UsageError(f"the node {node.name!r} reads {missing!r}, which does not come before it")
        shapes[node.name] = _shape(node, shapes)
    return shapes


def _shape(node: Node, shapes: Mapping[str, Shape]) -> Shape:
    before = shapes[node.sources[0]]
    match node:
        case Synapses():
            return _after_synapses(node, before)
        case Pool() | Gate():
            _check(len(before) == 3, node, before)
            space = _windows(before[1:], node.kernel, node.stride, node.padding, (1, 1))
            _check(min(space) >= 1, node, before)
            return (before[0], *space)
        case Flatten():
            return (math.prod(before),)
        case Scale():
            _check(node.factor.shape == (before[0],), node, before)
        case Add():
            for name in node.sources:
                _check(shapes[name] == before, node, shapes[name])
        case Neurons():
            for values in (node.threshold, node.leak):
                _check(values is None or tuple(values.shape) in ((before[0],), before), node, before)
            _check(node.amplitude is None or tuple(node.amplitude.shape) == (before[0],), node, before)
    return before


def _after_synapses(node: Synapses, before: Shape) -> Shape:
    weight = node.weight.shape
    _check(node.bias is None or node.bias.shape == weight[:1], node, before)
    if node.dense:
        _check(before == (weight[1],), node, before)
        return (int(weight[0]),)
    _check(len(weight) == 4 and len(before) == 3 and before[0] == weight[1] * node.groups, node, before)
    _check(weight[0] % node.groups == 0, node, before)
    space = _windows(before[1:], (int(weight[2]), int(weight[3])), node.stride, node.padding, node.dilation)
    _check(min(space) >= 1, node, before)
    return (int(weight[0]), *space)


def _windows(size: Shape, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Pair:
    rows, columns = (
        (size[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1
        for axis in (0, 1)
    )
    return rows, columns


def _check(fits: bool, node: Node, shape: Shape) -> None:
    if not fits:
        raise DataMismatch(f"{node.name} ({type(node).__name__}) cannot read values of shape {shape}")


def is_finite(node: Node) -> bool:
    """Whether all numbers of a node are finite."""
    tensors = (getattr(node, field.name) for field in dataclasses.fields(node))
    extremes = (value.aminmax() for value in tensors if isinstance(value, Tensor) and value.numel())  # makes no copy
    return all(math.isfinite(low) and math.isfinite(high) for low, high in extremes)
