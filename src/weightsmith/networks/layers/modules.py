"""Layers of a torch module, from the types of its submodules: exact kinds, groups and gates; values stay views."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from weightsmith.networks.layers.channels import Channels
from weightsmith.networks.layers.forms import Form
from weightsmith.networks.layers.names import guess, split_attention
from weightsmith.networks.layers.pending import Findings, PendingLayer, buffer, layer_name, why_not_real
from weightsmith.networks.weights import Entry, as_float

__all__ = ["find_in_module", "layer_kinds"]

_RNN_KINDS = {"LSTM": ("LSTM", 4), "GRU": ("GRU", 3), "RNN_TANH": ("RNN", 1), "RNN_RELU": ("RNN", 1)}
_CELLS: tuple[tuple[type[nn.Module], Form], ...] = (
    (nn.LSTMCell, Form("LSTM", gates=4)),
    (nn.GRUCell, Form("GRU", gates=3)),
    (nn.RNNCell, Form("RNN")),
)
_NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.PReLU,
)


@dataclass(frozen=True)
class _Source:
    """The source of a weight: its parameters, and how its effective value is computed."""

    parameters: tuple[Tensor, ...]
    read: Callable[[], Tensor]
    note: str = ""

    @property
    def stored(self) -> int:
        """The number of stored parameters of the weight."""
        return sum(p.numel() for p in self.parameters if not isinstance(p, nn.UninitializedParameter))

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the effective weight; only a parametrised one has to be computed for it."""
        first = self.parameters[0]
        if isinstance(first, nn.UninitializedParameter):
            return ()
        return tuple(self.read().shape if self.note else first.shape)


def find_in_module(network: nn.Module) -> Findings:
    """The layers of ``network`` in the order of its modules; weights that are the same parameter appear once."""
    search = _Search()
    for prefix, module in network.named_modules(remove_duplicate=False):
        if ".parametrizations." in f".{prefix}.":
            continue  # reached through the module it belongs to
        if _is_quantised(module):
            _leave_quantised(search.findings, prefix, module)
            continue
        if not module._parameters and not module._forward_pre_hooks and not parametrize.is_parametrized(module):
            continue  # a container, an activation
        forms = _forms(module)
        for attribute, source in _sources(module):
            search.visit(module, f"{prefix}.{attribute}".lstrip("."), source, forms.get(attribute))
    for name, tensor in network.named_buffers():
        shape = () if isinstance(tensor, nn.UninitializedBuffer) else tuple(tensor.shape)
        search.findings.left_out.append(buffer(name, shape))
    return search.findings


def layer_kinds(network: nn.Module) -> dict[str, str]:
    """The kinds of layers by the names of their weights, to be stored in a file so that it is read like the module."""
    return {
        f"{prefix}.{attribute}".lstrip("."): str(form)
        for prefix, module in network.named_modules(remove_duplicate=False)
        for attribute, form in _forms(module).items()
        if module._parameters.get(attribute) is not None  # a parametrised weight is computed, and stored by its parts
    }


class _Search:
    """The findings so far, and the layers of each parameter (none if it was left out)."""

    def __init__(self) -> None:
        self.findings = Findings()
        self._seen: dict[int, list[PendingLayer]] = {}

    def visit(self, module: nn.Module, name: str, source: _Source, form: Form | None) -> None:
        """Plan the layer of one weight, tie it to an earlier one, or leave it out with the reason."""
        first = id(source.parameters[0])
        if first in self._seen:
            for plan in self._seen[first]:
                plan.tie(name)
            return
        planned = self._plan(module, name, source, form)
        self._seen[first] = [] if isinstance(planned, str) else planned
        if isinstance(planned, str):
            self.findings.leave(name, source.shape, planned, source.stored)
        else:
            self.findings.plans += planned

    @staticmethod
    def _plan(module: nn.Module, name: str, source: _Source, form: Form | None) -> list[PendingLayer] | str:
        reason = _unreadable(source.parameters[0])
        if reason is not None:
            return reason
        notes = [source.note] if source.note else []
        if form is None:
            guessed = _guess(module, name, source.shape)
            if isinstance(guessed, str):
                return guessed
            form, more = guessed
            notes += [*more, f"by name and shape: {type(module).__name__} is no known kind of module"]
        if not form.fits(source.shape):
            return "has no values"
        if form.groups > 1:
            notes.append(f"{form.groups} groups")
        read = functools.partial(_value, source)
        dtype = str(source.parameters[0].dtype).removeprefix("torch.")
        if form.kind == "MultiheadAttention" and form.gates == 3:
            return split_attention(Entry(name, source.shape, dtype), read)
        return [PendingLayer(layer_name(name), form, source.shape, dtype, source.stored, read, notes)]


