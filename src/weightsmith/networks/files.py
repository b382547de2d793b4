"""Save networks with their cards, and load them, also from files of other tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, FileRefused, OptionError, UnknownName, UsageError
from weightsmith.core.records import Lineage
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.networks.card import Card, card_of, with_card
from weightsmith.networks.editing.int8 import folded, int8_outline, is_int8_file
from weightsmith.networks.editing.resizing import count_of, output_units, resize, set_count, units_with
from weightsmith.networks.layers.modules import layer_kinds
from weightsmith.networks.models.architecture import Architecture, architecture_of
from weightsmith.networks.models.building import build
from weightsmith.networks.models.catalogue import Match, Removed, bare_names, expected_shapes, is_counter, recognise
from weightsmith.networks.models.factories import Factory, is_factory
from weightsmith.networks.sealed import is_sealed, sealed_content, write_sealed
from weightsmith.networks.weights import Weights, open_weights
from weightsmith.networks.wrappers import unwrapped

__all__ = ["load", "read_card", "save"]

_NOT_NORMALISED = "normalisation unknown: none used (set it with --normalise)"


def save(network: nn.Module, path: str | Path, **card: object) -> Path:
    """Write ``network`` to ``path`` (``.safetensors``) with its card; fields of the card may be given by name.

    A user-defined module needs ``factory="package.module:function"``, so that it can be rebuilt when loaded. The file
    is written atomically and sealed: a damaged file is refused on reading.
    """
    path = Path(path)
    if not isinstance(network, nn.Module):
        raise UsageError(f"save writes a module, not {type(network).__name__}; save_spiking writes a spiking network")
    if path.suffix != ".safetensors":
        raise UsageError(f"{path}: network files end in .safetensors")
    network = unwrapped(network)
    filled = _checked_card(card_of(network), card)
    state = network.state_dict()
    for layer, units in filled.widths.items():
        rows = len(state[f"{layer}.weight"]) if is_int8_file(state) and f"{layer}.weight" in state else None
        if (rows or count_of(network, layer)) != units:
            raise UsageError(f"{path}: the card's widths give {layer} {units} units, which the network does not have")
    if filled.architecture is not None and not is_int8_file(state):
        found = {name: tuple(tensor.shape) for name, tensor in state.items()}
        _check_fit(found, expected_shapes(filled.architecture), f"{path}: the network was changed since it was built")
        if len(filled.classes) not in (0, filled.architecture.classes):
            raise UsageError(f"{len(filled.classes)} class names for {filled.architecture.classes} outputs")
    return write_sealed(path, state, filled.to_json(), layer_kinds(network))


def load(
    path: str | Path,
    *,
    network: str | Architecture | nn.Module | Callable[[], nn.Module] | None = None,
    normalise: str | Normalisation | None = None,
    removed: Removed = "skip",
    input_shape: tuple[int, ...] = (),
    classes: int | None = None,
) -> nn.Module:
    """The network in a file or result folder, ready to run (``eval`` mode), its card attached.

    Our own files are rebuilt from their card; known files of other tools are recognised by their keys. Otherwise
    ``network`` names what to build: the text form of an architecture (completed by ``input_shape`` and ``classes``),
    ``package.module:function``, a function that builds it, or a module to fill. If the network in the file has fewer
    units, as its card states (``widths``), the layers are resized first.
    """
    weights = open_weights(path)
    card = read_card(weights)
    if card is not None and is_int8_file(weights.stored):
        loaded = with_card(_filled_int8(network, card, weights), card)
    elif network is not None:
        if isinstance(network, str | Architecture):
            told = _outputs_in(weights) if classes is None else classes
            loaded = build(network, input_shape=_with_channels_of(weights, input_shape), classes=told)
        else:
            loaded = unwrapped(network if isinstance(network, nn.Module) else network())
        keys, notes = _paired(loaded, weights)
        if card is not None and card.widths and architecture_of(loaded) is None:
            _reduce(loaded, weights, keys, card.widths)
        with_card(_fill(loaded, weights, keys), _card_as_asked(loaded, weights, card, notes))
    elif card is not None:
        loaded = _fill(_rebuild(card, weights), weights, {name: name for name in weights.entries})
        with_card(_in_stored_type(loaded, weights), card)
    else:
        match = _recognised(weights, removed)
        loaded = _fill(match.architecture.build(), weights, match.keys)
        with_card(loaded, _card_of_match(match, weights))
    if (chosen := Normalisation.of(normalise)) is not None:
        card = card_of(loaded)
        notes = tuple(note for note in card.notes if note != _NOT_NORMALISED)  # now it is known
        with_card(loaded, dataclasses.replace(card, normalisation=chosen, notes=notes))
    return loaded.eval()


def _with_channels_of(weights: Weights, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of images with the input channels of the first convolution in the file."""
    first = next((entry.shape for entry in weights.entries.values() if len(entry.shape) == 4), None)
    return (first[1], *shape[1:]) if first is not None and len(shape) == 3 else shape


