from __future__ import annotations

import numpy as np
import pytest

from weightsmith.papers.study.batched import TrainingSettings, train_batched
from weightsmith.papers.study.folds import StudyFold, StudyPlan
from weightsmith.papers.study.rows import read_study_data
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.methods import Method
from weightsmith.reducing.search.evaluator import accuracies

_METHODS = (
    "angles:30",
    "angles:60",
    "angles:60,merge=literal",
    "genetic:0,population=20,generations=3",
    "genetic:80,population=20,generations=3",
)


@pytest.fixture(scope="module")
def study_fold():
    y = np.arange(90) % 3
    x = np.random.default_rng(0).normal(size=(90, 4)) + 1.5 * np.eye(3, 4)[y]
    data = read_study_data((x.astype(np.float32), y))
    plan = StudyPlan((10,), tuple(map(Method.of, _METHODS)), TrainingSettings(epochs=5), 3, 1, "zscore", 7, 4, False)
    return StudyFold(data, data.folds(3, 7, 0)[2], plan, repeat=0, number=2)


@pytest.fixture(scope="module")
def network(study_fold):
    return train_batched([study_fold.task(10, "network")], 3, study_fold.plan.recipe)[0]


def test_the_activations_are_looked_at_once_however_many_methods_ask(study_fold, network, monkeypatch):
    looks = []
    for name in ("grams", "evaluator"):
        usual = getattr(PruningContext, name)
        monkeypatch.setattr(
            PruningContext, name, lambda *given, name=name, usual=usual: looks.append(name) or usual(*given)
        )
    rows = study_fold.reduced(network)
    assert sorted(looks) == ["evaluator", "grams"]
    assert [row.method for row in rows] == ["whole", *map(str, study_fold.plan.methods)]
    assert len({row.units for row in rows}) > 2


def test_rows_of_masks_are_those_of_the_masked_network(study_fold, network):
    """A genetic search takes out whole units: the smaller network is right where the masked one is."""
    context = study_fold._context(network)
    method = study_fold.plan.methods[-1]
    (choice,) = method.choose(context, None).choices
    mask = np.isin(np.arange(10), choice.kept)[None]
    row = study_fold.reduced(network)[-1]
    for x, y, found in (
        (study_fold.x, study_fold.y, row.train_accuracy),
        (study_fold.test_x, study_fold.test_y, row.test_accuracy),
    ):
        expected = accuracies(network.hidden(x), network.outward, network.outward_bias, y, mask)[0]
        assert found == pytest.approx(expected)
    assert (row.units, row.penalty, row.angle) == (len(choice.kept), 80.0, None)


def test_random_masks_are_the_same_whatever_the_other_methods_are(study_fold, network):
    rows = {row.method: row for row in study_fold.reduced(network)}
    sizes: dict[int, set[float]] = {}
    for row in rows.values():
        if row.random_accuracy is not None:
            sizes.setdefault(row.units, set()).add(row.random_accuracy)
    assert all(len(found) == 1 for found in sizes.values())


def test_networks_from_scratch_have_a_seed_of_their_own_and_see_the_same_rows(study_fold):
    network, scratch = study_fold.task(10, "network"), study_fold.task(10, "scratch")
    assert network.seed != scratch.seed
    assert network.x is scratch.x
    assert len(study_fold.x) + len(study_fold.test_x) == 90
