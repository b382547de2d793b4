from __future__ import annotations

import numpy as np
import pytest

from weightsmith.papers.study.batched import Recipe, train_together
from weightsmith.papers.study.folds import Lesson, Plan
from weightsmith.papers.study.rows import read_study_data
from weightsmith.papers.study.study import read_methods
from weightsmith.reducing.context import Scene
from weightsmith.reducing.search.evaluator import accuracies

_METHODS = (
    "angles:30",
    "angles:60",
    "angles:60,merge=literal",
    "genetic:0,population=20,generations=3",
    "genetic:80,population=20,generations=3",
)


@pytest.fixture(scope="module")
def lesson():
    y = np.arange(90) % 3
    x = np.random.default_rng(0).normal(size=(90, 4)) + 1.5 * np.eye(3, 4)[y]
    data = read_study_data((x.astype(np.float32), y))
    plan = Plan((10,), read_methods(_METHODS), Recipe(epochs=5), 3, 1, "zscore", 7, 4, False)
    return Lesson(data, data.folds(3, 7, 0)[2], plan, repeat=0, number=2)


@pytest.fixture(scope="module")
def network(lesson):
    return train_together([lesson.pupil(10, "network")], 3, lesson.plan.recipe)[0]


def test_the_activations_are_looked_at_once_however_many_methods_ask(lesson, network, monkeypatch):
    looks = []
    for name in ("grams", "evaluator"):
        usual = getattr(Scene, name)
        monkeypatch.setattr(Scene, name, lambda *given, name=name, usual=usual: looks.append(name) or usual(*given))
    rows = lesson.reduced(network)
    assert sorted(looks) == ["evaluator", "grams"]
    assert [row.method for row in rows] == ["whole", *map(str, lesson.plan.methods)]
    assert len({row.units for row in rows}) > 2


def test_rows_of_masks_are_those_of_the_masked_network(lesson, network):
    """A genetic search takes out whole units: the smaller network is right where the masked one is."""
    scene = lesson._scene(network)
    method = lesson.plan.methods[-1]
    (choice,) = method.choose(scene, None).choices
    mask = np.isin(np.arange(10), choice.kept)[None]
    row = lesson.reduced(network)[-1]
    for x, y, found in (
        (lesson.x, lesson.y, row.train_accuracy),
        (lesson.test_x, lesson.test_y, row.test_accuracy),
    ):
        expected = accuracies(network.hidden(x), network.outward, network.outward_bias, y, mask)[0]
        assert found == pytest.approx(expected)
    assert (row.units, row.penalty, row.angle) == (len(choice.kept), 80.0, None)


def test_random_masks_are_the_same_whatever_the_other_methods_are(lesson, network):
    rows = {row.method: row for row in lesson.reduced(network)}
    sizes: dict[int, set[float]] = {}
    for row in rows.values():
        if row.random_accuracy is not None:
            sizes.setdefault(row.units, set()).add(row.random_accuracy)
    assert all(len(found) == 1 for found in sizes.values())


def test_networks_from_scratch_have_a_seed_of_their_own_and_see_the_same_rows(lesson):
    network, scratch = lesson.pupil(10, "network"), lesson.pupil(10, "scratch")
    assert network.seed != scratch.seed
    assert network.x is scratch.x
    assert len(lesson.x) + len(lesson.test_x) == 90
