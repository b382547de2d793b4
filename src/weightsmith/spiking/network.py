"""The spiking network: nodes, neuron and encoding in one frozen object that can be run.

It holds no state of a run: every run starts from clean membranes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.networks.card import Card
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import Gate, Neurons, Node, Shape, Synapses, is_finite, shapes_of
from weightsmith.spiking.neurons import IF, LIF, AnyNeuron, Graded, Precision

if TYPE_CHECKING:
    from weightsmith.spiking.monitors.observing import Observer
    from weightsmith.spiking.simulation.exits import Margin
    from weightsmith.spiking.simulation.responses import Responses

__all__ = ["Precision", "SpikingNetwork"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SpikingNetwork:
    """Nodes in topological order, the neuron model, and the input encoding.

    ``card`` is the card of the network that was converted: its normalisation is applied to every input.
    """

    nodes: tuple[Node, ...]
    input_shape: Shape
    neuron: AnyNeuron
    encode: Poisson | Constant
    card: Card = dataclasses.field(default_factory=Card)

    def __post_init__(self) -> None:
        shapes = shapes_of(self.nodes, self.input_shape)
        if not isinstance(self.neuron, IF | LIF | Graded):
            raise UsageError(f"{self.neuron}: the engines simulate if, lif and graded neurons only (docs/extending.md)")
        if not self.populations:
            raise UsageError("the network has no neurons: nothing in it would spike")
        for node in self.nodes:
            if not is_finite(node):
                raise DataMismatch(f"{node.name} holds NaN or infinity")
        for population in self.populations:
            if not math.isfinite(population.start):
                raise DataMismatch(f"{population.name} starts at {population.start} thresholds, which is not finite")
            if not population.ceiling > 0:
                raise DataMismatch(f"{population.name} is clipped at {population.ceiling}; a ceiling is positive")
            if population.leak is not None and not bool(((population.leak >= 0) & (population.leak <= 1)).all()):
                raise DataMismatch(f"{population.name} has a leak that is not between 0 and 1")
            if not bool((population.threshold > 0).all()):
                raise DataMismatch(
                    f"{population.name}: a threshold is not positive: the neuron would fire at every step"
                )
        if isinstance(self.neuron, Graded):
            self._check_graded()
        if isinstance(self.nodes[-1], Neurons) or len(shapes[self.nodes[-1].name]) != 1:
            raise UsageError(f"the last node {self.nodes[-1].name!r} must give one score per class, without firing")

    def _check_graded(self) -> None:
        if not isinstance(self.encode, Constant):
            raise UsageError(
                f"{self.neuron} reads the input once, as values, not as {self.encode} spikes; use encode=constant"
            )
        clipped = next((node for node in self.populations if math.isfinite(node.ceiling)), None)
        if clipped is not None:
            raise UsageError(
                f"{clipped.name}: values are clipped at {clipped.ceiling:g}, but the sum of graded spikes is "
                "unbounded; use if:signed=true"
            )
        gate = next((node.name for node in self.nodes if isinstance(node, Gate)), None)
        if gate is not None:
            raise UsageError(
                f"{gate}: max pooling of graded spikes would give sizes that no spike has; take if:signed=true"
            )

    def __repr__(self) -> str:
        units = sum(math.prod(self.shapes[node.name]) for node in self.populations)
        return (
            f"SpikingNetwork({units:,} neurons ({self.neuron}) in {len(self.populations)} populations, "
            f"{self.encode} input of shape {self.input_shape}, {self.classes} classes)"
        )

    @functools.cached_property
    def shapes(self) -> dict[str, Shape]:
        """The output shape of each node (and of the input) for one image."""
        return shapes_of(self.nodes, self.input_shape)

    @functools.cached_property
    def populations(self) -> tuple[Neurons, ...]:
        """The nodes that fire, in order."""
        return tuple(node for node in self.nodes if isinstance(node, Neurons))

    @functools.cached_property
    def synapses(self) -> tuple[Synapses, ...]:
        """The nodes with weights, in order."""
        return tuple(node for node in self.nodes if isinstance(node, Synapses))

    @property
    def classes(self) -> int:
        """The number of output classes."""
        return self.shapes[self.nodes[-1].name][0]

    def node(self, name: str) -> Node:
        """The node of that name."""
        if name not in self._named:
            raise UnknownName("node", name, self._named)
        return self._named[name]

    @functools.cached_property
    def _named(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def gates_spikes(self, gate: Gate) -> bool:
        """Whether a gate reads spikes (of neurons or of another such gate), not other values."""
        source = self._named.get(gate.source)
        return isinstance(source, Neurons) or (isinstance(source, Gate) and self.gates_spikes(source))

    def replaced(self, nodes: Iterable[Node]) -> SpikingNetwork:
        """The same network with these nodes in place of those of the same names."""
        new = {node.name: node for node in nodes}
        unknown = next((name for name in new if name not in {node.name for node in self.nodes}), None)
        if unknown is not None:
            raise UnknownName("node", unknown, [node.name for node in self.nodes])
        return dataclasses.replace(self, nodes=tuple(new.get(node.name, node) for node in self.nodes))

    def with_neuron(self, neuron: AnyNeuron) -> SpikingNetwork:
        """The same network with another neuron model."""
        return dataclasses.replace(self, neuron=neuron)

    def with_factor(self, factor: float) -> SpikingNetwork:
        """The same network with every threshold, and every known amplitude, times ``factor``."""
        from weightsmith.spiking.conversion.amplitudes import with_amplitudes

        scaled = self.replaced(
            dataclasses.replace(node, threshold=node.threshold * factor) for node in self.populations
        )
        worth = {
            node.name: torch.full_like(node.amplitude, factor)
            for node in self.populations
            if node.amplitude is not None
        }
        return with_amplitudes(scaled, worth) if worth else scaled

    def run(
        self,
        x: Tensor,
        steps: int,
        *,
        seed: int = 0,
        first: int = 0,
        precision: Precision = "float32",
        early: Margin | str | None = None,
        settle: int = 0,
        observers: Sequence[Observer] = (),
        device: str = "cpu",
        path: Literal["auto", "events", "patterns", "dense", "steps"] = "auto",
    ) -> Responses:
        """Run on inputs ``x`` as they come from the data (normalised here by the card), from clean membranes.

        ``first`` is the number of the first image, by which its spikes are drawn: rows 100 to 199 of a data set run
        alone see the same spikes as in a run of all rows when ``first`` is 100. The outputs of the first
        ``settle`` steps are left out of the sums: deep layers need some steps until their rates are right. On other
        devices than the CPU the network runs step by step in torch.
        """
        from weightsmith.spiking.simulation.simulate import simulate

        return simulate(
            self,
            x,
            steps,
            seed=seed,
            first=first,
            precision=precision,
            early=early,
            settle=settle,
            observers=observers,
            device=device,
            path=path,
        )
