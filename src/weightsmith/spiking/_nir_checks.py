"""What NIR, as the importers read it, has no form for: refused by name, with the way out."""

from __future__ import annotations

import dataclasses

from weightsmith.core.errors import UsageError
from weightsmith.spiking.graph import Add, Gate, Neurons, Node
from weightsmith.spiking.network import SpikingNetwork

__all__ = ["leading", "leaks_of"]


def leading(network: SpikingNetwork) -> tuple[Node, ...]:
    """The nodes that lead to the answer, thresholds per channel; the first that cannot be written is refused."""
    if network.neuron.delay:
        raise UsageError(f"{network.neuron} fires a step late, which NIR cannot say; use delay=False")
    wanted = {network.nodes[-1].name}
    for node in reversed(network.nodes):
        if node.name in wanted:
            wanted.update(node.sources)
    return tuple(_checked(node, network) for node in network.nodes if node.name in wanted)


def leaks_of(network: SpikingNetwork) -> dict[str, float]:
    """The leak of every population."""
    leaks = {}
    for node in network.populations:
        if node.leak is None:
            leaks[node.name] = network.neuron.leak
            continue
        leaks[node.name] = float(node.leak.flatten()[0])
        if not bool((node.leak == node.leak.flatten()[0]).all()):
            raise UsageError(f"{node.name} has leaks that differ, one is read per layer; export it without mismatch")
    if 1.0 in leaks.values() and len(set(leaks.values())) > 1:
        leaky = next(name for name, leak in leaks.items() if leak < 1)
        plain = next(name for name, leak in leaks.items() if leak == 1)
        raise UsageError(f"{leaky} leaks and {plain} does not: importers need steps of different lengths for the two")
    return leaks


def _checked(node: Node, network: SpikingNetwork) -> Node:
    if isinstance(node, Gate):
        raise UsageError(f"{node.name} gates spikes (max pooling), for which NIR has no node; use average pooling")
    if isinstance(node, Add) and len(set(node.sources)) < len(node.sources):
        raise UsageError(f"{node.name} adds a node to itself, which is one edge in NIR; use a Scale of 2")
    if not isinstance(node, Neurons):
        return node
    if node.start:
        raise UsageError(
            f"{node.name} starts at {node.start:g} thresholds, and NIR has no first membrane; "
            "convert with balance percentile:half=false"
        )
    channels = network.shapes[node.name][0]
    rows = node.threshold.reshape(channels, -1)
    if not bool((rows == rows[:, :1]).all()):
        raise UsageError(
            f"{node.name} has thresholds that differ within a channel, and importers read one per layer; "
            "export it without mismatch"
        )
    return dataclasses.replace(node, threshold=rows[:, 0])
