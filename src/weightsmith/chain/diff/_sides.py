"""One of the two networks of a comparison, opened from any kind of input."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weightsmith.chain.diff._records import Missing, NetworkFacts
from weightsmith.chain.reading._nearby_records import Maker, nearby_record
from weightsmith.chain.tailor.results import Tailored
from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import Card, card_of
from weightsmith.networks.editing.copying import copied
from weightsmith.networks.editing.int8 import has_int8
from weightsmith.networks.files import load, read_card
from weightsmith.networks.layers.walk import network_digest, walk
from weightsmith.networks.models.architecture import Architecture, architecture_of
from weightsmith.networks.operations import count_operations
from weightsmith.networks.weights import open_weights
from weightsmith.reducing.latency import file_bytes
from weightsmith.reducing.results import Reduction
from weightsmith.spiking.files import is_spiking, load_spiking, save_spiking, spiking_digest
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.results import SpikeRun
from weightsmith.training.run import TrainRun

__all__ = ["Asked", "Side", "open_sides"]


@dataclasses.dataclass(frozen=True)
class Asked:
    """The caller's settings for files that lack them, as in :func:`weightsmith.networks.load`."""

    network: str | Architecture | nn.Module | Callable[[], nn.Module] | None = None
    normalise: Normalisation | None = None
    input_shape: tuple[int, ...] = ()
    classes: int | None = None

    def load(self, path: Path, *, as_asked: bool) -> nn.Module:
        """The network in a file, built by ``network`` or by the file's card; the caller's module is copied."""
        network = self.network if as_asked else None
        return load(
            path,
            network=copied(network) if isinstance(network, nn.Module) else network,
            normalise=self.normalise,
            input_shape=self.input_shape,
            classes=self.classes,
        )


@dataclasses.dataclass(frozen=True)
class Side:
    """A network: ``module`` or ``spiking`` if it can be run, otherwise ``cannot_run`` says why.

    ``weights`` is the input of ``grade``; ``record`` the record of the verb that made the network, if any. For a
    network file (``from_file``), ``as_asked`` says that it was built by the caller's settings.
    """

    name: str
    digest: str
    weights: Any
    card: Card
    bytes: int | None
    module: nn.Module | None = None
    spiking: SpikingNetwork | None = None
    cannot_run: str | None = None
    record: Maker | None = None
    notes: tuple[str, ...] = ()
    from_file: bool = False
    as_asked: bool = False

    @property
    def kind(self) -> str:
        """The kind of network, as records name it."""
        return "spiking network" if self.spiking is not None else "network" if self.module is not None else "weights"

    def facts(self, shape: tuple[int, ...]) -> tuple[NetworkFacts, list[Missing]]:
        """Name and sizes, and what is missing; ``shape`` is the input shape if the card has none."""
        macs, connections, missing = self._macs(self.card.input_shape or shape)
        architecture = self.card.architecture or (None if self.module is None else architecture_of(self.module))
        facts = NetworkFacts(
            name=self.name,
            kind=self.kind,
            network=self.digest,
            architecture=None if architecture is None else str(architecture),
            parameters=walk(self.weights).parameters,
            file_bytes=self.bytes,
            macs=macs,
            connections=connections,
            numbers="int8" if self.module is not None and has_int8(self.module) else "float32",
        )
        return facts, missing

    def _macs(self, shape: tuple[int, ...]) -> tuple[int | None, int | None, list[Missing]]:
        if self.spiking is not None:
            return None, None, []  # accumulates at spikes, counted in a run
        reason = self.cannot_run
        if self.module is not None and shape:
            try:
                example = torch.zeros(1, *shape)
                counted = count_operations(self.module, example)
                connections = count_operations(self.module, example, zeros=False).total
            except (DataMismatch, UsageError) as error:
                reason = str(error)
            else:
                left = ", ".join(counted.uncounted[:3])
                missing = [Missing("some MACs", self.name, f"not those of {left}")] if left else []
                return counted.total, connections, missing
        elif self.module is not None:
            reason = "its input shape is unknown; give data"
        return None, None, [Missing("MACs", self.name, str(reason))]


