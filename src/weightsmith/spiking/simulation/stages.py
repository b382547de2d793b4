"""How many images run together in each part of a network, so that the values of a chunk fit in a budget of memory.

The first layers of a convolutional network have the largest maps and few weights, the last ones small maps and many
weights. A network is cut where only one node's values are held, and few: the nodes before the cut, the *front*, run for
a few images at a time, all others for the whole block, so that their weights are read less often.
"""

from __future__ import annotations

import dataclasses
import math

from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded

__all__ = ["Stages", "even", "stages_of", "step_bytes"]

_FLOAT = 4  # bytes
_GAIN = 2  # times fewer weights must be read with a cut


@dataclasses.dataclass(frozen=True)
class Stages:
    """The first ``front`` nodes run for ``several`` images at a time (none if it is 0), the others for ``block``."""

    block: int
    front: int
    several: int


def stages_of(network: SpikingNetwork, images: int, steps: int, budget: int) -> Stages:
    """The cut with which fewest weights are read for an image, if values of so many steps fit in ``budget`` bytes.

    A cut leaves half of the budget to the front and half to the others, so that the front runs for fewer images than
    it would without; hence the cut must save much. Membranes of the block may take as much again. Blocks are of one
    size, as far as that goes: 32 images in four of 8, not in three of 10 and one of 2.
    """
    during, alone = _held(network)
    weights = [node.weight.numel() if isinstance(node, Synapses) else 0 for node in network.nodes]
    membranes = _FLOAT * sum(math.prod(network.shapes[node.name]) for node in network.populations)

    def most(share: int, size: int) -> int:
        return max(1, min(images, share // size))

    together = most(budget, steps * max(during))
    found, fewest = Stages(together, 0, together), sum(weights) / together / _GAIN
    for cut in range(1, len(weights)):
        block = min(most(budget // 2, steps * max(during[cut:])), most(budget, membranes))
        several = most(budget // 2, steps * max(during[:cut]))
        reads = sum(weights[:cut]) / several + sum(weights[cut:]) / block
        if alone[cut - 1] and several < block and reads < fewest:
            found, fewest = Stages(block, cut, several), reads
    return dataclasses.replace(found, block=even(images, found.block))


def even(number: int, most: int) -> int:
    """The size of parts of ``number``, as few as with ``most`` in each, and of one size as far as that goes.

    >>> even(32, 10), even(75, 40), even(10, 10), even(3, 40)
    (8, 38, 10, 3)
    """
    return -(-number // -(-number // most))


def step_bytes(network: SpikingNetwork) -> int:
    """The most bytes that the values of one image and step take at a time."""
    return max(_held(network)[0])


def _held(network: SpikingNetwork) -> tuple[list[int], list[bool]]:
    """The bytes held while each node is computed, and whether only its own values are held after it."""
    put_off = {node.name for node in network.nodes if _is_put_off(node, network)}
    reads: dict[str, set[str]] = {}  # values that are stored, from which each node is computed
    last_use: dict[str, int] = {}
    for number, node in enumerate(network.nodes):
        reads[node.name] = {read for name in node.sources for read in (reads[name] if name in put_off else {name})}
        if node.name not in put_off:
            last_use |= dict.fromkeys(reads[node.name], number)
    size, held = {INPUT: _FLOAT}, {INPUT: _FLOAT * math.prod(network.input_shape)}
    during, alone = list[int](), list[bool]()
    for number, node in enumerate(network.nodes):
        if node.name not in put_off:
            size[node.name] = 1 if isinstance(node, Neurons) else _FLOAT
            if isinstance(node, Pool | Gate | Flatten | Scale):
                size[node.name] = size[node.source]
            held[node.name] = size[node.name] * math.prod(network.shapes[node.name])
        during.append(sum(held.values()))
        held = {name: count for name, count in held.items() if last_use.get(name, math.inf) > number}
        alone.append(held.keys() == {node.name})
    return during, alone


def _is_put_off(node: Node, network: SpikingNetwork) -> bool:
    """Whether values take no memory of their own: they are others in another shape, or computed as neurons fire.

    The latter are currents that only neurons read, and sums of them with others. Where such a layer turns out to run
    dense they are stored, and more memory is taken.
    """
    readers = [other for other in network.nodes if node.name in other.sources]
    if isinstance(node, Flatten):
        return all(isinstance(reader, Synapses) for reader in readers)
    if len(readers) != 1 or not isinstance(node, Synapses | Add):
        return False
    [reader] = readers
    if isinstance(network.neuron, Graded):
        return isinstance(node, Synapses) and isinstance(reader, Neurons)
    convolution = isinstance(node, Synapses) and not node.dense
    return isinstance(reader, Neurons) or (convolution and isinstance(reader, Add) and reader.sources[0] == node.name)
