"""The regression of one layer: from the rows it multiplies by its weight in the cut network to its target outputs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.networks.editing.fold import norm_factor
from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.reducing.refitting.flow import Values
from weightsmith.reducing.refitting.patches import at_least_float, drawn_places, input_rows, output_rows
from weightsmith.reducing.refitting.solving import Change, Regression

__all__ = ["PLACES", "PatchRegression", "Variance", "norm_scale", "precision_of"]

PLACES = 64  # output positions of a convolution that are sampled per image
_DEAD = 1e-3  # a batch norm's factor below this share of its largest carries no correction of a sum


class PatchRegression:
    """Accumulates, block by block, the inputs of a cut layer and the residuals of its outputs against the targets.

    ``kept`` are the kept outputs, ``scale`` converts a drift after the batch norm to one before it, and ``constant``
    says whether the outputs can be shifted.
    """

    def __init__(
        self,
        old: nn.Module,
        new: nn.Module,
        kept: Tensor,
        *,
        scale: Tensor | float,
        constant: bool,
        generator: np.random.Generator,
    ) -> None:
        self._old, self._new, self._kept, self._scale, self._generator = old, new, kept, scale, generator
        self._weight = at_least_float(outputs_first(new).flatten(1))
        bias = getattr(new, "bias", None)
        self._offset: Tensor | float = 0.0 if bias is None else at_least_float(bias)
        outputs, columns = self._weight.shape
        self._found = Regression(columns, outputs, constant=constant, precision=precision_of(self._weight))
        self._targets_seen = Variance(outputs)
        self.summed = False
        """Whether a residual sum was corrected."""
        self.rows = 0

    def add(self, block: Values) -> None:
        """Add the rows of one block, at some of its positions."""
        places = drawn_places(self._old, block.output, PLACES, self._generator)
        rows = at_least_float(input_rows(self._new, block.given, places))
        kept = self._kept.to(block.output.device)
        targets = at_least_float(output_rows(self._old, block.output, places)[:, kept])
        drift = _drift(block, self._old, self._kept, places)
        if drift is not None:
            targets, self.summed = targets + drift * self._scale, True
        self._found.add(rows.cpu().numpy(), (targets - rows @ self._weight.T - self._offset).cpu().numpy())
        self._targets_seen.add(targets.cpu().numpy())
        self.rows += len(rows)

    def solve(self, ridge: float) -> tuple[Change, float]:
        """The change of the weight, and the variance of the targets."""
        return self._found.solve(ridge), self._targets_seen.total


def norm_scale(network: nn.Module, norm: str | None, kept: Tensor) -> Tensor | float:
    """1/γ̄ of each output, which converts a drift after the batch norm to one before it; 0 for outputs it silences."""
    if norm is None:
        return 1.0
    module = network.get_submodule(norm)
    factor = norm_factor(module, torch.float64)
    factor = factor[kept.to(factor.device)]
    alive = factor.abs() > _DEAD * factor.abs().max()
    inverse = torch.where(alive, 1.0 / torch.where(alive, factor, torch.ones_like(factor)), torch.zeros_like(factor))
    return inverse.to(at_least_float(module.get_buffer("running_var")).dtype)


def _drift(block: Values, layer: nn.Module, kept: Tensor, places: tuple[Tensor, ...] | None) -> Tensor | None:
    """The deficit of the other branch of the sum, as rows; None without a branch of the same shape."""
    if block.drift is None:
        return None
    original, reduced = block.drift
    if original.shape != block.output.shape or reduced.shape[1] != len(kept):
        return None
    whole = at_least_float(output_rows(layer, original, places)[:, kept.to(original.device)])
    return whole - at_least_float(output_rows(layer, reduced, places))


def precision_of(weight: Tensor) -> Literal["float64", "mixed"]:
    """The precision in which the rows of a layer are multiplied: float64 if its weight is float64."""
    return "float64" if weight.dtype == torch.float64 else "mixed"


class Variance:
    """Σ (t − mean)² over rows and outputs."""

    def __init__(self, outputs: int) -> None:
        self._rows, self._sums, self._squares = 0, np.zeros(outputs), np.zeros(outputs)

    def add(self, targets: NDArray[np.floating[Any]]) -> None:
        """Add rows of targets."""
        self._rows += len(targets)
        self._sums += targets.sum(axis=0, dtype=np.float64)
        self._squares += np.square(targets, dtype=np.float64).sum(axis=0)

    @property
    def total(self) -> float:
        """The sum."""
        return float((self._squares - self._sums**2 / max(self._rows, 1)).sum())
