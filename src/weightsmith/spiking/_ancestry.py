"""Who is made from whom in a spiking network."""

from __future__ import annotations

from collections.abc import Sequence

from weightsmith.spiking.graph import INPUT, Add, Neurons, Node

__all__ = ["ancestors", "feeding", "in_residual_blocks"]


def feeding(nodes: Sequence[Node], population: Neurons) -> list[Node]:
    """The nodes from which the currents of ``population`` are computed, back to the populations whose spikes they are.

    These are the first of each way; the input is none of the nodes.
    """
    reached, found = {population.source}, list[Node]()
    for node in reversed(nodes):
        if node.name in reached:
            found.append(node)
            if not isinstance(node, Neurons):
                reached.update(node.sources)
    return found[::-1]


def ancestors(nodes: Sequence[Node]) -> dict[str, frozenset[str]]:
    """For every node the names of all nodes that it depends on, its own included."""
    found: dict[str, frozenset[str]] = {INPUT: frozenset({INPUT})}
    for node in nodes:
        found[node.name] = frozenset({node.name}).union(*(found[name] for name in node.sources))
    return found


def in_residual_blocks(nodes: Sequence[Node]) -> set[str]:
    """The populations on one branch of a sum only, and those that threshold a sum."""
    populations = {node.name for node in nodes if isinstance(node, Neurons)}
    before = ancestors(nodes)
    inside: set[str] = set()
    for node in nodes:
        if isinstance(node, Add):
            branches = [before[name] for name in node.sources]
            inside |= frozenset.union(*branches) - frozenset.intersection(*branches)
        elif isinstance(node, Neurons) and any(isinstance(each, Add) for each in feeding(nodes, node)):
            inside.add(node.name)
    return inside & populations
