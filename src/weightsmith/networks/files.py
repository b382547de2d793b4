"""Save a network with everything needed to use it again, and load it, ours or another tool's."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.core.records import Lineage
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.architecture import Architecture
from weightsmith.networks.card import Card, card_of, with_card
from weightsmith.networks.catalogue import Match, Removed, bare_names, recognise
from weightsmith.networks.sealed import check_seal, is_sealed, write_sealed
from weightsmith.networks.weights import Weights, open_weights

__all__ = ["load", "read_card", "save"]


def save(network: nn.Module, path: str | Path, **card: object) -> Path:
    """Write ``network`` to ``path`` (``.safetensors``) with its card; fields of the card may be given by name.

    A module of the user's own needs ``factory="package.module:function"`` to be loaded without help later. The file
    is written atomically and sealed: a damaged one is refused on reading.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise UsageError(f"{path}: network files end in .safetensors")
    filled = dataclasses.replace(card_of(network), **card)  # type: ignore[arg-type]
    return write_sealed(path, network.state_dict(), filled.to_json())


def load(
    path: str | Path,
    *,
    network: str | Architecture | nn.Module | None = None,
    normalise: str | Normalisation | None = None,
    removed: Removed = "skip",
) -> nn.Module:
    """The network in a file or result folder, ready to run (``eval`` mode), its card attached.

    Our own files build themselves from their card; known files of others are recognised by their keys. Otherwise
    ``network`` says what to build: the text form of an architecture, ``package.module:function``, or a module to fill.
    """
    weights = open_weights(path)
    card = read_card(weights)
    if card is None or network is not None:
        loaded = _foreign(weights, network, removed, card)
    else:
        loaded = _fill(_rebuild(card, weights.path), weights, {name: name for name in weights.entries})
        with_card(loaded, card)
    if normalise is not None:
        chosen = Normalisation.parse(normalise) if isinstance(normalise, str) else normalise
        with_card(loaded, dataclasses.replace(card_of(loaded), normalisation=chosen))
    return loaded.eval()


def read_card(weights: Weights) -> Card | None:
    """The card in a network file of ours, its seal checked; None for a file of another tool."""
    if not is_sealed(weights.metadata):
        return None
    content = check_seal(weights.path, weights.metadata)
    try:
        return Card.from_json(content)
    except UsageError as error:
        raise FileRefused(weights.path, f"its card was written by another version of weightsmith ({error})") from error


def _rebuild(card: Card, path: Path) -> nn.Module:
    if card.architecture is not None:
        return card.architecture.build()
    if card.factory is not None:
        raise UsageError(f"{path}: is rebuilt by code of your own; allow it with --network {card.factory}")
    raise UsageError(f"{path}: does not say how to build its network; tell it with --network package.module:function")


def _foreign(
    weights: Weights, network: str | Architecture | nn.Module | None, removed: Removed, card: Card | None
) -> nn.Module:
    """Build and fill a network from a file without a card, or against its card when the caller says how."""
    lineage = Lineage(f"read from {weights.path.name} ({weights.format})")
    match = recognise(weights, removed)
    if network is None:
        if match is None:
            raise UsageError(
                f"{weights.path}: not a network in the catalogue; say what it is with --network "
                "(vgg:16, resnet:20, package.module:function …); inspect lists its layers"
            )
        loaded = _fill(match.architecture.build(), weights, match.keys)
        return with_card(loaded, _card_of_match(match, lineage))
    base = card or Card(normalisation=match.normalisation if match else Card().normalisation, lineage=lineage)
    loaded, base = _asked_for(network, weights, base)
    return with_card(_fill(loaded, weights, _paired(loaded, weights)), base)


def _card_of_match(match: Match, lineage: Lineage) -> Card:
    return Card(
        match.architecture,
        input_shape=match.architecture.input_shape,
        normalisation=match.normalisation,
        lineage=lineage,
        notes=(f"recognised as {match.architecture} ({match.layout}), normalised by {match.normalisation}", *match.notes),
    )


def _asked_for(
    network: str | Architecture | nn.Module, weights: Weights, card: Card
) -> tuple[nn.Module, Card]:
    """The network the caller named, and its card."""
    if isinstance(network, nn.Module):
        return network, dataclasses.replace(card, architecture=None)
    if isinstance(network, str) and ":" in network and "." in network.partition(":")[0] or _is_module(network):
        return _from_factory(str(network)), dataclasses.replace(card, architecture=None, factory=str(network))
    architecture = Architecture.parse(network) if isinstance(network, str) else network
    if not architecture.input_shape or architecture.classes is None:
        raise UsageError(f"{weights.path}: {architecture} lacks input_shape or classes; write them in --network")
    return architecture.build(), dataclasses.replace(card, architecture=architecture, input_shape=architecture.input_shape)
