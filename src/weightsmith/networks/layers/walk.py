"""Walk over the layers of a network (a module, a state dict or a file) as matrices.

>>> from torch import nn
>>> found = walk(nn.Sequential(nn.Conv2d(3, 8, 5), nn.ReLU(), nn.Linear(8, 2)))
>>> [(layer.name, layer.kind, tuple(layer.matrices.shape)) for layer in found]
[('0', 'Conv2d', (25, 8, 3)), ('2', 'Linear', (1, 2, 8))]
>>> found.covered, found.parameters, [(item.name, item.reason) for item in found.left_out]
(616, 626, [('0.bias', 'bias'), ('2.bias', 'bias')])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.networks.held import held_network
from weightsmith.networks.layers.adapters import find_in_adapter, is_adapter
from weightsmith.networks.layers.channels import fits_pattern, settle_groups
from weightsmith.networks.layers.modules import find_in_module
from weightsmith.networks.layers.names import find_in_weights
from weightsmith.networks.layers.pending import Findings, PendingLayer
from weightsmith.networks.weights import Entry, LeftOut, Weights, open_weights
from weightsmith.networks.wrappers import unwrapped

__all__ = ["LayerOutline", "LayerWeights", "Walk", "find_layers", "network_digest", "opened", "walk", "why_no_values"]


@dataclass(frozen=True)
class LayerOutline:
    """A layer before its values are read: ``dtype`` as stored, ``matrices`` the shape (count, rows, columns)."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    matrices: tuple[int, int, int]
    parameters: int
    tied_with: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """One layer: its matrices of out × in, stacked to (count, rows, columns), and their source.

    A convolution has one matrix per kernel position (and group), a recurrent layer one per gate. ``shape`` is that of
    the weight itself, ``tied_with`` names the layers that use the same weight, ``notes`` state what was guessed.
    """

    name: str
    kind: str
    matrices: Tensor
    shape: tuple[int, ...]
    parameters: int
    tied_with: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Walk(Iterable[LayerWeights]):
    """The layers of a network; each is read when its turn comes, and a second loop reads again.

    ``parameters`` is the total, ``covered`` the number in layers; the rest is in ``left_out`` with its reason, so that
    both add up to the total. Buffers are listed there with no parameters. Tied weights count once.
    """

    layers: tuple[LayerOutline, ...]
    left_out: tuple[LeftOut, ...]

    def __init__(self, plans: Iterable[PendingLayer], left_out: Iterable[LeftOut]) -> None:
        self._plans = tuple(plans)
        self.left_out = tuple(left_out)
        self.layers = tuple(
            LayerOutline(
                plan.name,
                plan.form.kind,
                plan.shape,
                plan.dtype,
                plan.form.stack_shape(plan.shape),
                plan.parameters,
                tuple(plan.tied_with),
                _notes(plan),
            )
            for plan in self._plans
        )

    @property
    def covered(self) -> int:
        """Parameters in layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def parameters(self) -> int:
        """All parameters, in layers or left out."""
        return self.covered + sum(item.parameters for item in self.left_out)

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[LayerWeights]:
        return map(self.read, range(len(self)))

    def read(self, index: int) -> LayerWeights:
        """One layer with its values; a loop over indices holds one layer at a time, iteration over the walk two."""
        plan, outline = self._plans[index], self.layers[index]
        return LayerWeights(
            outline.name,
            outline.kind,
            plan.form.stack(plan.read()),
            outline.shape,
            outline.parameters,
            outline.tied_with,
            outline.notes,
        )


def walk(
    network: object,
    *,
    layers: str | Sequence[str] | None = None,
    conv_groups: str | Sequence[str] | None = None,
) -> Walk:
    """The layers of a network; ``layers`` selects those that match a glob, or one of several.

    A network is a module, a state dict, opened weights, a file or a folder (also a LoRA adapter, whose layers are the
    products it adds), a Keras model in memory or an ``onnx.ModelProto``.

    Nothing is changed, and copies are avoided: the matrices of a float32 (or float64) module or state dict are views of
    its memory (except grouped convolutions and parametrised weights), so do not write to them. From a file they have
    their own memory. From a module kinds are exact; from names they are inferred, see ``notes``. Groups of
    convolutions, which files of tensors do not store, are given as ``conv_groups``: ``NAME=N``, or several.
    """
    findings = find_layers(network, layers=layers, conv_groups=conv_groups)
    return Walk(findings.plans, findings.left_out)


def find_layers(
    network: object,
    *,
    layers: str | Sequence[str] | None = None,
    conv_groups: str | Sequence[str] | None = None,
) -> Findings:
    """The pending layers that :func:`walk` will visit, for callers that pair layers or write them back."""
    weights = opened(network)
    if isinstance(weights, nn.Module):
        findings = find_in_module(weights)
    else:
        findings = find_in_adapter(weights) if is_adapter(weights) else find_in_weights(weights)
    if conv_groups is not None:
        findings = Findings(settle_groups(findings.plans, conv_groups), findings.left_out)
    if layers is None:
        return findings
    patterns = (layers,) if isinstance(layers, str) else tuple(layers)
    for pattern in patterns:
        if not any(fits_pattern(plan.name, pattern) for plan in findings.plans):
            raise UnknownName("layer", pattern, [plan.name for plan in findings.plans[:12]])
    chosen = [plan for plan in findings.plans if any(fits_pattern(plan.name, pattern) for pattern in patterns)]
    others = [plan for plan in findings.plans if plan not in chosen]
    asked = " or ".join(map(repr, patterns))
    unselected = [LeftOut(plan.name, plan.shape, plan.parameters, f"not selected by {asked}") for plan in others]
    return Findings(chosen, [*findings.left_out, *unselected])


def opened(network: object) -> nn.Module | Weights:
    """Any accepted form of a network as a module or as weights; for a result, the network that it holds."""
    network = held_network(network)
    # Checked first: on the torch backend a Keras model is a torch module as well, with transposed weights.
    if any(_descends(network, package, "Model") for package in ("keras", "tf_keras")):
        from weightsmith.networks.layers.live import KerasModelWeights

        return KerasModelWeights(network)
    if isinstance(network, nn.Module):
        return unwrapped(network)
    if isinstance(network, Weights):
        return network
    if isinstance(network, str | Path):
        return open_weights(network)
    if isinstance(network, Mapping):
        return _StateDict(network)
    if _descends(network, "onnx", "ModelProto"):
        from weightsmith.networks.layers.live import OnnxModelWeights

        return OnnxModelWeights(network)
    raise UsageError(f"a {type(network).__name__} cannot be walked: give a module, a state dict, weights or a path")


def _descends(network: object, package: str, name: str) -> bool:
    """Whether ``network`` is an instance of a class of another package, by name, without importing it."""
    bases = type(network).__mro__
    return any(base.__name__ == name and base.__module__.partition(".")[0] == package for base in bases)


def network_digest(network: object) -> str:
    """The identifier of a network in lineages; tensors without values (lazy, quantised) are skipped, as in a walk."""
    found = opened(network)
    if isinstance(found, Weights):
        return weights_digest(found)
    return weights_digest({name: value for name, value in found.state_dict().items() if why_no_values(value) is None})


def _notes(plan: PendingLayer) -> tuple[str, ...]:
    tied = [f"shares its weight with {', '.join(plan.tied_with)}"] if plan.tied_with else []
    single = (
        ["one input channel: graded as out × (in·k), a filter per row"] if plan.form.has_one_input(plan.shape) else []
    )
    return (*plan.notes, *single, *tied)


class _StateDict(Weights):
    """A state dict in memory with the interface of :class:`Weights`; tensors are not copied."""

    format = "state dict"

    def __init__(self, tensors: Mapping[str, object]) -> None:
        self._tensors: dict[str, Tensor] = {}
        stored: list[Entry] = []
        left_out: list[LeftOut] = []
        aliases: dict[str, str] = {}
        first: dict[object, str] = {}
        for name, value in ((str(key), value) for key, value in tensors.items()):
            reason = why_no_values(value)
            if reason is not None or not isinstance(value, Tensor):
                known = isinstance(value, Tensor) and not isinstance(value, nn.UninitializedParameter)
                shape = tuple(value.shape) if known and isinstance(value, Tensor) else ()
                count = value.numel() if known and isinstance(value, Tensor) else 0
                left_out.append(LeftOut(name, shape, count, reason or "not a tensor"))
                continue
            self._tensors[name] = value
            stored.append(Entry(name, tuple(value.shape), str(value.dtype).removeprefix("torch.")))
            view = (
                value.untyped_storage().data_ptr(),
                value.storage_offset(),
                value.shape,
                value.stride(),
                value.dtype,
            )
            if value.numel() and first.setdefault(view, name) != name:
                aliases[name] = first[view]
        if not stored and not left_out:
            raise UsageError("the state dict is empty")
        super().__init__(Path("state dict"), stored, left_out=left_out, aliases=aliases)

    def _read(self, name: str) -> Tensor:
        return self._tensors[name].detach()


def why_no_values(value: object) -> str | None:
    """The reason why an item of a state dict cannot be read as numbers, or None."""
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}, not a tensor"
    if isinstance(value, nn.UninitializedParameter | nn.UninitializedBuffer):
        return "not initialised yet"
    if value.is_meta:
        return "has no values (meta device)"
    if value.is_quantized:
        return f"quantised by torch ({str(value.dtype).removeprefix('torch.')})"
    if value.is_complex() or value.layout != torch.strided:
        return "complex numbers" if value.is_complex() else f"stored as {value.layout}"
    return None