def open_sides(a: Any, b: Any, asked: Asked | None = None) -> tuple[Side, Side]:
    """Both as sides: modules, spiking networks, runs of verbs, files or result folders, with distinct names.

    The ``asked`` settings must apply to at least one of them.
    """
    asked = asked or Asked()
    first, second = _opened(a, "the first network", asked), _opened(b, "the second network", asked)
    _check_used(asked, first, second)
    if first.name == second.name and first.digest != second.digest:
        return dataclasses.replace(first, name=f"{first.name} (A)"), dataclasses.replace(
            second, name=f"{second.name} (B)"
        )
    return first, second


def _check_used(asked: Asked, a: Side, b: Side) -> None:
    """Raise for settings that apply to neither network."""
    if asked.normalise is not None and not (a.from_file or b.from_file):
        raise UsageError("normalise is for network files: a network in memory, or a spiking one, has its own")
    concerned = [side for side in (a, b) if side.as_asked]
    if asked.network is not None and not concerned:
        raise UsageError(
            "network is for files that do not say how their network is built: neither of these two needs it"
        )
    failed = [side for side in concerned if side.module is None]
    if asked.network is not None and failed == concerned:
        raise DataMismatch(f"{failed[0].name}: {failed[0].cannot_run}")


def _opened(given: Any, which: str, asked: Asked) -> Side:
    if isinstance(given, TrainRun | Reduction | SpikeRun | Tailored):
        return dataclasses.replace(_in_memory(given.network), record=given.record)
    if isinstance(given, SpikingNetwork | nn.Module):
        return _in_memory(given)
    if isinstance(given, str | Path):
        return _from_path(Path(given), asked)
    raise UsageError(
        f"{which} is a {type(given).__name__}: give a network, a spiking network, a run, a file or a result folder"
    )


def _in_memory(network: nn.Module | SpikingNetwork) -> Side:
    return _from_spiking(network) if isinstance(network, SpikingNetwork) else _from_module(network)


def _from_module(network: nn.Module) -> Side:
    size: int | None = None
    notes: tuple[str, ...] = ()
    name = _name_of(network)
    try:
        size = file_bytes(network)
    except (UsageError, DataMismatch) as error:
        notes = (f"file of {name}: {error}",)
    return Side(name, network_digest(network), network, card_of(network), size, module=network, notes=notes)


def _name_of(network: nn.Module) -> str:
    architecture = architecture_of(network)
    return type(network).__name__ if architecture is None else str(architecture)


def _from_spiking(network: SpikingNetwork) -> Side:
    with tempfile.TemporaryDirectory(prefix="weightsmith-") as folder:
        size = save_spiking(network, Path(folder) / "network.safetensors").stat().st_size
    return Side("SpikingNetwork", spiking_digest(network), _tensors(network), network.card, size, spiking=network)


def _from_path(path: Path, asked: Asked) -> Side:
    side = _spiking_file(path) if is_spiking(path) else _network_file(path, asked)
    try:
        return dataclasses.replace(side, record=nearby_record(path, side.digest))
    except FileRefused as error:
        return dataclasses.replace(side, notes=(*side.notes, f"settings of {side.name}: {error}"))


def _spiking_file(path: Path) -> Side:
    network = load_spiking(path)
    file = path / "network.safetensors" if path.is_dir() else path
    digest, size = spiking_digest(network), file.stat().st_size
    return Side(str(path), digest, _tensors(network), network.card, size, spiking=network)


def _network_file(path: Path, asked: Asked) -> Side:
    opened = open_weights(path)
    card = read_card(opened)
    inside = sum(entry.nbytes for entry in opened.entries.values())
    size = opened.path.stat().st_size if opened.path.is_file() else inside
    as_asked = asked.network is not None and (card is None or card.architecture is None)
    side = Side(str(path), network_digest(opened), opened, card or Card(), size, from_file=True, as_asked=as_asked)
    try:
        module = asked.load(path, as_asked=as_asked)
    except (UsageError, DataMismatch) as error:
        if as_asked and isinstance(error, UsageError):  # the settings are wrong for any file
            raise
        return dataclasses.replace(side, cannot_run=str(error).removeprefix(f"{opened.path}: "))
    # Weights of the built module: files of different tools use different names for the same layers.
    return dataclasses.replace(side, weights=module, card=card_of(module), module=module)


def _tensors(network: SpikingNetwork) -> dict[str, torch.Tensor]:
    """Weights and biases by their names in a plain network."""
    found = {f"{node.name}.weight": node.weight for node in network.synapses}
    found |= {f"{node.name}.bias": node.bias for node in network.synapses if node.bias is not None}
    return found
