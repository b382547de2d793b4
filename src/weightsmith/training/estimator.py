"""An MLP trained by :func:`weightsmith.train` behind scikit-learn's interface.

It drops into pipelines, cross-validation and searches, whose grids may hold option objects or their text forms:

>>> from sklearn.model_selection import GridSearchCV
>>> from weightsmith.training.clipping import ClipNorm
>>> grid = {"hidden": [(8,), (32, 16)], "clip": [None, ClipNorm(1.0), "value:0.5"]}
>>> search = GridSearchCV(Classifier(epochs=20), grid)

This module imports scikit-learn, so no other module of ``training`` imports it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from weightsmith.core.seeds import pinned_threads
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.models.mlp import Mlp
from weightsmith.training.clipping import Clip
from weightsmith.training.loop import train
from weightsmith.training.losses import Loss
from weightsmith.training.optimisers import Optimiser
from weightsmith.training.penalties import Penalty
from weightsmith.training.plan import TrainingWarning
from weightsmith.training.run import Hook, Stopped, TrainRecord, TrainRun
from weightsmith.training.schedules import Schedule
from weightsmith.training.stopping import Stop
from weightsmith.training.suitability import LARGE_INPUTS

__all__ = ["Classifier"]

_ROWS = 4096  # answered at a time


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A multi-layer perceptron for rows of numbers.

    ``hidden`` to ``input_dropout`` are those of the ``mlp`` architecture, the others those of ``train``; none is looked
    at before ``fit``. ``standardise`` brings every feature to mean 0 and deviation 1 first. A batch larger than the
    data is all of them.

    After ``fit``: ``classes_``, ``n_features_in_`` (and ``feature_names_in_``, where the columns have names),
    ``network_`` (takes what ``standardise`` gives), ``record_`` (history, reason of the end, settings), ``n_iter_``
    (epochs), ``mean_`` and ``scale_`` (None unless ``standardise``).

    >>> from sklearn.datasets import load_iris
    >>> rows, names = load_iris(return_X_y=True)
    >>> model = Classifier((16,), standardise=True, schedule=0.01, seed=1).fit(rows, names)
    >>> model.predict(rows[::50]).tolist(), model.score(rows, names) > 0.9
    ([0, 1, 2], True)
    """

    classes_: NDArray[Any]
    n_features_in_: int
    network_: nn.Module
    record_: TrainRecord
    n_iter_: int
    mean_: NDArray[np.float64] | None
    scale_: NDArray[np.float64] | None

    def __init__(
        self,
        hidden: Sequence[int] = (100,),
        *,
        activation: str = "relu",
        initialiser: str | None = None,
        batch_norm: str | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        optimiser: Optimiser | str = "adam",
        schedule: Schedule | float | str | None = None,
        clip: Clip | str | None = None,
        stop: Stop | str | None = None,
        penalties: Sequence[Penalty | str] | Penalty | str = (),
        loss: Loss | str | Callable[[Tensor, Tensor], Tensor] = "cross-entropy",
        batch: int = 32,
        epochs: int = 100,
        validation: float | None = None,
        standardise: bool = False,
        hooks: Sequence[Hook] = (),
        diagnose: bool = False,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.initialiser = initialiser
        self.batch_norm = batch_norm
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.optimiser = optimiser
        self.schedule = schedule
        self.clip = clip
        self.stop = stop
        self.penalties = penalties
        self.loss = loss
        self.batch = batch
        self.epochs = epochs
        self.validation = validation
        self.standardise = standardise
        self.hooks = hooks
        self.diagnose = diagnose
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 (scikit-learn's names)
        """Train on the rows ``X`` and their classes ``y``, numbers or text."""
        least = 1 if self.batch_norm is None else 2  # what a batch norm cannot do with fewer
        rows, names = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=least)
        check_classification_targets(names)
        self.classes_, codes = np.unique(names, return_inverse=True)
        self.mean_ = self.scale_ = None
        if self.standardise:
            scaler = StandardScaler().fit(rows)  # knows a constant column, which has no scale, in spite of rounding
            self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        split = Split(self._inputs(rows).to(torch.float32), torch.from_numpy(codes.astype(np.int64)))
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", TrainingWarning)
            run = self._trained(split)
        for each in raised:
            self._pass_on(each)
        if run.stopped is Stopped.DIVERGED:
            warnings.warn(run.record.reason, ConvergenceWarning, stacklevel=2)
        self.network_, self.record_, self.n_iter_ = run.network, run.record, len(run.history.rows)
        return self

    def _pass_on(self, raised: warnings.WarningMessage) -> None:
        """A warning of the training, from where ``fit`` was called; the way out is a parameter that is here."""
        text = str(raised.message)
        if issubclass(raised.category, TrainingWarning) and text.startswith(LARGE_INPUTS):
            if self.standardise:
                return  # a single far-off value of standardised rows
            text = f"{text.partition(':')[0]}: standardise=True brings every feature to mean 0 and deviation 1"
        warnings.warn(text, raised.category, stacklevel=3)

    def _trained(self, split: Split) -> TrainRun:
        return train(
            self._architecture(),
            Data("rows", split, classes=tuple(map(str, self.classes_))),
            optimiser=self.optimiser,
            schedule=self.schedule,
            clip=self.clip,
            stop=self.stop,
            penalties=self.penalties,
            loss=self.loss,
            batch=min(self.batch, len(split)),
            epochs=self.epochs,
            validation=self.validation,
            hooks=self.hooks,
            diagnose=self.diagnose,
            seed=self.seed,
            threads=self.threads,
        )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class of ``classes_``, by softmax, for each row."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        # In double precision a row's result does not depend on the other rows of its batch, except for the last digits.
        network = copy.deepcopy(self.network_).double()
        with pinned_threads(self.threads), torch.no_grad():
            answers = [torch.softmax(network(part), 1) for part in torch.split(self._inputs(rows), _ROWS)]
        found: NDArray[np.float64] = torch.cat(answers).numpy()
        return found

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class for each row."""
        probable = self.predict_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[probable]
        return found

    def _architecture(self) -> Mlp:
        values = {
            "hidden": self.hidden,
            "activation": self.activation,
            "initialiser": self.initialiser,
            "batch_norm": self.batch_norm,
            "dropout": self.dropout,
            "input_dropout": self.input_dropout,
        }
        return Mlp.from_values(values)

    def _inputs(self, rows: NDArray[np.float64]) -> Tensor:
        """The rows as the network takes them, in double precision."""
        scaled = rows if self.mean_ is None or self.scale_ is None else (rows - self.mean_) / self.scale_
        return torch.from_numpy(np.array(scaled, order="C"))
