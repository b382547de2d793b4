"""Accuracies of networks with masked units.

A single hidden layer before the output is evaluated for all masks in one matrix product (:class:`Readout`); any other
network is run mask by mask.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch
from weightsmith.core.parallel import is_spread, parallel_map
from weightsmith.data.targets import Kind, kind_of, scoring_of
from weightsmith.reducing.surgery.masking import silenced

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Evaluator", "Masks", "Readout", "accuracies", "evaluator_of"]


Masks = NDArray[np.bool_]
Evaluator = Callable[[Masks], NDArray[np.float64]]


def evaluator_of(context: PruningContext, x: Tensor, y: Tensor) -> Evaluator:
    """A function from masks (one per row) to accuracies (R² for a regression) in percent on ``x``, targets ``y``."""
    last = _last_layer(context, x) if kind_of(y) is Kind.CLASSES else None
    if last is not None:
        return Readout(*last, y.numpy())
    batches = [inputs for _, inputs in context.batches(x)]
    return functools.partial(_on_workers, functools.partial(_one, context, batches, y))


@torch.no_grad()
def _last_layer(
    context: PruningContext, x: Tensor
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None:
    """Hidden values, weights and biases, if a single dense layer maps the units to the output."""
    if len(context.sites) != 1 or len(context.sites[0].readers) != 1:
        return None
    (port,) = context.sites[0].readers
    reader = context.network.get_submodule(port.layer)
    if not isinstance(reader, nn.Linear) or port.indices.shape[1] != 1 or reader.in_features != len(port.indices):
        return None
    exact = torch.float64 if context.dtype == torch.float64 else torch.float32
    weight = reader.weight.detach().cpu().to(exact)[:, torch.from_numpy(port.indices[:, 0])]
    given: Tensor | None = reader.bias
    bias = weight.new_zeros(len(weight)) if given is None else given.detach().cpu().to(exact)
    hidden: list[NDArray[np.float32]] = []
    batches = context.batches(x)
    with context.capturing(lambda _site, rows: hidden.append(rows)) as seen:
        for _, inputs in batches:
            seen.clear()
            outputs = context.network(inputs).cpu()
            expected = nn.functional.linear(torch.from_numpy(hidden[-1]), weight, bias)
            if expected.shape != outputs.shape or not torch.allclose(expected, outputs.to(exact)):
                return None
    return np.concatenate(hidden), weight.numpy(), bias.numpy()


def _on_workers(accuracy: Callable[[NDArray[np.bool_]], float], masks: Masks) -> NDArray[np.float64]:
    return np.array(parallel_map(accuracy, masks) if is_spread() else [accuracy(mask) for mask in masks])


@torch.no_grad()
def _one(context: PruningContext, batches: Sequence[Tensor], y: Tensor, mask: NDArray[np.bool_]) -> float:
    with silenced(context.network, context.sites, context.split(mask)):
        answers = torch.cat([context.network(inputs.clone()).cpu() for inputs in batches])
    return 100 * scoring_of(y).total(answers, y) / len(y)


# The accuracies of a whole population of masked networks at once.
#
# Where the units of one layer are read by the output layer alone, removing a unit zeroes a column of the output
# weights. The hidden activations H (rows × units) are computed once, and one matrix product with the stacked masked
# weights of all P networks gives all logits. Only differences between classes matter,
# so the logits are computed relative to class 0, which saves its share of the product:
#
#     logits[c, p, i] = Σ_u (weight[c, u] − weight[0, u]) · masks[p, u] · H[i, u] + bias[c] − bias[0],     c = 1, 2, …
#
# Rows are sorted by label beforehand, so that the comparison of the right logit with the others is vectorised as well.


Array = NDArray[Any]

_MOST_WEIGHTS = 1 << 23  # values of masked weights in memory at a time: 32 MB
_MOST_LOGITS = 1 << 21  # values of logits in memory at a time: 8 MB


class Readout:
    """Hidden activations and the output layer that reads them; calling it with masks gives their accuracies.

    ``hidden`` is rows × units, ``weight`` classes × units, ``bias`` has a value per class (None: no bias), ``labels`` a
    class per row.
    """

    def __init__(self, hidden: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, labels: ArrayLike) -> None:
        activations, weights, targets = np.asarray(hidden, np.float32), np.asarray(weight), np.asarray(labels)
        biases = np.zeros(len(weights)) if bias is None else np.asarray(bias)
        _check(activations, weights, biases, targets)
        self.rows, self.units = activations.shape
        self.classes = len(weights)
        # Subtract before rounding to float32.
        self._weight = np.subtract(weights[1:], weights[0], dtype=np.float64).astype(np.float32)
        self._bias = np.subtract(biases[1:], biases[0], dtype=np.float64).astype(np.float32)
        order = np.argsort(targets, kind="stable")
        # Transposed: the product then gives one contiguous row of logits per class and network.
        self._hidden = np.ascontiguousarray(activations[order].T)
        self._ends = np.searchsorted(targets[order], np.arange(self.classes + 1)).tolist()

    def __call__(self, masks: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The percentage of rows that each masked network classifies correctly.

        Of equal logits the first wins, as with ``argmax``. For an empty mask the bias alone decides.
        """
        if masks.ndim != 2 or masks.shape[1] != self.units:
            raise DataMismatch(f"masks have the shape {masks.shape}, but the layer has {self.units} units")
        right = np.zeros(len(masks), np.int64)
        step = max(1, _MOST_WEIGHTS // (self.classes * max(1, self.units)))
        for first in range(0, len(masks), step):
            some = masks[first : first + step]
            masked = (self._weight[:, None, :] * some).reshape(-1, self.units)
            for begin, end in self._blocks(max(1, _MOST_LOGITS // (self.classes * len(some)))):
                logits = np.zeros((self.classes, len(some), end - begin), np.float32)
                np.matmul(masked, self._hidden[:, begin:end], out=logits[1:].reshape(len(masked), end - begin))
                logits[1:] += self._bias[:, None, None]
                right[first : first + step] += self._right(logits, begin)
        percent: NDArray[np.float64] = 100.0 * right / self.rows
        return percent

    def _blocks(self, rows: int) -> Iterator[tuple[int, int]]:
        return itertools.pairwise([*range(0, self.rows, rows), self.rows])

    def _right(self, logits: NDArray[np.float32], begin: int) -> NDArray[np.int64]:
        """The number of correct rows of each network in the block that starts at ``begin``."""
        _, networks, rows = logits.shape
        right = np.zeros(networks, np.int64)
        for label, (first, last) in enumerate(itertools.pairwise(self._ends)):
            at = slice(max(first - begin, 0), min(last - begin, rows))
            if at.start >= at.stop:
                continue
            target = logits[label, :, at]
            wins = np.ones(target.shape, np.bool_)
            if label > 0:
                wins &= target > logits[:label, :, at].max(axis=0)
            if label < len(logits) - 1:
                wins &= target >= logits[label + 1 :, :, at].max(axis=0)
            right += np.count_nonzero(wins, axis=1)
        return right


def accuracies(
    hidden: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, labels: ArrayLike, masks: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Accuracies in percent of the networks given by ``masks`` (networks × units); see :class:`Readout`.

    >>> hidden, weight = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]
    >>> accuracies(hidden, weight, None, [0, 1], np.array([[True, True], [False, True], [True, False]])).tolist()
    [100.0, 100.0, 50.0]
    """
    return Readout(hidden, weight, bias, labels)(masks)


def _check(hidden: Array, weight: Array, bias: Array, labels: Array) -> None:
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
        raise DataMismatch(f"activations {hidden.shape} and output weights {weight.shape} do not have the same units")
    if hidden.size == 0 or weight.size == 0:
        raise DataMismatch(f"nothing to evaluate: activations {hidden.shape}, output weights {weight.shape}")
    if bias.shape != (len(weight),):
        raise DataMismatch(f"the bias has the shape {bias.shape}, but there are {len(weight)} classes")
    if labels.shape != (len(hidden),) or labels.dtype.kind not in "iu":
        raise DataMismatch(f"labels must be {len(hidden)} whole numbers, one per row, not {labels.dtype}{labels.shape}")
    if labels.min() < 0 or labels.max() >= len(weight):
        raise DataMismatch(f"labels run from {labels.min()} to {labels.max()}, but there are {len(weight)} classes")
    for name, values in (("activations", hidden), ("output weights", weight), ("bias", bias)):
        if not np.isfinite(values).all():
            raise DataMismatch(f"the {name} contain NaN or infinity: the accuracy would be meaningless")
