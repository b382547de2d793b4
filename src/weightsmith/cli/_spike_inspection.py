"""What is in the file of a spiking network: its nodes, neurons and thresholds."""

from __future__ import annotations

import fnmatch
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from weightsmith.cli._spike_report import significant
from weightsmith.cli.terminal import count_text, out, table
from weightsmith.core.errors import UnknownName

if TYPE_CHECKING:
    from weightsmith.spiking.graph import Node
    from weightsmith.spiking.network import SpikingNetwork

__all__ = ["describe_spiking", "show_description"]


def describe_spiking(file: Path, pattern: str | None) -> dict[str, Any]:
    """Neuron, encoding and nodes (those whose names fit ``pattern``) of the spiking network in ``file``."""
    from weightsmith.spiking.files import load_spiking

    network = load_spiking(file)
    nodes = [node for node in network.nodes if pattern is None or fnmatch.fnmatchcase(node.name, pattern)]
    if not nodes:
        raise UnknownName("node", str(pattern), [node.name for node in network.nodes])
    card = network.card
    return {
        "file": str(file),
        "format": "spiking network",
        "network": str(card.architecture or card.factory or "unknown"),
        "normalisation": str(card.normalisation),
        "neuron": str(network.neuron),
        "encode": str(network.encode),
        "input_shape": list(network.input_shape),
        "classes": network.classes,
        "neurons": sum(_size(network, node) for node in network.populations),
        "parameters": sum(_parameters(node) for node in network.nodes),
        "notes": list(card.notes),
        "nodes": [_row(network, node) for node in nodes],
    }


def show_description(report: dict[str, Any]) -> None:
    """Print what :func:`describe_spiking` found."""
    console = out()
    totals = f"{count_text(report['neurons'])} neurons, {count_text(report['parameters'])} weights and biases"
    console.print(f"[bold]{escape(report['file'])}[/bold]  {report['format']}, {totals}")
    for name, key in (("made from", "network"), ("normalisation", "normalisation"), ("neuron", "neuron")):
        console.print(f"{name:<14} {escape(report[key])}")
    console.print(f"{'input':<14} {escape(report['encode'])}, {' × '.join(map(str, report['input_shape']))}")
    for note in report["notes"]:
        console.print(f"{'note':<14} {escape(note)}")
    heads = ("node", "kind", "reads", "gives", "parameters", "thresholds")
    rows = table(*heads, numbers=("parameters", "thresholds"))
    for node in report["nodes"]:
        ends = node["thresholds"]
        rows.add_row(
            escape(node["name"]),
            node["kind"],
            escape(", ".join(node["reads"])),
            " × ".join(map(str, node["shape"])),
            count_text(node["parameters"]),
            "–" if ends is None else " – ".join(dict.fromkeys(map(significant, ends))),
        )
    console.print(rows)


def _row(network: SpikingNetwork, node: Node) -> dict[str, Any]:
    from weightsmith.spiking.graph import Neurons

    ends = [float(node.threshold.min()), float(node.threshold.max())] if isinstance(node, Neurons) else None
    return {
        "name": node.name,
        "kind": type(node).__name__.lower(),
        "reads": list(node.sources),
        "shape": list(network.shapes[node.name]),
        "parameters": _parameters(node),
        "thresholds": ends,
    }


def _parameters(node: Node) -> int:
    from weightsmith.spiking.graph import Synapses

    if not isinstance(node, Synapses):
        return 0
    return node.weight.numel() + (0 if node.bias is None else node.bias.numel())


def _size(network: SpikingNetwork, node: Node) -> int:
    return math.prod(network.shapes[node.name])
