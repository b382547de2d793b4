"""Freeze and unfreeze layers, and the training mode of partly frozen networks.

A frozen parameter has ``requires_grad=False``. That alone does not freeze a batch norm: in training mode torch still
updates its running statistics with every batch, so the frozen part would drift. A batch norm whose parameters are all
frozen is therefore kept in evaluation mode by :func:`train_mode`: it normalises by its stored statistics, which do not
change. Dropout inside a frozen part stays on, as in Keras.

>>> network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
>>> freeze(network, ["0", "1"])
('0.weight', '0.bias', '1.weight', '1.bias')
>>> train_mode(network)
>>> [module.training for module in network]
[True, False, True]
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from torch import nn

from weightsmith.core.errors import UnknownName

__all__ = ["freeze", "frozen", "train_mode", "unfreeze"]

# Batch and instance norms, which keep running statistics, with or without parameters.
_Norm = nn.modules.batchnorm._NormBase
_HELD = "statistics_held"


def freeze(network: nn.Module, layers: str | Iterable[str] = "*") -> tuple[str, ...]:
    """Freeze, in place, what the globs in ``layers`` match; returns the names of the parameters concerned.

    A glob may name a parameter (``conv1.weight``), a layer (``conv1``) or a part (``layer1``, ``layer[12].*``), and
    must match something. Batch norms without parameters are held as well.
    """
    return _switch(network, layers, trainable=False)


def unfreeze(network: nn.Module, layers: str | Iterable[str] = "*") -> tuple[str, ...]:
    """Undo :func:`freeze`, in place, for what the globs in ``layers`` match; returns the parameters concerned."""
    return _switch(network, layers, trainable=True)


def frozen(network: nn.Module) -> tuple[str, ...]:
    """The names of the frozen parameters, in the order of the network."""
    return tuple(name for name, parameter in network.named_parameters() if not parameter.requires_grad)


def train_mode(network: nn.Module) -> None:
    """Put ``network`` into training mode, but leave every frozen batch norm in evaluation mode."""
    network.train()
    for module in network.modules():
        if isinstance(module, _Norm) and _is_held(module):
            module.eval()


def _is_held(norm: nn.Module) -> bool:
    """Whether a norm is frozen; without parameters (``affine=False``) only the mark of :func:`freeze` shows it."""
    parameters = list(norm.parameters())
    return not any(p.requires_grad for p in parameters) if parameters else bool(getattr(norm, _HELD, False))


def _switch(network: nn.Module, layers: str | Iterable[str], *, trainable: bool) -> tuple[str, ...]:
    globs = [layers] if isinstance(layers, str) else list(layers)
    parameters = dict(network.named_parameters())
    bare = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, _Norm) and not any(True for _ in module.parameters())
    }
    for glob in globs:
        if not any(_matches(name, [glob]) for name in (*parameters, *bare)):
            raise UnknownName("layer to freeze or unfreeze", glob, _parts(parameters))
    chosen = tuple(name for name in parameters if _matches(name, globs))
    for name in chosen:
        parameters[name].requires_grad_(trainable)
    for name, norm in bare.items():
        if _matches(name, globs):
            setattr(norm, _HELD, not trainable)
    return chosen


def _matches(name: str, globs: list[str]) -> bool:
    """Whether a glob matches the name or any part above it: ``layer1`` matches everything inside layer1."""
    words = name.split(".")
    above = [".".join(words[: count + 1]) for count in range(len(words))]
    return any(fnmatch.fnmatchcase(part, glob) for part in above for glob in globs)


def _parts(parameters: Iterable[str]) -> list[str]:
    """The top-level parts of the network, as suggestions for messages."""
    return sorted({name.partition(".")[0] for name in parameters})
