"""What the searches share: the answer in the common language, and going on from what was kept."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reducing.fakes import FakeScene, FakeSite

from weightsmith.core.errors import UsageError
from weightsmith.reducing.evolution import evolve
from weightsmith.reducing.fitness import guarded
from weightsmith.reducing.genetic import Genetic
from weightsmith.reducing.searching import choices_of, kept_of, resumed

MASK = np.array([True, False, True, False, False, True])
SCENE: Any = FakeScene(sites=(FakeSite("a", 4), FakeSite("b", 2)))


def test_bits_that_are_off_become_plain_removals():
    first, second = choices_of(SCENE, MASK)
    assert (first.site, first.units, first.kept) == ("a", 4, (0, 2))
    assert (second.site, second.units, second.kept) == ("b", 2, (1,))
    assert all(
        (removal.into, removal.constant, removal.inputs, removal.reason) == ((), 0.0, "keep", "search")
        for removal in (*first.removals, *second.removals)
    )
    assert kept_of(SCENE, MASK) == {"a": (0, 2), "b": (1,)}


def _run(scene: Any, method: Genetic, counts: dict[str, int] | None = None) -> Any:
    score = guarded(scene.evaluator(None), lambda accuracy, masks: accuracy - masks.sum(axis=1), scene.site_slices)
    search = functools.partial(evolve, score, scene.bits, method, scene.seed)
    return resumed(search, method, method.generations, scene, counts)


def test_a_killed_search_ends_as_if_it_had_not_been_killed(tmp_path: Path):
    method = Genetic(population=20, generations=12)
    whole = _run(FakeScene(), method)

    class Killed(Exception):
        pass

    def kill(done: int, total: int) -> None:
        if done == 5:
            raise Killed

    with pytest.raises(Killed):
        _run(FakeScene(folder=tmp_path, progress=kill), method)
    told: list[tuple[int, int]] = []
    again = FakeScene(folder=tmp_path, progress=lambda *done: told.append(done))
    state = _run(again, method)
    assert told == [(done, 12) for done in range(6, 13)]
    assert state.rows == whole.rows
    for name in ("population", "scores", "hall", "hall_scores"):
        np.testing.assert_array_equal(getattr(state, name), getattr(whole, name))
    assert again.evaluated <= sum(row.evaluated for row in whole.rows[6:])
    bytes_ = (tmp_path / "state.npz").read_bytes()
    finished = FakeScene(folder=tmp_path)
    assert _run(finished, method).rows == whole.rows
    assert finished.evaluated == 0
    uninterrupted = tmp_path / "other"
    _run(FakeScene(folder=uninterrupted), method)
    assert (uninterrupted / "state.npz").read_bytes() == bytes_


def test_it_may_be_asked_for_more_generations(tmp_path: Path):
    _run(FakeScene(folder=tmp_path), Genetic(population=20, generations=4))
    state = _run(FakeScene(folder=tmp_path), Genetic(population=20, generations=9))
    assert state.rows == _run(FakeScene(), Genetic(population=20, generations=9)).rows


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "seed"),
        ({"identity": {"network": "n2", "data": "d1"}}, "network digest"),
        ({"identity": {"network": "n1", "data": "d2"}}, "data digest"),
        ({"sites": (FakeSite("first", 12), FakeSite("other", 8))}, "sites"),
        ({"price": lambda masks: masks.sum(axis=1)}, "price"),
        ({"fitness": lambda accuracy, masks: accuracy}, "fitness"),
    ],
)
def test_what_belongs_to_another_search_is_refused(tmp_path: Path, change, told):
    method = Genetic(population=20, generations=2)
    _run(FakeScene(folder=tmp_path), method)
    with pytest.raises(UsageError, match=f"another search: {told} was"):
        _run(FakeScene(folder=tmp_path, **change), method)


def test_other_settings_and_counts_are_another_search(tmp_path: Path):
    _run(FakeScene(folder=tmp_path), Genetic(population=20, generations=2))
    with pytest.raises(UsageError, match=r"another search: flip was 0\.1 and is 0\.2"):
        _run(FakeScene(folder=tmp_path), Genetic(population=20, generations=2, flip=0.2))
    with pytest.raises(UsageError, match="another search: counts was None"):
        _run(FakeScene(folder=tmp_path), Genetic(population=20, generations=2), {"first": 3, "second": 2})


def test_counts_hold_the_sites_they_name():
    state = _run(FakeScene(), Genetic(population=20, generations=5), {"second": 3})
    assert (state.population[:, 12:].sum(axis=1) == 3).all()
    assert len(set(state.population[:, :12].sum(axis=1).tolist())) > 1
