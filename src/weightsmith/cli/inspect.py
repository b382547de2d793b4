"""``weightsmith inspect FILE``: list the contents of a file of weights, reading only its headers."""

from __future__ import annotations

import fnmatch
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli import _shared_options as given
from weightsmith.cli._spike_options import refuse_nir
from weightsmith.cli.terminal import count_text, out, print_json, table
from weightsmith.core.errors import UnknownName
from weightsmith.reporting.sections._wording import significant

if TYPE_CHECKING:
    from weightsmith.spiking.graph import Node
    from weightsmith.spiking.network import SpikingNetwork

__all__ = ["inspect"]


_UNITS = ("B", "kB", "MB", "GB", "TB")


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", readable=False, help="A file or folder of weights: safetensors, pt, npz, ONNX, Keras."
        ),
    ],
    layers: Annotated[str | None, typer.Option(help="Only layers whose name fits this pattern, as 'layer1.*'.")] = None,
    as_json: given.AsJson = False,
) -> None:
    """List layers, shapes, parameters and types of a file of weights, and what in it cannot be read."""
    from weightsmith.networks.files import read_card
    from weightsmith.networks.layers.walk import walk
    from weightsmith.networks.models.catalogue import recognise
    from weightsmith.networks.weights import open_weights
    from weightsmith.spiking.files import is_spiking

    if is_spiking(file):
        described = _describe_spiking(file, layers)
        (print_json if as_json else _show_description)(described)
        return
    refuse_nir(file)
    weights = open_weights(file)
    card = read_card(weights)
    walked = walk(weights, layers=layers)
    match = recognise(weights) if card is None else None
    size = sum(entry.nbytes for entry in weights.entries.values())
    report: dict[str, Any] = {
        "file": str(file),
        "format": weights.format,
        "bytes": size,
        "parameters": walked.parameters,
        "in_layers": walked.covered,
        "network": str(card.architecture or card.factory) if card else str(match.architecture) if match else None,
        "normalisation": str(card.normalisation) if card else str(match.normalisation) if match else None,
        "notes": list(card.notes if card else match.notes if match else ()),
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "shape": list(layer.shape),
                "parameters": layer.parameters,
                "dtype": layer.dtype,
                "tied_with": list(layer.tied_with),
            }
            for layer in walked.layers
        ],
        "left_out": [
            {"name": item.name, "shape": list(item.shape), "parameters": item.parameters, "reason": item.reason}
            for item in walked.left_out
        ],
    }
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    console = out()
    console.print(f"[bold]{escape(report['file'])}[/bold]  {report['format']}, {_size(report['bytes'])}")
    if report["network"]:
        console.print(f"network        {escape(report['network'])}")
        console.print(f"normalisation  {report['normalisation']}")
    for note in report["notes"]:
        console.print(f"note           {escape(note)}")
    rows = table("layer", "kind", "shape", "parameters", "type", numbers=("parameters",))
    for layer in report["layers"]:
        tied = f"  (tied with {', '.join(layer['tied_with'])})" if layer["tied_with"] else ""
        shape = " × ".join(map(str, layer["shape"]))
        rows.add_row(
            escape(layer["name"] + tied), layer["kind"], shape, count_text(layer["parameters"]), layer["dtype"]
        )
    console.print(rows)
    total, inside = report["parameters"], report["in_layers"]
    share = f" ({100 * inside / total:.2f} %)" if total else ""
    count = len(report["layers"])
    console.print(f"{count} layer{'' if count == 1 else 's'} with {inside:,} of {total:,} parameters{share}")
    _print_left_out(report["left_out"])


def _print_left_out(items: list[dict[str, Any]]) -> None:
    """Left-out tensors grouped by reason: there are as many biases and norms as layers."""
    if not items:
        return
    groups: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        groups.setdefault(item["reason"], []).append(item)
    rows = table("not in layers", "tensors", "parameters", "for example", numbers=("tensors", "parameters"))
    for reason, members in groups.items():
        total = sum(member["parameters"] for member in members)
        rows.add_row(escape(reason), str(len(members)), count_text(total), escape(members[0]["name"]))
    out().print(rows)


def _size(count: int) -> str:
    step = min(int(math.log10(count) // 3), len(_UNITS) - 1) if count else 0
    return f"{count / 1000**step:.3g} {_UNITS[step]}"


# Inspect the file of a spiking network: nodes, neurons and thresholds.


def _describe_spiking(file: Path, pattern: str | None) -> dict[str, Any]:
    """Neuron, encoding and nodes (those whose names match ``pattern``) of the spiking network in ``file``."""
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
        "neurons": sum(_size_of_node(network, node) for node in network.populations),
        "parameters": sum(_parameters(node) for node in network.nodes),
        "notes": list(card.notes),
        "nodes": [_row(network, node) for node in nodes],
    }


def _show_description(report: dict[str, Any]) -> None:
    """Print the result of :func:`_describe_spiking`."""
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


def _size_of_node(network: SpikingNetwork, node: Node) -> int:
    return math.prod(network.shapes[node.name])
