"""Give a layer tensors of other shapes and update its size attributes; used by every removal of units.

>>> layer = nn.Linear(4, 3)
>>> set_tensors(layer, {"weight": torch.ones(2, 4), "bias": torch.zeros(2)})
>>> layer
Linear(in_features=4, out_features=2, bias=True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks.editing.attention import FewerHeads

__all__ = [
    "Shapes",
    "count_of",
    "output_units",
    "outputs_first",
    "resize",
    "set_count",
    "set_tensors",
    "units_with",
]

Shapes = Mapping[str, tuple[int, ...]]


class _Sizes(NamedTuple):
    """The size attributes of a layer, and the tensor shapes that go with them."""

    attributes: dict[str, Any]
    shapes: Shapes


def set_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put ``tensors`` (``weight``, ``bias``, ``running_mean`` …) into a layer; its sizes are set from their shapes.

    The values are copied and keep the type, device and ``requires_grad`` of the old tensors. A dense layer or
    convolution without bias may be given one. All tensors of the layer must fit each other afterwards, or nothing is
    changed. Groups of convolutions and group norms keep their size if whole groups are left, else their number. Unknown
    kinds of layers are refused.
    """
    what = f"{type(module).__name__}({module.extra_repr()})"
    stored = _stored(module, what)
    for name in tensors:
        if name not in stored:
            raise UnknownName(f"tensor of {what}", name, stored)
    before = {name: tuple(tensor.shape) for name, tensor in stored.items() if tensor is not None}
    sizes = _sizes(module, {**before, **{name: tuple(new.shape) for name, new in tensors.items()}}, what)
    for name, tensor in tensors.items():
        _put(module, name, tensor)
    for attribute, value in sizes.attributes.items():
        setattr(module, attribute, value)


def output_units(module: nn.Module) -> int | None:
    """The number of output units of a dense layer or convolution (for attention: queries, keys and values together).

    None for any other module.

    >>> output_units(nn.Conv2d(3, 8, 3)), output_units(nn.BatchNorm2d(8))
    (8, None)
    """
    if isinstance(module, nn.Linear):
        return module.out_features
    if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
        return len(module.in_proj_weight)
    return module.out_channels if isinstance(module, _ConvNd) else None


def count_of(network: nn.Module, name: str) -> int | None:
    """The output units of the layer ``name``, or the integer attribute of that name (``block.heads``)."""
    modules = dict(network.named_modules())
    if name in modules:
        return output_units(modules[name])
    owner, _, attribute = name.rpartition(".")
    value = vars(modules[owner]).get(attribute) if owner in modules else None
    return value if type(value) is int else None


def set_count(network: nn.Module, name: str, value: int) -> None:
    """Set the integer attribute ``name`` of a module to a value that is not greater than before."""
    before = count_of(network, name)
    owner, _, attribute = name.rpartition(".")
    if before is None or not 0 < value <= before or attribute not in vars(network.get_submodule(owner)):
        raise UsageError(f"{name} cannot become {value}: it is {'not an integer' if before is None else before}")
    setattr(network.get_submodule(owner), attribute, value)


def outputs_first(module: nn.Module) -> Tensor:
    """The weight of a layer as (outputs, inputs, …): a view, with both axes swapped for a transposed convolution.

    >>> outputs_first(nn.ConvTranspose2d(4, 3, 2)).shape[:2]
    torch.Size([3, 4])
    """
    if isinstance(module, nn.MultiheadAttention):
        return module.get_parameter("in_proj_weight")
    weight = module.get_parameter("weight")
    return weight.transpose(0, 1) if isinstance(module, _ConvTransposeNd) else weight


def units_with(network: nn.Module, shapes: Shapes) -> dict[str, int]:
    """The number of output units of every dense layer and convolution if the tensors of ``network`` had ``shapes``.

    ``shapes`` has the keys of the network's state. Nothing is changed or allocated; the error names a layer that does
    not fit.

    >>> units_with(nn.Sequential(nn.Linear(4, 3)), {"0.weight": (2, 4), "0.bias": (2,)})
    {'0': 2}
    """
    return {name: plan.units for name, plan in _plans(network, shapes).items() if plan.units is not None}


