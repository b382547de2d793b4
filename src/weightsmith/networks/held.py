"""The network in the result of a verb, so that results can be passed on directly."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["held_network"]


def held_network(given: Any) -> Any:
    """The module that a result holds (a training run, a reduction, a transfer, a smoothed network …), else ``given``.

    >>> held_network("net.safetensors"), held_network(nn.Identity())
    ('net.safetensors', Identity())
    """
    if isinstance(given, nn.Module):
        return given
    inner = getattr(given, "network", None)
    return inner if isinstance(inner, nn.Module) else given
