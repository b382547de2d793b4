from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.card import weights_digest
from weightsmith.networks.models.mlp import Mlp
from weightsmith.training.clipping import ClipNorm
from weightsmith.training.estimator import Classifier, Regressor
from weightsmith.training.loop import train
from weightsmith.training.optimisers import Momentum
from weightsmith.training.penalties import L2
from weightsmith.training.run import Stopped
from weightsmith.training.schedules import Constant, Cosine
from weightsmith.training.stopping import EarlyStopping


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    rows, codes = load_iris(return_X_y=True)
    return rows, np.array(["setosa", "versicolor", "virginica"])[codes]


FAST = {"schedule": 0.02, "epochs": 20}


# A weight is not a row that comes twice where rows are drawn into batches; test_targets has the case of one batch.
DRAWN = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "batches are drawn",
)


@parametrize_with_checks(
    [
        Classifier(**FAST),
        Classifier((8,), standardise=True, batch_norm="before", **FAST),
        Regressor(schedule=0.02, epochs=60),
    ],
    expected_failed_checks=lambda estimator: DRAWN,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_it_trains_what_train_trains(iris):
    rows, names = iris
    model = Classifier((6,), optimiser="momentum", schedule=0.02, epochs=3, seed=4, dropout=0.1).fit(rows, names)
    split = Split(torch.from_numpy(rows).float(), torch.from_numpy(np.unique(names, return_inverse=True)[1]))
    run = train(
        Mlp((6,), dropout=0.1), Data("rows", split, classes=("setosa", "versicolor", "virginica")),
        optimiser=Momentum(), schedule=0.02, epochs=3, seed=4, diagnose=False,
    )  # fmt: skip
    assert model.record_ == run.record
    assert weights_digest(model.network_) == weights_digest(run.network)
    assert model.n_iter_ == 3
    scores = run.network(split.x).detach()
    np.testing.assert_allclose(model.predict_proba(rows), torch.softmax(scores, 1).numpy(), rtol=1e-4, atol=1e-6)
    assert (model.predict(rows) == model.classes_[scores.argmax(1).numpy()]).mean() > 0.99


def test_labels_may_be_text_and_come_back_as_they_were(iris):
    rows, names = iris
    model = Classifier((16,), schedule=0.02, epochs=20, standardise=True).fit(rows, names)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert set(model.predict(rows)) <= set(names)
    assert model.score(rows, names) > 0.9
    assert model.n_features_in_ == 4
    assert model.network_.card.classes == tuple(model.classes_)
    odd = Classifier((16,), schedule=0.02, epochs=20, standardise=True).fit(
        rows, np.unique(names, return_inverse=True)[1] * 10 - 7
    )
    assert odd.classes_.tolist() == [-7, 3, 13]
    assert set(odd.predict(rows)) <= {-7, 3, 13}


def test_standardising_is_that_of_a_pipeline(iris):
    rows, names = iris
    rows = np.hstack([rows * 1e3 + 1e5, np.full((len(rows), 1), 0.1)])  # a constant column has no scale
    inside = Classifier((8,), schedule=0.02, epochs=10, standardise=True).fit(rows, names)
    outside = make_pipeline(StandardScaler(), Classifier((8,), schedule=0.02, epochs=10)).fit(rows, names)
    np.testing.assert_allclose(inside.predict_proba(rows), outside.predict_proba(rows), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inside.mean_, rows.mean(axis=0))
    assert inside.scale_[-1] == 1
    assert outside[-1].mean_ is None
    assert inside.score(rows, names) > 0.8


def test_a_search_over_options_as_objects_and_as_text(iris):
    rows, names = iris
    grid = {
        "classifier__clip": [None, ClipNorm(1.0), "value:0.5"],
        "classifier__schedule": [Cosine(0.05), 0.02],
        "classifier__penalties": [(), [L2(0.001)]],
    }
    pipeline = make_pipeline(StandardScaler(), Classifier((8,), epochs=10))
    search = GridSearchCV(pipeline, grid, cv=2).fit(rows, names)
    assert search.best_score_ > 0.8
    assert len(search.cv_results_["params"]) == 12
    assert set(search.predict(rows)) <= set(names)


def test_cross_validation_gives_the_same_each_time(iris):
    model = make_pipeline(StandardScaler(), Classifier((8,), schedule=0.03, epochs=10))
    scores = [cross_val_score(model, *iris, cv=3).tolist() for _ in range(2)]
    assert scores[0] == scores[1]
    assert min(scores[0]) > 0.7  # a third by chance


def test_clones_and_pickles(iris):
    rows, names = iris
    model = Classifier([8, 4], optimiser=Momentum(0.8), schedule=Constant(0.1), stop=EarlyStopping(3), epochs=4, seed=2)
    fresh = clone(model.fit(rows, names))
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "network_")
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert again.record_ == model.record_


