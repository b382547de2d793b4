"""MLPs trained by :func:`weightsmith.train` behind scikit-learn's interface: a classifier and a regressor.

It drops into pipelines, cross-validation and searches, whose grids may hold option objects or their text forms:

>>> from sklearn.model_selection import GridSearchCV
>>> from weightsmith.training.clipping import ClipNorm
>>> grid = {"hidden": [(8,), (32, 16)], "clip": [None, ClipNorm(1.0), "value:0.5"]}
>>> search = GridSearchCV(Classifier(epochs=20), grid)

This module imports scikit-learn, so no other module of ``training`` imports it.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from weightsmith.core.seeds import pinned_threads
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import card_of
from weightsmith.networks.models.mlp import Mlp
from weightsmith.training.clipping import Clip
from weightsmith.training.loop import train
from weightsmith.training.losses import Loss
from weightsmith.training.optimisers import Optimiser
from weightsmith.training.penalties import Penalty
from weightsmith.training.plan import TrainingWarning
from weightsmith.training.run import Hook, Stopped, TrainRun
from weightsmith.training.schedules import Schedule
from weightsmith.training.stopping import Stop
from weightsmith.training.suitability import LARGE_INPUTS

__all__ = ["Classifier", "Regressor"]

_ROWS = 4096  # answered at a time


@dataclasses.dataclass(eq=False, repr=False)
class _Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The common part of both: parameters, scaling of the inputs, training, predictions."""

    hidden: Sequence[int] = (100,)
    _: dataclasses.KW_ONLY
    activation: str = "relu"
    initialiser: str | None = None
    batch_norm: str | None = None
    dropout: float = 0.0
    input_dropout: float = 0.0
    optimiser: Optimiser | str = "adam"
    schedule: Schedule | float | str | None = None
    clip: Clip | str | None = None
    stop: Stop | str | None = None
    penalties: Sequence[Penalty | str] | Penalty | str = ()
    loss: Loss | str | Callable[[Tensor, Tensor], Tensor] | None = None
    batch: int = 32
    epochs: int = 100
    validation: float | None = None
    standardise: bool = False
    hooks: Sequence[Hook] = ()
    diagnose: bool = False
    seed: int = 0
    threads: int = 1

    def _fitted(self, rows: NDArray[np.float64], targets: Tensor, classes: tuple[str, ...], weights: Any) -> Self:
        self.mean_ = self.scale_ = None
        if self.standardise:
            scaler = StandardScaler().fit(rows)  # detects constant columns, which have no scale, despite rounding
            self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        if weights is not None:
            weights = torch.from_numpy(_check_sample_weight(weights, rows, ensure_non_negative=True)).float()
        split = Split(self._inputs(rows).to(torch.float32), targets, weights=weights)
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", TrainingWarning)
            run = self._trained(Data("rows", split, classes=classes))
        for each in raised:
            self._pass_on(each)
        if run.stopped is Stopped.DIVERGED:
            warnings.warn(run.record.reason, ConvergenceWarning, stacklevel=3)
        self.network_, self.record_, self.n_iter_ = run.network, run.record, len(run.history.rows)
        return self

    def _pass_on(self, raised: warnings.WarningMessage) -> None:
        """Repeat a warning of the training where ``fit`` was called; the remedy is a parameter of the estimator."""
        text = str(raised.message)
        if issubclass(raised.category, TrainingWarning) and text.startswith(LARGE_INPUTS):
            if self.standardise:
                return  # a single far-off value of standardised rows
            text = f"{text.partition(':')[0]}: standardise=True brings every feature to mean 0 and deviation 1"
        warnings.warn(text, raised.category, stacklevel=4)

    def _trained(self, data: Data) -> TrainRun:
        given = {name: getattr(self, name) for name in _OF_TRAIN}
        return train(self._architecture(), data, **given, batch=min(self.batch, len(data.split("train"))))

    def _answers(self, X: Any) -> Tensor:  # noqa: N803
        """The outputs of the network for each row.

        In double precision a row's result does not depend on the other rows of its batch, except for the last digits.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        network = copy.deepcopy(self.network_).double()
        with pinned_threads(self.threads), torch.no_grad():
            return torch.cat([network(part) for part in torch.split(self._inputs(rows), _ROWS)])

    def _architecture(self) -> Mlp:
        return Mlp.from_values({name: getattr(self, name) for name in _OF_MLP})

    def _inputs(self, rows: NDArray[np.float64]) -> Tensor:
        """The rows as the network takes them, in double precision."""
        scaled = rows if self.mean_ is None or self.scale_ is None else (rows - self.mean_) / self.scale_
        return torch.from_numpy(np.array(scaled, order="C"))

    @property
    def _least(self) -> int:
        return 1 if self.batch_norm is None else 2  # batch norm needs two rows


@dataclasses.dataclass(eq=False, repr=False)
class Classifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A multi-layer perceptron for rows of numbers.

    ``hidden`` to ``input_dropout`` are those of the ``mlp`` architecture, the others those of ``train``; they are
    checked in ``fit``. ``standardise`` first scales every feature to mean 0 and deviation 1. A batch larger than the
    data means all rows. ``class_weight`` is ``"balanced"`` or a weight for each class, as in scikit-learn.

    After ``fit``: ``classes_``, ``n_features_in_`` (and ``feature_names_in_``, where the columns have names),
    ``network_`` (takes what ``standardise`` gives), ``record_`` (history, reason of the end, settings), ``n_iter_``
    (epochs), ``mean_`` and ``scale_`` (None unless ``standardise``).

    >>> from sklearn.datasets import load_iris
    >>> rows, names = load_iris(return_X_y=True)
    >>> model = Classifier((16,), standardise=True, schedule=0.01, seed=1).fit(rows, names)
    >>> model.predict(rows[::50]).tolist(), model.score(rows, names) > 0.9
    ([0, 1, 2], True)
    """

    class_weight: Mapping[Any, float] | str | None = dataclasses.field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's names)
        """Train on the rows ``X`` and their classes ``y``, numbers or text, with the weights of the rows, if any."""
        rows, names = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=self._least)
        check_classification_targets(names)
        self.classes_, codes = np.unique(names, return_inverse=True)
        if self.class_weight is not None:
            weights = compute_sample_weight(self.class_weight, names)
            sample_weight = weights if sample_weight is None else weights * np.asarray(sample_weight)
        targets = torch.from_numpy(codes.astype(np.int64))
        return self._fitted(rows, targets, tuple(map(str, self.classes_)), sample_weight)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class of ``classes_``, by softmax, for each row."""
        found: NDArray[np.float64] = torch.softmax(self._answers(X), 1).numpy()
        return found

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class for each row."""
        probable = self.predict_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[probable]
        return found


