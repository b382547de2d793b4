"""Build a network from text: ``mlp:300,100`` by our builders, ``package.module:function`` by the user's."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.seeds import subseed
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.models.architecture import Architecture

__all__ = ["build", "is_factory"]


def build(
    text: str | Architecture, *, input_shape: Sequence[int] = (), classes: int | None = None, seed: int = 0
) -> nn.Module:
    """The network that ``text`` names, fitted to the input shape and number of classes of the data.

    >>> build("mlp:300,100", input_shape=(1, 28, 28), classes=10).output
    Linear(in_features=100, out_features=10, bias=True)
    """
    if isinstance(text, str) and is_factory(text):
        return _from_factory(text, seed)
    architecture = Architecture.parse(text) if isinstance(text, str) else text
    if input_shape and classes is not None:
        architecture = architecture.fitted(input_shape, classes)
    return architecture.build(seed)


def is_factory(text: str) -> bool:
    """Whether ``text`` names a function (``package.module:function``) and not one of our architectures."""
    module, colon, function = text.partition(":")
    names = re.fullmatch(r"[A-Za-z_][\w.]*", module) and re.fullmatch(r"[A-Za-z_]\w*", function)
    return bool(colon) and module not in Architecture.members and bool(names)


def _from_factory(text: str, seed: int) -> nn.Module:
    module_name, _, function_name = text.partition(":")
    with _current_folder_importable():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            unknown = UnknownName("network", module_name, Architecture.members)
            raise UsageError(f"{text}: no module {error.name!r} to import; as a name: {unknown}") from error
    if not hasattr(module, function_name):
        raise UsageError(f"{text}: {module_name} has no {function_name!r}")
    function = getattr(module, function_name)
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise UsageError(f"{text}: must be a function that can be called without arguments ({error})") from error
    # The user's layers draw their weights from torch's generator: it has our seed while they do, then its state again.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(subseed(seed, "initialise"))
        network = function()
    if not isinstance(network, nn.Module):
        raise UsageError(f"{text}: gives a {type(network).__name__}, not a torch.nn.Module")
    return with_card(network, dataclasses.replace(card_of(network), factory=text))


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """Let ``mynets:build`` find mynets.py where the command is run, as ``python -m`` does."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