def resize(network: nn.Module, shapes: Shapes) -> nn.Module:
    """Resize, in place, every layer of ``network`` whose tensors have other shapes in ``shapes`` (keys of its state).

    The new tensors are zero: the caller fills them. Shared weights stay shared. Nothing is allocated before every layer
    is known to be resizable.
    """
    changed = {plan.module: plan for plan in _plans(network, shapes).values() if plan.changes}
    shared: dict[tuple[int, tuple[int, ...]], nn.Parameter] = {}
    for plan in changed.values():
        parameters = dict(plan.module.named_parameters(recurse=False))
        set_tensors(plan.module, {key: torch.zeros(()).expand(shape) for key, shape in plan.changes.items()})
        for key in plan.changes.keys() & parameters.keys():
            new = getattr(plan.module, key)
            setattr(plan.module, key, shared.setdefault((id(parameters[key]), tuple(new.shape)), new))
    return network


class _Plan(NamedTuple):
    """The new sizes of one layer."""

    module: nn.Module
    changes: Shapes
    units: int | None


def _plans(network: nn.Module, shapes: Shapes) -> dict[str, _Plan]:
    """A plan for every layer whose tensors differ from ``shapes``, and for every dense layer and convolution."""
    plans, taken = {}, set[str]()
    for name, module in network.named_modules(remove_duplicate=False):
        tensors = [*module._parameters, *module._buffers]
        own = {
            key: f"{name}.{key}".removeprefix(".") for key in tensors if key not in module._non_persistent_buffers_set
        }
        taken |= {*own.values()}
        wanted = {key: shapes[full] for key, full in own.items() if full in shapes}
        changes = {key: shape for key, shape in wanted.items() if getattr(getattr(module, key), "shape", None) != shape}
        units = output_units(module)
        if changes:
            before = {key: tuple(tensor.shape) for key, tensor in _stored(module, name).items() if tensor is not None}
            attributes = _sizes(module, {**before, **wanted}, name).attributes
            joint = wanted.get("in_proj_weight", (None,))[0]
            units = attributes.get("out_features", attributes.get("out_channels", joint))
        if changes or units is not None:
            plans[name] = _Plan(module, changes, units)
    strange = next((key for key in shapes if key not in taken), None)
    if strange is not None:
        raise UsageError(f"{strange}: the network has no such tensor")
    return plans


def _stored(module: nn.Module, what: str) -> dict[str, Tensor | None]:
    """The tensors of a layer of a known kind; None for a bias it could have."""
    if not isinstance(module, tuple(_KINDS)):
        raise UsageError(f"{what}: a {type(module).__name__} cannot be resized")
    tensors: dict[str, Tensor | None] = {**module._parameters, **module._buffers}
    has_own = "weight" in tensors or tensors.get("in_proj_weight") is not None
    if is_parametrized(module) or not has_own:
        raise UsageError(f"{what}: its weight is computed from other tensors; make it permanent before resizing")
    if any(tensor is not None and is_lazy(tensor) for tensor in tensors.values()):
        raise UsageError(f"{what}: has no size yet (a lazy layer); run the network once on an example first")
    can_get_bias = isinstance(module, nn.Linear | _ConvNd)
    return {key: tensor for key, tensor in tensors.items() if tensor is not None or (key == "bias" and can_get_bias)}


def _put(module: nn.Module, name: str, tensor: Tensor) -> None:
    old = getattr(module, name)
    like: Tensor = module.get_parameter("weight") if old is None else old
    new = torch.empty(tensor.shape, dtype=like.dtype, device=like.device).copy_(tensor.detach())
    is_parameter = name in module._parameters
    setattr(module, name, nn.Parameter(new, requires_grad=like.requires_grad) if is_parameter else new)


def _sizes(module: nn.Module, shapes: Shapes, what: str) -> _Sizes:
    """The sizes of a layer of a known kind with tensors of these shapes, if they fit each other."""
    empty = next((name for name, shape in shapes.items() if 0 in shape), None)
    if empty is not None:
        raise UsageError(f"{what}: {empty} of shape {shapes[empty]} leaves no units")
    leading = next(iter(shapes), None)  # the weight, or the running mean of a norm without one
    if leading is None:
        return _Sizes({}, {})
    rank = getattr(module, leading).dim()
    if len(shapes[leading]) != rank:
        raise UsageError(f"{what}: {leading} must have {rank} axes, not the shape {shapes[leading]}")
    rule = next(rule for kind, rule in _KINDS.items() if isinstance(module, kind))
    sizes = rule(module, shapes[leading])
    for name, shape in shapes.items():
        fitting = sizes.shapes.get(name, ())
        if shape != fitting:
            raise UsageError(f"{what}: {name} of shape {shape} does not fit its other tensors; {fitting} would")
    return sizes