def _forms(module: nn.Module) -> Mapping[str, Form]:
    """The matrix attributes of a known module, and their forms."""
    if isinstance(module, nn.Linear):
        return {"weight": Form("Linear")}
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return {"weight": Form("Embedding")}
    if isinstance(module, nn.modules.conv._ConvNd):
        turned = "Transpose" if isinstance(module, nn.modules.conv._ConvTransposeNd) else ""
        return {"weight": Form(f"Conv{turned}{len(module.kernel_size)}d", groups=module.groups)}
    if isinstance(module, nn.RNNBase):
        kind, gates = _RNN_KINDS[module.mode]
        names = [name for name in module._flat_weights_names if name.startswith("weight")]
        return {name: Form(kind, gates=1 if name.startswith("weight_hr") else gates) for name in names}
    if isinstance(module, nn.MultiheadAttention):
        apart = {f"{part}_proj_weight": Form("MultiheadAttention") for part in "qkv"}
        return {"in_proj_weight": Form("MultiheadAttention", gates=3), **apart}
    for cell, form in _CELLS:
        if isinstance(module, cell):
            return {"weight_ih": form, "weight_hh": form}
    return {}


def _sources(module: nn.Module) -> Iterator[tuple[str, _Source]]:
    """The trained tensors of one module by attribute; a parametrised tensor counts once."""
    hidden: dict[str, _Source] = {}
    if parametrize.is_parametrized(module):
        chains: nn.ModuleDict = module.get_submodule("parametrizations")  # type: ignore[assignment]
        trained = {name: chain for name, chain in chains.items() if any(True for _ in chain.parameters())}
        hidden = {name: _parametrised(chain) for name, chain in trained.items()}
    used: set[str] = set()
    for hook in module._forward_pre_hooks.values():
        found = _hooked(module, hook)
        if found is not None:
            attribute, parts, source = found
            hidden[attribute] = source
            used.update(parts)
    yield from hidden.items()
    for attribute, parameter in module._parameters.items():
        if parameter is not None and attribute not in used:
            yield attribute, _Source((parameter,), functools.partial(_detached, parameter))


def _parametrised(chain: nn.Module) -> _Source:
    names = ", ".join(type(step).__name__.strip("_") for step in chain.children())

    def read() -> Tensor:
        # A copy in eval mode: spectral norm takes a step of its power iteration when read in training mode.
        with torch.no_grad():
            value: Tensor = copy.deepcopy(chain).eval()()
            return value

    return _Source(tuple(chain.parameters()), read, f"effective weight of a parametrisation ({names})")


def _hooked(module: nn.Module, hook: Any) -> tuple[str, tuple[str, ...], _Source] | None:
    """The older style of weight norm, spectral norm and pruning: a hook that computes the weight from its parts."""
    compute: Callable[[], Any]
    names: tuple[str, ...]
    match type(hook).__name__:
        case "WeightNorm":
            attribute, names = hook.name, (f"{hook.name}_v", f"{hook.name}_g")
            compute = functools.partial(hook.compute_weight, module)
        case "SpectralNorm":
            attribute, names = hook.name, (f"{hook.name}_orig",)
            compute = functools.partial(hook.compute_weight, module, do_power_iteration=False)
        case _ if hasattr(hook, "apply_mask"):
            attribute, names = hook._tensor_name, (f"{hook._tensor_name}_orig",)
            compute = functools.partial(hook.apply_mask, module)
        case _:
            return None

    def read() -> Tensor:
        with torch.no_grad():
            value: Tensor = compute()
            return value.detach()

    parts = tuple(module.get_parameter(name) for name in names)
    return attribute, names, _Source(parts, read, f"effective weight behind {type(hook).__name__}")


def _guess(module: nn.Module, name: str, shape: tuple[int, ...]) -> tuple[Form, list[str]] | str:
    prefix, dot, attribute = name.rpartition(".")
    if isinstance(module, _NORMS):
        return "bias" if attribute == "bias" else f"scale of {type(module).__name__}"
    tensors = {**module._parameters, **module._buffers}
    entries = {
        f"{prefix}{dot}{key}": Entry(f"{prefix}{dot}{key}", tuple(tensor.shape), "float32")
        for key, tensor in tensors.items()
        if tensor is not None and not isinstance(tensor, nn.UninitializedParameter | nn.UninitializedBuffer)
    }
    return guess(name, shape, entries, Channels())


def _unreadable(parameter: Tensor) -> str | None:
    if isinstance(parameter, nn.UninitializedParameter):
        return "not initialised yet: run the network once"
    if parameter.is_meta:
        return "has no values (meta device)"
    if parameter.is_complex():
        return "complex numbers"
    if parameter.layout != torch.strided:
        return f"stored as {parameter.layout}"
    if not parameter.is_floating_point():
        return why_not_real(str(parameter.dtype).removeprefix("torch."))
    return None


def _is_quantised(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.") and ".quantized." in type(module).__module__


def _leave_quantised(findings: Findings, prefix: str, module: nn.Module) -> None:
    """Record a module of torch's integer arithmetic: its weight is packed, but its size is known."""
    unpack = getattr(module, "weight", None)
    if callable(unpack):
        weight = unpack()
        reason = f"integer-quantised ({str(weight.dtype).removeprefix('torch.')})"
        findings.leave(prefix or type(module).__name__, tuple(weight.shape), reason)
    elif not any(True for _ in module.children()):
        return
    else:
        findings.leave(prefix, (), f"integer-quantised ({type(module).__name__}), its size is not known", 0)


def _value(source: _Source) -> Tensor:
    return as_float(source.read().detach())


def _detached(parameter: Tensor) -> Tensor:
    return parameter.detach()
