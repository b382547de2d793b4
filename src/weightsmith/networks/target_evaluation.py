"""Evaluations of networks whose targets are not classes: labels that are on or off, and values.

Errors are in the units of the data: the scaling of the targets in training, (y − mean) / deviation, is undone.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weightsmith.core.errors import DataMismatch
from weightsmith.core.records import Origin, Record
from weightsmith.core.statistics import Interval, mean_interval, score_interval, wilson
from weightsmith.data.normalise import Normalisation
from weightsmith.data.targets import scoring_of
from weightsmith.networks.evaluation import Evaluation

__all__ = ["LabelEvaluation", "RegressionEvaluation", "ValueErrors", "label_evaluation", "regression_evaluation"]

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_TOLD = 3  # values whose errors a line names
_POINTS = 400  # rows kept for a figure of residuals


@dataclasses.dataclass(frozen=True, eq=False)
class LabelEvaluation(Evaluation):
    """Labels that are each on or off: ``accuracy`` counts the rows with all labels right.

    ``labels_right`` is the share of single labels that are right (Student's interval over rows, because the labels of a
    row depend on each other). For each label: rows that have it (``positives``), rows predicted to have it
    (``called``), rows that are both (``found``), and ``recall``. ``loss`` is the mean binary cross-entropy; there is no
    confusion matrix.
    """

    labels_right: Interval | None
    positives: tuple[int, ...]
    called: tuple[int, ...]
    found: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class ValueErrors(Record):
    """One predicted value: errors in its own unit, and its residuals (target − prediction).

    ``rmse`` is √(mean of squared errors), its interval the root of Student's interval for the squares; ``mae`` the mean
    absolute error; ``bias`` the mean residual. ``quantiles`` are the quantiles of the residuals at 5, 25, 50, 75 and
    95 %. ``points`` are (target, prediction) for rows spread over the split.
    """

    name: str
    rmse: Interval
    mae: Interval
    r2: Interval
    bias: Interval
    deviation: float
    quantiles: tuple[float, ...]
    points: tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class RegressionEvaluation(Record):
    """R² = 1 − Σe²/Σ(y − ȳ)², the share of explained variance, and the errors of every value.

    ``r2`` is its mean over the values, with Student's interval over rows, given the variance of these targets.
    """

    data: str
    split: str
    images: int
    r2: Interval
    values: tuple[ValueErrors, ...]
    normalisation: str
    notes: tuple[str, ...]
    origin: Origin

    def __str__(self) -> str:
        """One line: data, split, R² with its interval, and the root mean squared errors."""
        found = f"{self.r2.value:.3g} [{self.r2.low:.3g}, {self.r2.high:.3g}]".replace("-", "−")
        errors = ", ".join(f"{each.name} {each.rmse.value:.3g}" for each in self.values[:_TOLD])
        more = " …" if len(self.values) > _TOLD else ""
        return f"{self.data}: {self.split} R² {found}, {self.images:,} rows, RMSE of {errors}{more}"

    @property
    def score(self) -> Interval:
        """The number by which networks are compared."""
        return self.r2


def label_evaluation(answers: Tensor, targets: Tensor, names: tuple[str, ...], **told: Any) -> LabelEvaluation:
    """The evaluation of ``answers`` against labels; ``told`` are the fields common to all evaluations."""
    right = scoring_of(targets).rows(answers, targets)
    finite = answers.isfinite().all(dim=1)
    on = answers > 0
    both, total, correct = (on & targets & finite[:, None]).sum(0), len(targets), int(right.sum())
    positives = targets.sum(0).tolist()
    single = ((on == targets) & finite[:, None]).double().mean(dim=1).numpy()
    loss = nn.functional.binary_cross_entropy_with_logits(answers.double(), targets.double())
    return LabelEvaluation(
        images=total,
        correct=correct,
        not_finite=int((~finite).sum()),
        accuracy=wilson(correct, total),
        top5=None,
        loss=float(loss) if bool(finite.all()) else None,
        classes=names,
        recall=tuple(hit / size if size else None for hit, size in zip(both.tolist(), positives, strict=True)),
        confusion=(),
        labels_right=mean_interval(single) if total > 1 else None,
        positives=tuple(positives),
        called=tuple((on & finite[:, None]).sum(0).tolist()),
        found=tuple(both.tolist()),
        **told,
    )


def regression_evaluation(
    answers: Tensor, targets: Tensor, names: tuple[str, ...], outputs: Normalisation, **told: Any
) -> RegressionEvaluation:
    """The evaluation of ``answers`` against values, both on the network's scale (``outputs``)."""
    if len(targets) < 2:
        raise DataMismatch("R² and intervals need at least two rows, not one")
    scores = scoring_of(targets).rows(answers, targets).numpy()
    given, wanted = outputs.undo(answers.double()).numpy(), outputs.undo(targets.double()).numpy()
    return RegressionEvaluation(
        images=len(targets),
        r2=score_interval(scores),
        values=tuple(_errors(name, wanted[:, column], given[:, column]) for column, name in enumerate(names)),
        **told,
    )


def _errors(name: str, targets: NDArray[np.float64], answers: NDArray[np.float64]) -> ValueErrors:
    residuals = targets - answers
    squares = residuals**2
    mean = mean_interval(squares)
    deviation = float(targets.std())
    low, high = (math.sqrt(max(end, 0.0)) for end in (mean.low, mean.high))
    rows = np.unique(np.linspace(0, len(targets) - 1, min(_POINTS, len(targets))).astype(int))
    return ValueErrors(
        name=name,
        rmse=dataclasses.replace(mean, value=math.sqrt(mean.value), low=low, high=high, method="Student t of squares"),
        mae=mean_interval(np.abs(residuals)),
        r2=score_interval(1 - squares / deviation**2),
        bias=mean_interval(residuals),
        deviation=deviation,
        quantiles=tuple(np.quantile(residuals, _QUANTILES).tolist()),
        points=tuple((float(targets[row]), float(answers[row])) for row in rows),
    )
