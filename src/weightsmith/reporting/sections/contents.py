"""The description of a file: its layers or nodes, its metadata, and what cannot be read."""

from __future__ import annotations

from weightsmith.networks.contents import Contents, LeftOutEntry
from weightsmith.reporting.parts import Column, Notes, Part, Section, Table
from weightsmith.reporting.sections._wording import bytes_text, counted, significant
from weightsmith.spiking.contents import SpikingContents

__all__ = ["contents_section", "spiking_contents_section"]


def contents_section(found: Contents, name: str) -> Section:
    """The description of a file of weights."""
    total, inside = found.parameters, found.in_layers
    share = f" ({100 * inside / total:.2f} %)" if total else ""
    parts: list[Part] = [Notes(found.notes)] if found.notes else []
    columns = (Column("layer"), Column("kind"), Column("shape"), Column("parameters", numeric=True), Column("type"))
    rows = tuple(
        (
            layer.name + (f"  (tied with {', '.join(layer.tied_with)})" if layer.tied_with else ""),
            layer.kind,
            _shape(layer.shape),
            layer.parameters,
            layer.dtype,
        )
        for layer in found.layers
    )
    parts.append(Table("Layers", columns, rows, file="layers.csv"))
    if found.left_out:
        parts.append(_left_out(found.left_out))
    chips = [("network", found.network), ("normalisation", found.normalisation)]
    return Section(
        f"Contents: {name}",
        f"{counted(len(found.layers), 'layer')} with {inside:,} of {total:,} parameters{share}.",
        tuple(parts),
        tuple((head, text) for head, text in chips if text is not None),
        f"{found.format}, {bytes_text(found.bytes)}",
    )


def _left_out(items: tuple[LeftOutEntry, ...]) -> Table:
    """Left-out tensors grouped by reason: there are as many biases and norms as layers."""
    groups: dict[str, list[LeftOutEntry]] = {}
    for item in items:
        groups.setdefault(item.reason, []).append(item)
    columns = (
        Column("reason"),
        Column("tensors", numeric=True),
        Column("parameters", numeric=True),
        Column("for example"),
    )
    rows = tuple(
        (reason, len(members), sum(member.parameters for member in members), members[0].name)
        for reason, members in groups.items()
    )
    return Table("Not in layers", columns, rows, file="left-out.csv")


def spiking_contents_section(found: SpikingContents, name: str) -> Section:
    """The description of the file of a spiking network."""
    columns = (
        Column("node"),
        Column("kind"),
        Column("reads"),
        Column("gives"),
        Column("parameters", numeric=True),
        Column("thresholds", numeric=True),
    )
    rows = tuple(
        (
            node.name,
            node.kind,
            ", ".join(node.reads),
            _shape(node.shape),
            node.parameters,
            None if node.thresholds is None else " – ".join(dict.fromkeys(map(significant, node.thresholds))),
        )
        for node in found.nodes
    )
    nodes = Table("Nodes", columns, rows, file="nodes.csv")
    return Section(
        f"Contents: {name}",
        f"{counted(found.neurons, 'neuron')}, {found.parameters:,} weights and biases.",
        (*((Notes(found.notes),) if found.notes else ()), nodes),
        (
            ("made from", found.network),
            ("normalisation", found.normalisation),
            ("neuron", found.neuron),
            ("input", f"{found.encode}, {_shape(found.input_shape)}"),
        ),
        found.format,
    )


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
