"""The kind of operation of a traced node, the same for a module, a function and a method."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.models.resnet import ZeroPad

__all__ = ["called", "kind_of", "module_of"]

_MODULES: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.Linear, "dense"),
    (nn.Conv1d, "convolution"),
    (nn.Conv2d, "convolution"),
    (nn.ReLU, "relu"),
    (nn.Hardtanh, "relu"),  # includes ReLU6, a subclass
    (nn.AvgPool1d, "average"),
    (nn.AvgPool2d, "average"),
    (nn.AdaptiveAvgPool1d, "adaptive"),
    (nn.AdaptiveAvgPool2d, "adaptive"),
    (nn.MaxPool1d, "largest"),
    (nn.MaxPool2d, "largest"),
    (nn.Flatten, "flatten"),
    (nn.ZeroPad1d, "pad"),
    (nn.ZeroPad2d, "pad"),
    (ZeroPad, "shortcut"),
    (Dropout, "dropout"),
    (nn.modules.dropout._DropoutNd, "idle"),
    (nn.Identity, "idle"),
)
_FUNCTIONS: dict[Any, str] = {
    functional.relu: "relu",
    functional.relu6: "relu",
    torch.relu: "relu",
    torch.relu_: "relu",
    functional.avg_pool1d: "average",
    functional.avg_pool2d: "average",
    functional.adaptive_avg_pool1d: "adaptive",
    functional.adaptive_avg_pool2d: "adaptive",
    functional.max_pool1d: "largest",
    functional.max_pool2d: "largest",
    torch.max_pool1d: "largest",
    torch.max_pool2d: "largest",
    operator.add: "add",
    operator.iadd: "add",
    torch.add: "add",
    operator.mul: "multiply",
    operator.imul: "multiply",
    torch.mul: "multiply",
    operator.truediv: "divide",
    operator.itruediv: "divide",
    torch.div: "divide",
    torch.cat: "join",
    torch.concat: "join",
    torch.concatenate: "join",
    torch.flatten: "flatten",
    torch.reshape: "flatten",
    torch.squeeze: "flatten",
    torch.mean: "mean",
    functional.pad: "pad",
    operator.getitem: "slice",
    functional.dropout: "chance",
    functional.dropout1d: "chance",
    functional.dropout2d: "chance",
    functional.dropout3d: "chance",
    functional.alpha_dropout: "chance",
    functional.feature_alpha_dropout: "chance",
}
_METHODS = {
    "relu": "relu",
    "add": "add",
    "mul": "multiply",
    "div": "divide",
    "flatten": "flatten",
    "view": "flatten",
    "reshape": "flatten",
    "squeeze": "flatten",
    "mean": "mean",
    "contiguous": "idle",
    "clone": "copy",
}


def module_of(node: fx.Node, modules: Mapping[str, nn.Module]) -> nn.Module | None:
    """The module that a node calls, if it calls one."""
    return modules[str(node.target)] if node.op == "call_module" else None


def kind_of(node: fx.Node, modules: Mapping[str, nn.Module]) -> str | None:
    """The kind of a node, or None if it has no spiking form."""
    module = module_of(node, modules)
    if module is not None:
        return next((kind for known, kind in _MODULES if isinstance(module, known)), None)
    if node.op == "call_method":
        return _METHODS.get(str(node.target).removesuffix("_"))
    return _FUNCTIONS.get(node.target) if node.op == "call_function" else None


def called(node: fx.Node, modules: Mapping[str, nn.Module]) -> str:
    """The name of a node in messages: name and kind."""
    module = module_of(node, modules)
    if module is not None:
        return f"{node.target} ({type(module).__name__})"
    return f"{node.name} (the {'method' if node.op == 'call_method' else 'function'} {_plain_name(node)})"


def _plain_name(node: fx.Node) -> str:
    """The name of a function; torch calls functions that dispatch between two others ``fn``."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "fn")
    return node.name.rstrip("_0123456789") if name == "fn" else name