class Regressor(RegressorMixin, MultiOutputMixin, _Estimator):  # type: ignore[misc]
    """A multi-layer perceptron that predicts one number for each row, or several.

    Parameters and attributes are those of :class:`Classifier`, without classes. Targets are learnt as standardised
    deviations from their mean over the training rows and predicted in their original unit.

    >>> rows = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = Regressor((32,), schedule=0.01, seed=1).fit(rows, 1000 + 50 * rows[:, 0] ** 2)
    >>> model.score(rows, 1000 + 50 * rows[:, 0] ** 2) > 0.95
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's names)
        """Train on the rows ``X`` and their values ``y`` (a column each), with the weights of the rows, if any."""
        rows, values = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self._single = values.ndim == 1
        columns = values[:, None] if self._single else values
        targets = torch.from_numpy(np.ascontiguousarray(columns, np.float32))
        return self._fitted(rows, targets, tuple(map(str, range(columns.shape[1]))), sample_weight)

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The values for each row; one-dimensional if ``y`` was."""
        answers = self._answers(X)
        found: NDArray[np.float64] = card_of(self.network_).outputs.undo(answers).numpy()
        return found[:, 0] if self._single else found


_OF_MLP = ("hidden", "activation", "initialiser", "batch_norm", "dropout", "input_dropout")
_OF_TRAIN = (
    "optimiser", "schedule", "clip", "stop", "penalties", "loss", "epochs", "validation", "hooks", "diagnose", "seed",
    "threads",
)  # fmt: skip
