"""Wrapped modules: compiled, parallel and scripted ones.

``torch.compile`` and ``DataParallel`` compute what the module inside computes, but hide its layers from hooks and put a
prefix before its names; so the module inside is used. A scripted or traced module has no Python layers inside: it can
be evaluated and graded, but everything that inspects or changes its layers, including training, refuses it.
"""

from __future__ import annotations

import torch
from torch import nn

from weightsmith.core.errors import UsageError

__all__ = ["check_open", "unwrapped"]

_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def unwrapped(network: nn.Module) -> nn.Module:
    """The module inside ``torch.compile`` or a parallel wrapper; any other module itself.

    >>> inside = nn.Linear(2, 3)
    >>> unwrapped(torch.compile(inside)) is unwrapped(nn.DataParallel(inside)) is unwrapped(inside) is inside
    True
    """
    while isinstance(network, _PARALLEL) or isinstance(getattr(network, "_orig_mod", None), nn.Module):
        inside = network.module if isinstance(network, _PARALLEL) else network._orig_mod
        assert isinstance(inside, nn.Module)
        network = inside
    return network


def check_open(network: nn.Module) -> None:
    """Refuse a module whose layers cannot be inspected or changed."""
    for name, module in network.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            kind = getattr(module, "original_name", type(module).__name__)
            raise UsageError(
                f"{name or 'the network'} ({kind}) is a scripted module, which hides its layers; give the module that "
                "it was scripted from"
            )
