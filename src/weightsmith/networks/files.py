"""Save a network with everything needed to use it again, and load it, ours or another tool's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.core.records import Lineage
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.architecture import Architecture, architecture_of
from weightsmith.networks.building import build
from weightsmith.networks.card import Card, card_of, with_card
from weightsmith.networks.catalogue import Match, Removed, bare_names, is_counter, recognise
from weightsmith.networks.sealed import is_sealed, sealed_content, write_sealed
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
    input_shape: tuple[int, ...] = (),
    classes: int | None = None,
) -> nn.Module:
    """The network in a file or result folder, ready to run (``eval`` mode), its card attached.

    Our own files build themselves from their card; known files of others are recognised by their keys. Otherwise
    ``network`` says what to build: the text form of an architecture (``input_shape`` and ``classes`` complete it),
    ``package.module:function``, or a module to fill.
    """
    weights = open_weights(path)
    card = read_card(weights)
    if network is not None:
        loaded = network if isinstance(network, nn.Module) else build(network, input_shape=input_shape, classes=classes)
        _fill(loaded, weights, _paired(loaded, weights))
        with_card(loaded, _card_as_asked(loaded, weights, card))
    elif card is not None:
        loaded = _fill(_rebuild(card, weights.path), weights, {name: name for name in weights.entries})
        with_card(loaded, card)
    else:
        match = _recognised(weights, removed)
        loaded = _fill(match.architecture.build(), weights, match.keys)
        with_card(loaded, _card_of_match(match, weights))
    if normalise is not None:
        chosen = Normalisation.parse(normalise) if isinstance(normalise, str) else normalise
        with_card(loaded, dataclasses.replace(card_of(loaded), normalisation=chosen))
    return loaded.eval()


def read_card(weights: Weights) -> Card | None:
    """The card in a network file of ours (its seal was checked when it was opened); None for a file of another tool."""
    if not is_sealed(weights.metadata):
        return None
    try:
        return Card.from_json(sealed_content(weights.metadata))
    except UsageError as error:
        raise FileRefused(weights.path, f"its card was written by another version of weightsmith ({error})") from error


def _rebuild(card: Card, path: Path) -> nn.Module:
    if card.architecture is not None:
        return card.architecture.build()
    if card.factory is not None:
        raise UsageError(f"{path}: is built by code of your own; allow it with --network {card.factory}")
    raise UsageError(f"{path}: does not say how to build its network; tell it with --network package.module:function")


def _recognised(weights: Weights, removed: Removed) -> Match:
    match = recognise(weights, removed)
    if match is None:
        raise UsageError(
            f"{weights.path}: not a network in the catalogue; say what it is with --network "
            "(vgg:16, resnet:20, package.module:function …); inspect lists its layers"
        )
    return match


def _card_of_match(match: Match, weights: Weights) -> Card:
    summary = f"recognised as {match.architecture} ({match.layout}), normalised by {match.normalisation}"
    return Card(
        match.architecture,
        input_shape=match.architecture.input_shape,
        normalisation=match.normalisation,
        lineage=_read_from(weights),
        notes=(summary, *match.notes),
    )


def _card_as_asked(network: nn.Module, weights: Weights, stored: Card | None) -> Card:
    """The card of a network the caller named: what the file says of its use still holds."""
    match = recognise(weights) if stored is None else None
    known = stored or Card(lineage=_read_from(weights))
    architecture = architecture_of(network)
    return dataclasses.replace(
        known,
        architecture=architecture,
        factory=card_of(network).factory,
        input_shape=architecture.input_shape if architecture else known.input_shape,
        normalisation=match.normalisation if match else known.normalisation,
    )


def _read_from(weights: Weights) -> Lineage:
    return Lineage(f"read from {weights.path.name} ({weights.format})")


def _paired(network: nn.Module, weights: Weights) -> dict[str, str]:
    """File key → network key: by name, or, where no name fits, by order if all shapes agree."""
    expected = {key: tuple(t.shape) for key, t in network.state_dict().items() if not is_counter(key)}
    names = {name: bare for name, bare in bare_names(weights.entries).items() if not is_counter(name)}
    if set(names.values()) & set(expected):
        return names
    if [weights.entries[name].shape for name in names] == list(expected.values()):
        return dict(zip(names, expected, strict=True))
    return names


@torch.no_grad()
def _fill(network: nn.Module, weights: Weights, keys: dict[str, str]) -> nn.Module:
    """Copy the file's tensors into ``network`` one at a time; every key must fit."""
    state = network.state_dict()
    found = {key: name for name, key in keys.items()}
    missing = [key for key in state if key not in found and not is_counter(key)]
    strange = [name for key, name in found.items() if key not in state and not is_counter(key)]
    if missing or strange:
        told = f"lacks {missing[0]}" if missing else f"has {strange[0]}, which the network does not"
        more = f" and {len(missing) + len(strange) - 1} more" if len(missing) + len(strange) > 1 else ""
        raise DataMismatch(f"{weights.path}: does not fit the network: it {told}{more}")
    for key, target in state.items():
        if key not in found:
            continue
        shape = weights.entries[found[key]].shape
        if shape != tuple(target.shape):
            raise DataMismatch(
                f"{weights.path}: {found[key]} has shape {shape}, the network needs {tuple(target.shape)}"
            )
        target.copy_(weights.tensor(found[key]))
    return network
