"""``weightsmith inspect FILE``: what is in a file of weights, without reading more than its table of contents."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from weightsmith.cli._spike_inspection import describe_spiking, show_description
from weightsmith.cli._spike_options import refuse_nir
from weightsmith.cli.terminal import count_text, out, print_json, table

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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List layers, shapes, parameters and types of a file of weights, and what in it cannot be read."""
    from weightsmith.networks.files import read_card
    from weightsmith.networks.layers.walk import walk
    from weightsmith.networks.models.catalogue import recognise
    from weightsmith.networks.weights import open_weights
    from weightsmith.spiking.files import is_spiking

    if is_spiking(file):
        described = describe_spiking(file, layers)
        (print_json if as_json else show_description)(described)
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
