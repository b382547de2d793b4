"""The kinds of targets, distinguished by their tensor alone, and the score of each row.

    int64, (n,)       a class per row                 right or wrong; a network has a score for each class
    bool, (n, k)      k labels, each on or off        right if all are; an output above 0 says on (k = 1: binary)
    float32, (n, k)   k values to be predicted        1 − e²/v, with the error e and the targets' mean square v

v is the mean squared deviation of the targets from their mean. The mean score over the rows is therefore the accuracy
of the first two kinds and R² of the third (averaged over several outputs), and a row-by-row comparison of two networks
works for all three kinds.

>>> import torch
>>> scoring_of(torch.tensor([0, 1])).rows(torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1]))
tensor([ True, False])
>>> values = torch.tensor([[1.0], [3.0]])
>>> scoring_of(values).rows(torch.tensor([[1.5], [3.0]]), values)
tensor([0.7500, 1.0000], dtype=torch.float64)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weightsmith.core.errors import DataMismatch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Kind", "Scoring", "kind_of", "scoring_of"]


class Kind(enum.Enum):
    """What a target is."""

    CLASSES = "classification"
    LABELS = "multi-label"
    VALUES = "regression"

    @property
    def metric(self) -> str:
        """The name of the mean score of the rows."""
        return "R²" if self is Kind.VALUES else "accuracy"


def kind_of(targets: Tensor) -> Kind:
    """The kind of ``targets``, by their type."""
    if targets.is_floating_point():
        return Kind.VALUES
    return Kind.LABELS if targets.ndim == 2 else Kind.CLASSES


@dataclass(frozen=True, eq=False)
class Scoring:
    """Scores the rows of targets of one kind; ``spread`` is v for each output of a regression."""

    kind: Kind
    spread: Tensor | None = None

    def rows(self, answers: Tensor, targets: Tensor) -> Tensor:
        """A score for each row: booleans, or float64 for a regression.

        A row for which the network gives NaN or infinity is wrong; a regression refuses it, since it has no error to
        compute.
        """
        finite = answers.isfinite().all(dim=1)
        if self.kind is Kind.CLASSES:
            return (answers.argmax(dim=1) == targets) & finite
        if self.kind is Kind.LABELS:
            return ((answers > 0) == targets).all(dim=1) & finite
        if not bool(finite.all()):
            row = int((~finite).nonzero()[0, 0])
            raise DataMismatch(f"the network gives nan or infinity for row {row}: there is no error to measure")
        return self._errors(answers, targets)

    def total(self, answers: Tensor, targets: Tensor) -> float:
        """The sum of the scores; training itself checks that its loss is finite."""
        if self.kind is Kind.CLASSES:
            return float((answers.argmax(1) == targets).count_nonzero())
        if self.kind is Kind.LABELS:
            return float(((answers > 0) == targets).all(dim=1).count_nonzero())
        return float(self._errors(answers, targets).sum())

    def _errors(self, answers: Tensor, targets: Tensor) -> Tensor:
        assert self.spread is not None
        squares = (answers.double() - targets.double()).square()
        return (1 - squares / self.spread.to(squares.device)).mean(dim=1)


def scoring_of(targets: Tensor) -> Scoring:
    """How rows with these ``targets`` are scored; values that do not differ have no R² and are refused."""
    kind = kind_of(targets)
    if kind is not Kind.VALUES:
        return Scoring(kind)
    spread = targets.double().var(dim=0, correction=0)
    if not bool((spread > 0).all()):
        column = int((spread <= 0).nonzero()[0, 0])
        raise DataMismatch(
            f"target {column + 1} is the same in all {len(targets)} rows: R² compares errors with the variance of the "
            "targets, which is 0 here"
        )
    return Scoring(kind, spread)
