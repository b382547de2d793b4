"""Sites of networks of dense layers, by torch.fx: no extra package is needed for them."""

from __future__ import annotations

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.networks.editing.fold import trace
from weightsmith.networks.models.dropout import Dropout
from weightsmith.reducing._raw_sites import RawSite, RawSites

__all__ = ["dense_sites", "is_dense"]

_ACTIVATIONS: dict[object, str] = {
    nn.Sigmoid: "sigmoid",
    nn.Tanh: "tanh",
    nn.ReLU: "relu",
    nn.LeakyReLU: "leaky-relu",
    nn.ELU: "elu",
    nn.SELU: "selu",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.Softplus: "softplus",
    nn.ReLU6: "relu6",
    nn.CELU: "celu",
    nn.Mish: "mish",
    nn.Hardswish: "hardswish",
    nn.Hardsigmoid: "hardsigmoid",
    nn.Hardtanh: "hardtanh",
    nn.Softsign: "softsign",
    nn.LogSigmoid: "logsigmoid",
    torch.sigmoid: "sigmoid",
    torch.tanh: "tanh",
    torch.relu: "relu",
    torch.selu: "selu",
    functional.sigmoid: "sigmoid",
    functional.tanh: "tanh",
    functional.relu: "relu",
    functional.leaky_relu: "leaky-relu",
    functional.elu: "elu",
    functional.selu: "selu",
    functional.gelu: "gelu",
    functional.silu: "silu",
    functional.softplus: "softplus",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "relu": "relu",
}
_PASSING = (nn.modules.dropout._DropoutNd, nn.Identity, Dropout)
_HOLDERS = (nn.Linear, nn.BatchNorm1d, nn.PReLU)


def is_dense(network: nn.Module) -> bool:
    """Whether all parameters belong to dense layers, batch norms on rows and PReLUs, in a graph that fx can trace."""
    holders = [module for module in network.modules() if any(True for _ in module.parameters(recurse=False))]
    if not holders or not all(type(module) in _HOLDERS for module in holders):
        return False
    try:
        trace(network)
    except UsageError:
        return False
    return True


def dense_sites(network: nn.Module) -> RawSites:
    """The site of each dense layer whose units pass, one by one, into other dense layers and nowhere else."""
    graph = trace(network)
    modules = dict(graph.named_modules())
    sites, obstacles = [], {}
    for node in graph.graph.nodes:
        layer = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(layer, nn.Linear):
            continue
        found = _followed(node, modules)
        if isinstance(found, str):
            obstacles[str(node.target)] = found
        else:
            sites.append(found)
    return RawSites(sites, obstacles)


def _followed(start: fx.Node, modules: dict[str, nn.Module]) -> RawSite | str:
    """The site that ``start`` writes, or why there is none."""
    units = int(modules[str(start.target)].get_parameter("weight").shape[0])
    own = np.arange(units, dtype=np.int64)[:, None]
    if _uses(start, start) > 1:
        return "is used more than once"
    carriers, readers = [], []
    activations: set[str] = set()
    ahead = list(start.users)
    while ahead:
        node = ahead.pop(0)
        if node.op == "output":
            return "gives the output of the network"
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        key: object = type(module) if module is not None else node.target
        if isinstance(module, nn.Linear | nn.BatchNorm1d | nn.PReLU) and _uses(start, node) > 1:
            return f"its units pass through {node.target}, which is used more than once"
        if isinstance(module, nn.Linear):
            readers.append((str(node.target), own))
            continue
        if isinstance(module, nn.BatchNorm1d | nn.PReLU):
            if not isinstance(module, nn.PReLU) or module.num_parameters > 1:
                carriers.append((str(node.target), own))
            activations |= {"prelu"} if isinstance(module, nn.PReLU) else set()
        elif key in _ACTIVATIONS:
            activations.add(_ACTIVATIONS[key])
        elif not isinstance(module, (*_PASSING, nn.Flatten)) and node.target is not functional.dropout:
            # By its name: the text of a function holds an address in memory, which differs from run to run.
            named = getattr(node.target, "__name__", node.target) if module is None else type(module).__name__
            return f"its units pass through {named} ({node.name})"
        ahead += list(node.users)
    if not readers:
        return "no layer reads its units"
    # Where several stand on the way, none of them says what range the readers see.
    activation = activations.pop() if len(activations) == 1 else None
    return RawSite(units, activation, [(str(start.target), own)], carriers, readers)


def _uses(start: fx.Node, node: fx.Node) -> int:
    """How often the module that ``node`` calls is called in the graph."""
    return sum(other.op == "call_module" and other.target == node.target for other in start.graph.nodes)
