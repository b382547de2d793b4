"""Build a network from text: ``mlp:300,100`` by our builders, ``mynet:PartNet`` by the user's code."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from weightsmith.networks.editing import grafting  # noqa: F401  (registers its architecture)
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.factories import Factory, check_class_named, is_factory

__all__ = ["build"]


def build(
    text: str | Architecture, *, input_shape: Sequence[int] = (), classes: int | None = None, seed: int = 0
) -> nn.Module:
    """The network that ``text`` names, fitted to the input shape and number of classes of the data.

    >>> build("mlp:300,100", input_shape=(1, 28, 28), classes=10).output
    Linear(in_features=100, out_features=10, bias=True)
    """
    if isinstance(text, str) and is_factory(text):
        return Factory.parse(text).build(seed)
    if isinstance(text, str):
        check_class_named(text)
    architecture = Architecture.parse(text) if isinstance(text, str) else text
    if input_shape and classes is not None:
        architecture = architecture.fitted(input_shape, classes)
    return architecture.build(seed)
