"""``inspect``: the contents of a file of weights, read from its headers alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from weightsmith.core.records import Record
from weightsmith.core.verbs import Doc, verb

__all__ = ["Contents", "LayerEntry", "LeftOutEntry", "inspect"]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerEntry(Record):
    """A layer, and the layers that share its weights."""

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    dtype: str
    tied_with: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class LeftOutEntry(Record):
    """A tensor that belongs to no layer, and why."""

    name: str
    shape: tuple[int, ...]
    parameters: int
    reason: str


@dataclasses.dataclass(frozen=True, eq=False)
class Contents(Record):
    """The layers of a file of weights, its metadata, and the tensors that belong to no layer."""

    file: str
    format: str
    bytes: int
    parameters: int
    in_layers: int
    network: str | None
    normalisation: str | None
    notes: tuple[str, ...]
    layers: tuple[LayerEntry, ...]
    left_out: tuple[LeftOutEntry, ...]


@verb
def inspect(
    file: str | Path,
    *,
    layers: Annotated[str | None, Doc("only layers whose name fits this pattern, as 'layer1.*'")] = None,
) -> Contents:
    """List layers, shapes, parameters and types of a file or folder of weights; no values are read.

    >>> import tempfile, weightsmith as ws
    >>> folder = tempfile.TemporaryDirectory()
    >>> found = inspect(ws.save(ws.networks.mlp(4, 3, 2), f"{folder.name}/net.safetensors"))
    >>> [(layer.name, layer.shape) for layer in found.layers], found.in_layers, found.parameters
    ([('dense1', (3, 4)), ('output', (2, 3))], 18, 23)
    """
    from weightsmith.networks.files import read_card
    from weightsmith.networks.layers.walk import walk
    from weightsmith.networks.models.catalogue import recognise
    from weightsmith.networks.weights import open_weights

    weights = open_weights(Path(file))
    card = read_card(weights)
    walked = walk(weights, layers=layers)
    match = recognise(weights) if card is None else None
    about = card or match
    return Contents(
        file=str(file),
        format=weights.format,
        bytes=sum(entry.nbytes for entry in weights.entries.values()),
        parameters=walked.parameters,
        in_layers=walked.covered,
        network=str(card.architecture or card.factory) if card else str(match.architecture) if match else None,
        normalisation=None if about is None else str(about.normalisation),
        notes=() if about is None else tuple(about.notes),
        layers=tuple(
            LayerEntry(each.name, each.kind, tuple(each.shape), each.parameters, each.dtype, tuple(each.tied_with))
            for each in walked.layers
        ),
        left_out=tuple(
            LeftOutEntry(each.name, tuple(each.shape), each.parameters, each.reason) for each in walked.left_out
        ),
    )
