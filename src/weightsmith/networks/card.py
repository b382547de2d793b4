"""The card of a network: metadata that the weights do not contain."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from weightsmith.core.records import Lineage, Record, digest_of
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.networks.models.architecture import Architecture, architecture_of
from weightsmith.networks.sealed import is_sealed
from weightsmith.networks.weights import Weights
from weightsmith.networks.wrappers import unwrapped

__all__ = ["Card", "card_of", "meaning_digest", "weights_digest", "with_card"]

_NUMPY_TYPES = {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.int8}


@dataclasses.dataclass(frozen=True, eq=False)
class Card(Record):
    """Metadata of a network: how to build it, its input shape and normalisation, its classes, and its lineage.

    ``widths`` are for a user-defined module with fewer units than its function builds: the number of output units of
    each changed dense layer or convolution, and integer attributes that changed with them (``block.heads``). Built-in
    architectures contain their widths already. ``outputs`` is the scale of a regression: the network predicts
    (value − mean) / deviation.
    """

    architecture: Architecture | None = None
    factory: str | None = None
    input_shape: tuple[int, ...] = ()
    normalisation: Normalisation = NONE
    classes: tuple[str, ...] = ()
    lineage: Lineage = dataclasses.field(default_factory=lambda: Lineage("made in memory"))
    notes: tuple[str, ...] = ()
    widths: dict[str, int] = dataclasses.field(default_factory=dict)
    outputs: Normalisation = NONE


def card_of(network: nn.Module) -> Card:
    """The card of a network; without one, a plain card with the architecture and input shape of the module."""
    network = unwrapped(network)
    card = getattr(network, "card", None)
    if isinstance(card, Card):
        return card
    architecture = architecture_of(network)
    return Card(architecture, input_shape=architecture.input_shape if architecture else ())


def with_card(network: nn.Module, card: Card) -> nn.Module:
    """Attach ``card`` to ``network`` and return it; the weights are not touched."""
    unwrapped(network).card = card  # type: ignore[assignment]  # torch types every attribute as a tensor or module
    return network


def meaning_digest(card: Card) -> str:
    """A digest of the card's architecture, input and output fields, which the weights do not contain.

    Two networks with equal weights are the same only if this is equal too; provenance is not included.
    """
    values = dataclasses.replace(card, lineage=Lineage("any"), notes=()).to_dict()
    if not card.outputs.mean:
        del values["outputs"]  # so that runs from before this field was added can resume
    return digest_of(json.dumps(values, sort_keys=True, allow_nan=False))


def weights_digest(state: nn.Module | Mapping[str, Tensor] | Weights) -> str:
    """SHA-256 over names, stored types, shapes and values of all tensors: the identifier of a network in lineages.

    From a file one tensor is in memory at a time.

    >>> weights_digest({"a": torch.ones(2)})[:8] == weights_digest({"a": torch.zeros(2)})[:8]
    False
    """
    tensors = unwrapped(state).state_dict() if isinstance(state, nn.Module) else state
    digest = hashlib.sha256()
    if isinstance(tensors, Weights) and is_sealed(tensors.metadata) and tensors.stored.keys() != tensors.entries.keys():
        tensors = _Written(tensors)  # a network of ours with 8-bit layers: integers and their scales
    for name in sorted(tensors.entries if isinstance(tensors, Weights) else tensors):
        tensor = tensors.tensor_as_stored(name) if isinstance(tensors, Weights) else tensors[name]
        digest.update(f"[{json.dumps(name)}, {_kind(tensor.dtype, tensor.shape)}]".encode())
        digest.update(_content(tensor.detach()))
    return digest.hexdigest()


class _Written(Mapping[str, Tensor]):
    """The tensors of a file as stored, read one at a time."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> Tensor:
        return self._weights.as_written(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights.stored)

    def __len__(self) -> int:
        return len(self._weights.stored)


@functools.lru_cache(maxsize=1024)  # a network has few
def _kind(dtype: torch.dtype, shape: torch.Size) -> str:
    """Type and shape as a JSON list."""
    return json.dumps([str(dtype), list(shape)])[1:-1]


def _content(tensor: Tensor) -> memoryview:
    """The bytes of the values in order."""
    plain = tensor if tensor.is_cpu and tensor.is_contiguous() else tensor.cpu().contiguous()
    array = plain.numpy() if plain.dtype in _NUMPY_TYPES else plain.view(-1).view(torch.uint8).numpy()
    view: memoryview = array.data
    return view
