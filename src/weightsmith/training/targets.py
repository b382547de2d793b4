"""Targets as a network learns them: a label for two classes and one output, scaled values, and weights of rows.

Values are scaled to mean 0 and deviation 1 over the training rows, like the inputs of a table: a network starts with
outputs around 0, and would take an epoch to reach prices in thousands. The card stores the scale. Weights have mean 1,
so that rates and losses keep their size; class weights ``balanced`` are

    w_c = n / (k·n_c),   n training rows, k classes, n_c rows of the class

(King and Zeng, Political Analysis 9 (2001) 137; scikit-learn's convention).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.data.normalise import NONE, STANDARD, Normalisation
from weightsmith.data.targets import Kind
from weightsmith.data.tensors import Data, Split

__all__ = ["ClassWeights", "imbalance", "learnt", "outputs_for", "read_class_weights", "weighted"]

ClassWeights = Mapping[str, float] | str | None

_UNEVEN = 10  # ratio of the largest to the smallest class above which a note is given


def outputs_for(data: Data) -> int:
    """The number of outputs of a network built for ``data``."""
    return len(data.classes) or 1 + int(data.split("train").y.max())


def learnt(data: Data, outputs: int, card: Normalisation = NONE) -> tuple[Data, Normalisation]:
    """``data`` with the targets that a network with this number of ``outputs`` learns, and the scale of its outputs.

    ``card`` is the scale stored with a trained network.
    """
    if data.kind is Kind.CLASSES and outputs == 1 and len(data.classes) == 2:
        made = {name: dataclasses.replace(part, y=(part.y == 1)[:, None]) for name, part in data.splits.items()}
        return _with(data, made, data.classes[1:]), NONE
    if data.kind is not Kind.VALUES:
        return data, NONE
    if data.split("train").y.shape[1] != outputs:
        return data, NONE  # refused when labels are checked
    train = data.split("train").y
    if bool((train == train[:1]).all(dim=0).any()):
        column = int((train == train[:1]).all(dim=0).nonzero()[0, 0])
        raise DataMismatch(f"{data.name}: {data.classes[column]} is the same in all training rows: nothing to predict")
    scale = card if card.mean else STANDARD.fitted(train)
    made = {name: dataclasses.replace(part, y=scale.apply(part.y)) for name, part in data.splits.items()}
    return _with(data, made, data.classes), scale


def _with(data: Data, parts: dict[str, Split], classes: tuple[str, ...]) -> Data:
    return Data(
        data.name,
        train=parts.get("train"),
        validation=parts.get("validation"),
        test=parts.get("test"),
        classes=classes,
        normalisation=data.normalisation,
        origin=data.origin,
        notes=data.notes,
    )


def read_class_weights(given: ClassWeights) -> str | None:
    """The text form of class weights: ``balanced``, or ``cat=2,dog=1`` (classes not named have 1).

    >>> read_class_weights({"cat": 2.0, "dog": 1})
    'cat=2.0,dog=1.0'
    """
    if given is None or given == "balanced":
        return given
    if not isinstance(given, Mapping | str):
        raise OptionError(f"class_weights are 'balanced', or weights by the name of the class, not {given!r}")
    pairs: dict[str, Any] = dict(given if isinstance(given, Mapping) else map(_pair, given.split(",")))
    for name, value in pairs.items():
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise OptionError(f"class_weights: {name} has the weight {value!r}, which must be a number of 0 or more")
    return ",".join(f"{name}={float(value)}" for name, value in pairs.items())


def _pair(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise OptionError(f"class_weights are 'balanced' or as cat=2,dog=1, not {text!r}") from None


def weighted(data: Data, class_weights: str | None) -> Split:
    """The training rows with their own weights, times those of their classes, with mean 1."""
    part = data.split("train")
    if class_weights is None and part.weights is None:
        return part
    weights = torch.ones(len(part)) if part.weights is None else part.weights
    if class_weights is not None:
        weights = weights * _of_classes(data, part.y, class_weights)
    if not float(weights.sum()) > 0:
        raise UsageError("all training rows have the weight 0: there is nothing to learn from")
    return dataclasses.replace(part, weights=(weights / weights.mean()).to(torch.float32))


def _of_classes(data: Data, y: Tensor, text: str) -> Tensor:
    if data.kind is Kind.VALUES or (data.kind is Kind.LABELS and y.shape[1] > 1):
        raise UsageError(f"class_weights: {data.name} is {data.kind.value}, whose rows have no single class")
    single = y.ndim == 2
    labels = y[:, 0].long() if single else y
    names = (f"not {data.classes[0]}", data.classes[0]) if single else data.classes
    count = len(names) or 1 + int(labels.max())
    if text == "balanced":
        sizes = torch.bincount(labels, minlength=count)
        present = int((sizes > 0).sum())
        return (len(labels) / (present * sizes.clamp(min=1).double()))[labels].to(torch.float32)
    table = torch.ones(count)
    for name, value in (_pair(part) for part in text.split(",")):
        if name not in names:
            raise UsageError(f"class_weights names the class {name!r}; the data have {', '.join(names[:10])}")
        table[names.index(name)] = value
    return table[labels]


def imbalance(data: Data) -> tuple[str, ...]:
    """A note if one class has more than ten times the training rows of another."""
    y = data.split("train").y
    if data.kind is Kind.VALUES or (y.ndim == 2 and y.shape[1] > 1):
        return ()
    sizes = torch.bincount(y[:, 0].long() if y.ndim == 2 else y)
    sizes = sizes[sizes > 0]
    least, most = int(sizes.min()), int(sizes.max())
    if most <= _UNEVEN * least:
        return ()
    return (
        f"the largest class has {most:,} training rows, the smallest {least:,}: a network may well ignore it; "
        "class_weights=balanced weights all classes equally, and recall by class says more than accuracy",
    )