def test_fitting_again_starts_over(iris):
    rows, names = iris
    model = Classifier((8,), epochs=2, standardise=True).fit(rows, names)
    first = model.predict_proba(rows)
    assert np.array_equal(model.fit(rows, names).predict_proba(rows), first)
    model.set_params(standardise=False).fit(rows[:100], names[:100])
    assert model.classes_.tolist() == ["setosa", "versicolor"]
    assert model.predict_proba(rows).shape == (150, 2)
    assert model.mean_ is None


def test_early_stopping_and_hooks_reach_the_record(iris):
    rows, names = iris
    stop = EarlyStopping(2, min_delta=9)
    hooks = [lambda end: {"epochs": float(end.row.epoch)}]
    model = Classifier((8,), stop=stop, validation=0.2, diagnose=True, hooks=hooks).fit(rows, names)
    assert model.record_.stopped is Stopped.EARLY
    assert model.n_iter_ == 3
    assert model.record_.history.column("epochs") == (1.0, 2.0, 3.0)
    assert model.record_.gradients is not None


def test_a_run_that_diverges_warns_and_still_answers(iris):
    rows, names = iris
    with pytest.warns(ConvergenceWarning, match="NaN or infinite in epoch"):
        model = Classifier((8,), optimiser="momentum", schedule=1e25, epochs=30).fit(rows, names)
    assert np.isfinite(model.predict_proba(rows)).all()


def test_few_rows_need_no_smaller_batch(iris):
    rows, names = iris
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Classifier((8,), epochs=1, batch=1000).fit(rows, names)
    assert model.record_.settings["batch"] == len(rows)


def test_a_rows_answer_does_not_depend_on_its_neighbours(iris):
    rows, names = iris
    model = Classifier((300, 100), epochs=1).fit(rows, names)
    whole = model.predict_proba(rows)
    single = np.vstack([model.predict_proba(rows[i : i + 1]) for i in range(0, 150, 10)])
    np.testing.assert_allclose(single, whole[::10], rtol=1e-12, atol=1e-15)


def test_nothing_is_looked_at_before_fit(iris):
    model = Classifier(hidden=-3, activation="moon", optimiser=7)  # type: ignore[arg-type]
    assert model.get_params()["activation"] == "moon"
    for changes, error in [
        ({"activation": "moon"}, UnknownName),
        ({"hidden": (0,)}, OptionError),
        ({"optimiser": 7}, UsageError),
        ({"epochs": 0}, UsageError),
        ({"dropout": 1.0}, OptionError),
    ]:
        with pytest.raises(error):
            Classifier(**changes).fit(*iris)
    with pytest.raises(NotFittedError):
        Classifier().predict(iris[0])


@pytest.mark.slow
def test_the_rest_of_the_package_does_without_scikit_learn():
    code = (
        "import sys, weightsmith, weightsmith.training.loop, weightsmith.training.tensorboard\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('sklearn', 'scipy', 'tensorboard')])"
    )
    answer: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_large_inputs_are_told_with_the_parameter_that_helps_and_only_without_it(recwarn):
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(60, 2)) * [1, 100]
    rows[0, 0] = 500.0  # far off even when standardised
    names = (rows[:, 1] > 0).astype(int)
    Classifier((4,), standardise=True, epochs=1).fit(rows, names)
    assert not recwarn.list
    Classifier((4,), epochs=1).fit(rows, names)
    (warning,) = recwarn.list
    assert "standardise=True brings every feature" in str(warning.message)
    assert warning.filename == __file__


def test_weights_of_classes_and_rows_multiply(iris):
    rows, names = iris
    few = np.r_[0:50, 50:53]
    options = {"schedule": 0.01, "epochs": 3, "batch": 64}
    balanced = Classifier((4,), class_weight="balanced", **options).fit(rows[few], names[few])
    by_row = np.where(names[few] == "setosa", 53 / 100, 53 / 6)
    given = Classifier((4,), **options).fit(rows[few], names[few], sample_weight=by_row)
    assert weights_digest(balanced.network_) == weights_digest(given.network_)
    plain = Classifier((4,), **options).fit(rows[few], names[few])
    assert weights_digest(plain.network_) != weights_digest(given.network_)


def test_several_values_keep_their_shape_and_unit(iris):
    rows, _ = iris
    values = np.stack([rows[:, 2] * 100, rows[:, 3]], 1)
    model = Regressor((16,), standardise=True, schedule=0.01, epochs=60).fit(rows[:, :2], values)
    assert model.predict(rows[:4, :2]).shape == (4, 2)
    assert model.score(rows[:, :2], values) > 0.8
    assert Regressor(epochs=1).fit(rows[:, :2], values[:, 0]).predict(rows[:3, :2]).shape == (3,)