def _outputs_in(weights: Weights) -> int | None:
    """The number of outputs, if the file is recognised or has a single dense layer; else None."""
    match = recognise(weights)
    if match is not None:
        return match.architecture.classes
    dense = [entry.shape[0] for name, entry in weights.entries.items() if len(entry.shape) == 2]
    return dense[0] if len(dense) == 1 else None


def read_card(weights: Weights) -> Card | None:
    """The card in a network file of ours (its seal was checked when it was opened); None for a file of another tool."""
    if not is_sealed(weights.metadata):
        return None
    try:
        return Card.from_json(sealed_content(weights.metadata))
    except (ValueError, RecursionError) as error:
        if sealed_content(weights.metadata).startswith('{"spiking"'):
            raise FileRefused(weights.path, "is a spiking network: load_spiking reads it") from error
        raise FileRefused(weights.path, f"its card was written by another version of weightsmith ({error})") from error


def _checked_card(card: Card, changes: dict[str, object]) -> Card:
    """The card with the changes, if it survives a round trip through JSON."""
    known = [field.name for field in dataclasses.fields(card)]
    for name in changes:
        if name not in known:
            raise UnknownName("field of a card", name, known)
    if isinstance(text := changes.get("normalisation"), str):
        changes = {**changes, "normalisation": Normalisation.parse(text)}
    filled = dataclasses.replace(card, **changes)  # type: ignore[arg-type]
    try:
        return Card.from_json(filled.to_json())
    except UsageError as error:
        raise UsageError(f"the card ({', '.join(changes)}) cannot be written: {error}") from error


def _rebuild(card: Card, weights: Weights) -> nn.Module:
    """The network of a card, its size compared with the file before anything is allocated."""
    path = weights.path
    if card.architecture is not None:
        try:
            expected = expected_shapes(card.architecture)
        except OptionError as error:
            raise FileRefused(path, f"its card describes a network that cannot be built ({error})") from error
        found = {name: entry.shape for name, entry in weights.entries.items()}
        _check_fit(found, expected, f"{path}: does not fit its own card")
        return card.architecture.build()
    if card.factory is not None:
        raise UsageError(
            f"{path}: is built by your own code; allow it with --network {card.factory} beside the file (to train "
            f"it further: --factory {card.factory}), in Python with load(…, network={card.factory!r})"
        )
    raise UsageError(
        f"{path}: does not say how to build its network; give it with --network package.module:function, in Python "
        "with load(…, network=SmallNet), your class or function that builds it"
    )


@torch.no_grad()
def _filled_int8(
    given: str | Architecture | nn.Module | Callable[[], nn.Module] | None, card: Card, weights: Weights
) -> nn.Module:
    """The network of a file with 8-bit layers, built from its card, or from ``given`` for a user-defined module."""
    path = weights.path
    if card.architecture is not None:
        built = card.architecture.build()
    elif isinstance(given, str) and is_factory(given):
        built = Factory.parse(given).build()
    elif given is None or isinstance(given, str | Architecture):
        way = f"load(…, network={card.factory!r})" if card.factory else "network=, the function that builds it"
        raise UsageError(f"{path}: is a module of your own with 8-bit layers, and its card cannot build it: give {way}")
    else:
        built = unwrapped(given if isinstance(given, nn.Module) else given())
    if card.widths and card.architecture is None:
        built, _ = folded(built, None)  # the file has no batch norms
        _reduce(built, weights, {name: name for name in weights.entries if name in built.state_dict()}, card.widths)
    made = int8_outline(built)
    state = made.state_dict()
    found = {name: entry.shape for name, entry in weights.stored.items()}
    _check_fit(found, {name: tuple(value.shape) for name, value in state.items()}, f"{path}: does not fit its own card")
    for name, target in state.items():
        if name in found:
            target.copy_(weights.as_written(name))
    return made


def _reduce(network: nn.Module, weights: Weights, keys: dict[str, str], widths: dict[str, int]) -> None:
    """Resize the layers of ``network`` that have fewer units in the file, if card and file agree on them."""
    shapes = {key: weights.entries[name].shape for name, key in keys.items()}
    what = f"{weights.path}: does not fit the network"
    try:
        found = units_with(network, shapes)
    except UsageError as error:
        raise DataMismatch(f"{what}: {error}") from error
    state = {key: shapes.get(key, tuple(tensor.shape)) for key, tensor in network.state_dict().items()}
    _check_fit({key: shape for key, shape in shapes.items() if key in state}, state, what)
    for layer, units in widths.items():
        held = None if layer in found else count_of(network, layer)
        if held is not None and 0 < units <= held:
            set_count(network, layer, units)
            continue
        if layer not in found:
            raise DataMismatch(f"{weights.path}: its card gives {layer} {units} units, the network has no such layer")
        if found[layer] != units:
            raise DataMismatch(
                f"{weights.path}: does not fit its own card: {layer} has {found[layer]} units, the card says {units}"
            )
    for layer, units in found.items():
        built = output_units(network.get_submodule(layer))
        if units != built and layer not in widths:
            raise DataMismatch(
                f"{what}: {layer} has {units} units, the network {built}, and the card does not say it was reduced"
            )
    resize(network, shapes)


