"""Who is made from whom in a spiking network."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Node, Pool, Scale, Synapses

__all__ = ["Between", "Linear", "ancestors", "between", "in_residual_blocks"]

Linear = Synapses | Pool | Flatten | Scale | Add


@dataclasses.dataclass(frozen=True, eq=False)
class Between:
    """What lies between a population and those it reads (``roots``), in order: gates, then linear nodes."""

    roots: tuple[str, ...]
    gates: tuple[Gate, ...]
    linear: tuple[Linear, ...]


def between(nodes: Iterable[Node], population: Neurons) -> Between:
    """The nodes from which the currents of ``population`` are computed, back to the spikes they come from."""
    known = {node.name: node for node in nodes}
    reached, waiting = set[str](), [population.source]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            node = known.get(name)
            waiting += [] if node is None or isinstance(node, Neurons) else node.sources
    inside = [node for node in known.values() if node.name in reached]
    spiking = [INPUT] if INPUT in reached else []
    return Between(
        roots=(*spiking, *(node.name for node in inside if isinstance(node, Neurons))),
        gates=tuple(node for node in inside if isinstance(node, Gate)),
        linear=tuple(node for node in inside if not isinstance(node, Gate | Neurons)),
    )


def ancestors(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """For every node the names of all nodes that it depends on, its own included."""
    found: dict[str, frozenset[str]] = {INPUT: frozenset({INPUT})}
    for node in nodes:
        found[node.name] = frozenset({node.name}).union(*(found[name] for name in node.sources))
    return found


def in_residual_blocks(nodes: tuple[Node, ...]) -> set[str]:
    """The populations on one branch of a sum only, and those that threshold a sum."""
    known = {node.name: node for node in nodes}
    before = ancestors(nodes)
    inside: set[str] = set()
    for node in nodes:
        if isinstance(node, Add):
            branches = [before[name] for name in node.sources]
            inside |= frozenset.union(*branches) - frozenset.intersection(*branches)
        elif isinstance(node, Neurons) and any(isinstance(each, Add) for each in between(nodes, node).linear):
            inside.add(node.name)
    return {name for name in inside if isinstance(known.get(name), Neurons)}
