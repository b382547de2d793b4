"""One of two networks that are compared, whatever it was given as."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weightsmith.chain._beside import Maker, record_beside
from weightsmith.chain._diff_records import NetworkFacts
from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.networks.architecture import architecture_of
from weightsmith.networks.card import Card, card_of
from weightsmith.networks.files import load, read_card
from weightsmith.networks.layers import network_digest, walk
from weightsmith.networks.operations import count_operations
from weightsmith.networks.weights import open_weights
from weightsmith.reducing.latency import file_bytes
from weightsmith.reducing.results import Reduction
from weightsmith.spiking.files import is_spiking, load_spiking, save_spiking, spiking_digest
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.results import SpikeRun
from weightsmith.training.run import TrainRun

__all__ = ["Side", "open_sides"]


@dataclasses.dataclass(frozen=True)
class Side:
    """A network: ``module`` or ``spiking`` if it can be run, otherwise ``cannot_run`` says why.

    ``weights`` is what a walk takes; ``record`` the record of the verb that made it, if there is one.
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

    @property
    def kind(self) -> str:
        """What it is called in records."""
        return "spiking network" if self.spiking is not None else "network" if self.module is not None else "weights"

    def facts(self, shape: tuple[int, ...]) -> tuple[NetworkFacts, list[str]]:
        """Name and sizes, with notes on what is missing; ``shape`` is that of an input if the card names none."""
        macs, notes = self._macs(self.card.input_shape or shape)
        architecture = self.card.architecture or (None if self.module is None else architecture_of(self.module))
        facts = NetworkFacts(
            name=self.name,
            kind=self.kind,
            network=self.digest,
            architecture=None if architecture is None else str(architecture),
            parameters=walk(self.weights).parameters,
            file_bytes=self.bytes,
            macs=macs,
        )
        return facts, notes

    def _macs(self, shape: tuple[int, ...]) -> tuple[int | None, list[str]]:
        if self.spiking is not None:
            return None, []  # it adds where spikes arrive, which a run counts
        if self.module is None:
            return None, [f"MACs of {self.name}: {self.cannot_run}"]
        if not shape:
            return None, [f"MACs of {self.name}: the shape of its inputs is not known; with data it is"]
        try:
            counted = count_operations(self.module, torch.zeros(1, *shape))
        except (DataMismatch, UsageError) as error:
            return None, [f"MACs of {self.name}: {error}"]
        left = f"MACs of {self.name} leave out {', '.join(counted.uncounted[:3])}"
        return counted.total, [left] if counted.uncounted else []


def open_sides(a: Any, b: Any) -> tuple[Side, Side]:
    """Both as sides: modules, spiking networks, runs of verbs, files or result folders; with names that differ."""
    first, second = _opened(a, "the first network"), _opened(b, "the second network")
    if first.name == second.name and first.digest != second.digest:
        return dataclasses.replace(first, name=f"{first.name} (A)"), dataclasses.replace(
            second, name=f"{second.name} (B)"
        )
    return first, second


def _opened(given: Any, which: str) -> Side:
    if isinstance(given, TrainRun | Reduction):
        return dataclasses.replace(_from_module(given.network), record=given.record)
    if isinstance(given, SpikeRun):
        return dataclasses.replace(_from_spiking(given.network), record=given.record)
    if isinstance(given, SpikingNetwork):
        return _from_spiking(given)
    if isinstance(given, nn.Module):
        return _from_module(given)
    if isinstance(given, str | Path):
        return _from_path(Path(given))
    raise UsageError(
        f"{which} is a {type(given).__name__}: give a network, a spiking network, a run, a file or a result folder"
    )


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


def _from_path(path: Path) -> Side:
    if is_spiking(path):
        network = load_spiking(path)
        file = path / "network.safetensors" if path.is_dir() else path
        digest, size = spiking_digest(network), file.stat().st_size
        side = Side(str(path), digest, _tensors(network), network.card, size, spiking=network)
    else:
        opened = open_weights(path)
        digest = network_digest(opened)
        inside = sum(entry.nbytes for entry in opened.entries.values())
        size = opened.path.stat().st_size if opened.path.is_file() else inside
        try:
            module = load(path)
            # Walked as built: files of different tools call the same layers by different names.
            side = Side(str(path), digest, module, card_of(module), size, module=module)
        except (UsageError, DataMismatch) as error:
            card = read_card(opened) or Card()
            side = Side(str(path), digest, opened, card, size, cannot_run=_without_path(str(error), path))
    try:
        return dataclasses.replace(side, record=record_beside(path, digest))
    except FileRefused as error:
        return dataclasses.replace(side, notes=(*side.notes, f"settings of {side.name}: {error}"))


def _without_path(message: str, path: Path) -> str:
    return message.removeprefix(f"{path}: ")


def _tensors(network: SpikingNetwork) -> dict[str, torch.Tensor]:
    """Weights and biases by the names that a plain network gives them."""
    found = {f"{node.name}.weight": node.weight for node in network.synapses}
    found |= {f"{node.name}.bias": node.bias for node in network.synapses if node.bias is not None}
    return found