def _dense(_module: Any, weight: tuple[int, ...]) -> _Sizes:
    units, inputs = weight
    return _Sizes({"in_features": inputs, "out_features": units}, {"weight": weight, "bias": (units,)})


def _convolution(module: Any, weight: tuple[int, ...]) -> _Sizes:
    """Weights are (out, in / groups, kernel …)."""
    alone, each = module.groups == module.in_channels > 1, module.out_channels // module.groups
    if alone and weight[0] % each:
        raise UsageError(f"{module}: gives {each} channels per input channel, so it cannot have {weight[0]} outputs")
    whole = weight[1] * module.groups == module.in_channels and weight[0] % each == 0  # whole groups are left
    groups = weight[0] // each if alone or (whole and module.groups > 1) else module.groups
    return _grouped(module, (weight[1] * groups, weight[0]), groups)


def _transposed(module: Any, weight: tuple[int, ...]) -> _Sizes:
    """Weights are (in, out / groups, kernel …)."""
    groups = weight[0] if module.groups == module.in_channels > 1 else module.groups
    return _grouped(module, (weight[0], weight[1] * groups), groups)


def _grouped(module: Any, channels: tuple[int, int], groups: int) -> _Sizes:
    inputs, outputs = channels
    if groups < 1 or inputs % groups or outputs % groups:
        raise UsageError(f"{module}: {inputs} channels in and {outputs} out cannot be split into {groups} groups")
    first, second = (inputs, outputs // groups) if module.transposed else (outputs, inputs // groups)
    attributes = {"in_channels": inputs, "out_channels": outputs, "groups": groups}
    return _Sizes(attributes, {"weight": (first, second, *module.kernel_size), "bias": (outputs,)})


def _channels(_module: Any, leading: tuple[int, ...]) -> _Sizes:
    """Batch and instance norms: all tensors but the counter of batches have one value per channel."""
    names = ("weight", "bias", "running_mean", "running_var")
    return _Sizes({"num_features": leading[0]}, dict.fromkeys(names, leading))


def _group_norm(module: Any, weight: tuple[int, ...]) -> _Sizes:
    size = module.num_channels // module.num_groups
    whole = module.num_groups > 1 and weight[0] % size == 0  # whole groups are left
    groups = weight[0] // size if whole else module.num_groups
    if groups < 1 or weight[0] % groups:
        raise UsageError(f"{module}: {weight[0]} channels cannot be split into {groups} groups")
    return _Sizes({"num_channels": weight[0], "num_groups": groups}, {"weight": weight, "bias": weight})


def _layer_norm(_module: Any, weight: tuple[int, ...]) -> _Sizes:
    return _Sizes({"normalized_shape": weight}, {"weight": weight, "bias": weight})


def _slopes(_module: Any, weight: tuple[int, ...]) -> _Sizes:
    return _Sizes({"num_parameters": weight[0]}, {"weight": weight})


def _attention(module: Any, weight: tuple[int, ...]) -> _Sizes:
    rows, width = weight
    if width != module.embed_dim or rows % (3 * module.head_dim):
        raise UsageError(f"{module}: a {rows} × {width} weight does not fit heads of {module.head_dim} values")
    changed = {"__class__": FewerHeads, "_qkv_same_embed_dim": False, "num_heads": rows // (3 * module.head_dim)}
    return _Sizes(changed, {"in_proj_weight": weight, "in_proj_bias": (rows,)})


_KINDS: dict[type[nn.Module], Callable[[Any, tuple[int, ...]], _Sizes]] = {
    nn.Linear: _dense,
    _ConvTransposeNd: _transposed,  # before _ConvNd, whose subclass it is
    _ConvNd: _convolution,
    _NormBase: _channels,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _layer_norm,
    nn.PReLU: _slopes,
    nn.MultiheadAttention: _attention,
}