def _in_stored_type(network: nn.Module, weights: Weights) -> nn.Module:
    """``network`` in the type of the file: a network saved in half precision is loaded in half precision."""
    types = {entry.torch_dtype for entry in weights.entries.values() if entry.is_float}
    return network.to(types.pop()) if len(types) == 1 else network


def _recognised(weights: Weights, removed: Removed) -> Match:
    match = recognise(weights, removed)
    if match is None:
        raise UsageError(
            f"{weights.path}: not a network in the catalogue; name it with --network, in Python "
            "network= (vgg:16, resnet:20, mynet.py:PartNet, a module …); inspect lists its layers"
        )
    return match


def _card_of_match(match: Match, weights: Weights) -> Card:
    summary = f"recognised as {match.architecture} ({match.layout}), normalised by {match.normalisation}"
    return Card(
        match.architecture,
        input_shape=match.architecture.input_shape,
        normalisation=match.normalisation,
        classes=match.classes,
        lineage=_read_from(weights),
        notes=(summary, *match.notes),
    )


def _card_as_asked(network: nn.Module, weights: Weights, stored: Card | None, notes: tuple[str, ...]) -> Card:
    """The card of a network named by the caller: its own fields, else the file's, else those inferred from keys."""
    own = card_of(network)
    if stored is not None:
        return dataclasses.replace(
            stored,
            architecture=own.architecture,
            factory=own.factory,
            input_shape=own.input_shape or stored.input_shape,
            notes=notes,
            widths={} if own.architecture is not None else stored.widths,
        )
    match = recognise(weights)
    normalisation = own.normalisation
    if normalisation == NONE and match is not None:
        normalisation = match.normalisation
    elif normalisation == NONE:
        notes = (*notes, _NOT_NORMALISED)
    return dataclasses.replace(own, normalisation=normalisation, lineage=_read_from(weights), notes=notes)


def _read_from(weights: Weights) -> Lineage:
    return Lineage(f"read from {weights.path.name} ({weights.format})")


def _paired(network: nn.Module, weights: Weights) -> tuple[dict[str, str], tuple[str, ...]]:
    """File key → network key, with notes: by name, by the catalogue, or by order if all shapes differ."""
    expected = {key: tuple(t.shape) for key, t in network.state_dict().items() if not is_counter(key)}
    found = bare_names(weights.entries)
    names = {name: bare for name, bare in found.items() if not is_counter(name)}
    if set(names.values()) & set(expected) == set(expected):
        counters = {name: bare for name, bare in found.items() if is_counter(name) and bare in network.state_dict()}
        return names | counters, ()
    match = recognise(weights, removed="zero")
    if match is not None and set(match.keys.values()) >= set(expected):
        return match.keys, (f"keys renamed as those of {match.layout}",)
    shapes = [weights.entries[name].shape for name in names]
    if shapes == list(expected.values()) and len({*shapes}) == len(shapes):
        return dict(zip(names, expected, strict=True)), ("tensors matched by their shapes: no name fits",)
    return names, ()


def _check_fit(found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]], what: str) -> None:
    """Every key and shape must agree, except batch norm's counters, which many files leave out."""
    missing = [key for key in expected if key not in found and not is_counter(key)]
    strange = [key for key in found if key not in expected and not is_counter(key)]
    if missing or strange:
        difference = f"lacks {missing[0]}" if missing else f"has {strange[0]}, which the network does not"
        more = f" and {len(missing) + len(strange) - 1} more" if len(missing) + len(strange) > 1 else ""
        raise DataMismatch(f"{what}: it {difference}{more}")
    for key, shape in expected.items():
        if found.get(key, shape) != shape:
            raise DataMismatch(f"{what}: {key} has shape {found[key]}, the network needs {shape}")


@torch.no_grad()
def _fill(network: nn.Module, weights: Weights, keys: dict[str, str]) -> nn.Module:
    """Copy the file's tensors into ``network`` one at a time, after checking that every key and shape fits."""
    state = network.state_dict()
    shapes = {key: weights.entries[name].shape for name, key in keys.items()}
    _check_fit(shapes, {key: tuple(t.shape) for key, t in state.items()}, f"{weights.path}: does not fit the network")
    names = {key: name for name, key in keys.items()}
    for key, target in state.items():
        if key in names:
            target.copy_(weights.tensor(names[key]))
        else:  # a batch counter: with 0 the statistics just read would be treated as unset
            target.fill_(1)
    return network
