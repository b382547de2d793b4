"""What the searches share: the answer in the common language, and going on from what was kept."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.reducing.fakes import FakeContext, FakeSite

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.reducing.search.evolution import State, evolve
from weightsmith.reducing.search.fitness import guarded
from weightsmith.reducing.search.genetic import Genetic
from weightsmith.reducing.search.state import SearchState, choices_of, kept_of, resumed

MASK = np.array([True, False, True, False, False, True])
SCENE: Any = FakeContext(sites=(FakeSite("a", 4), FakeSite("b", 2)))


def test_bits_that_are_off_become_plain_removals():
    first, second = choices_of(SCENE, MASK)
    assert (first.site, first.units, first.kept) == ("a", 4, (0, 2))
    assert (second.site, second.units, second.kept) == ("b", 2, (1,))
    assert all(
        (removal.into, removal.constant, removal.inputs, removal.reason) == ((), 0.0, "keep", "search")
        for removal in (*first.removals, *second.removals)
    )
    assert kept_of(SCENE, MASK) == {"a": (0, 2), "b": (1,)}


def _run(context: Any, method: Genetic, counts: dict[str, int] | None = None) -> Any:
    score = guarded(context.evaluator(None), lambda accuracy, masks: accuracy - masks.sum(axis=1), context.site_slices)
    search = functools.partial(evolve, score, context.bits, method, context.seed)
    return resumed(search, method, method.generations, context, counts)


def test_a_killed_search_ends_as_if_it_had_not_been_killed(tmp_path: Path):
    method = Genetic(population=20, generations=12)
    whole = _run(FakeContext(), method)

    class Killed(Exception):
        pass

    def kill(done: int, total: int) -> None:
        if done == 5:
            raise Killed

    with pytest.raises(Killed):
        _run(FakeContext(folder=tmp_path, progress=kill), method)
    calls: list[tuple[int, int]] = []
    again = FakeContext(folder=tmp_path, progress=lambda *done: calls.append(done))
    state = _run(again, method)
    assert calls == [(done, 12) for done in range(6, 13)]
    assert state.rows == whole.rows
    for name in ("population", "scores", "hall", "hall_scores"):
        np.testing.assert_array_equal(getattr(state, name), getattr(whole, name))
    assert again.evaluated <= sum(row.evaluated for row in whole.rows[6:])
    bytes_ = (tmp_path / "state.npz").read_bytes()
    finished = FakeContext(folder=tmp_path)
    assert _run(finished, method).rows == whole.rows
    assert finished.evaluated == 0
    uninterrupted = tmp_path / "other"
    _run(FakeContext(folder=uninterrupted), method)
    assert (uninterrupted / "state.npz").read_bytes() == bytes_


def test_it_may_be_asked_for_more_generations(tmp_path: Path):
    _run(FakeContext(folder=tmp_path), Genetic(population=20, generations=4))
    state = _run(FakeContext(folder=tmp_path), Genetic(population=20, generations=9))
    assert state.rows == _run(FakeContext(), Genetic(population=20, generations=9)).rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed"),
        ({"identity": {"network": "n2", "data": "d1"}}, "network digest"),
        ({"identity": {"network": "n1", "data": "d2"}}, "data digest"),
        ({"sites": (FakeSite("first", 12), FakeSite("other", 8))}, "sites"),
        ({"price": lambda masks: masks.sum(axis=1)}, "price"),
        ({"fitness": lambda accuracy, masks: accuracy}, "fitness"),
    ],
)
def test_what_belongs_to_another_search_is_refused(tmp_path: Path, change, message):
    method = Genetic(population=20, generations=2)
    _run(FakeContext(folder=tmp_path), method)
    with pytest.raises(UsageError, match=f"another search: {message} was"):
        _run(FakeContext(folder=tmp_path, **change), method)


def test_other_settings_and_counts_are_another_search(tmp_path: Path):
    _run(FakeContext(folder=tmp_path), Genetic(population=20, generations=2))
    with pytest.raises(UsageError, match=r"another search: flip was 0\.1 and is 0\.2"):
        _run(FakeContext(folder=tmp_path), Genetic(population=20, generations=2, flip=0.2))
    with pytest.raises(UsageError, match="another search: counts was None"):
        _run(FakeContext(folder=tmp_path), Genetic(population=20, generations=2), {"first": 3, "second": 2})


def test_counts_hold_the_sites_they_name():
    state = _run(FakeContext(), Genetic(population=20, generations=5), {"second": 3})
    assert (state.population[:, 12:].sum(axis=1) == 3).all()
    assert len(set(state.population[:, :12].sum(axis=1).tolist())) > 1


CALL = {"name": "genetic", "penalty": 50.0, "seed": 0, "sites": {"dense1": 9}, "counts": None}
OPTIONS = SimpleNamespace(population=10, generations=4, tournament=3, crossover=0.8, mutation=0.2, flip=0.1, elite=3)


def _score(masks: np.ndarray) -> np.ndarray:
    return np.where(masks.any(axis=1), masks @ np.linspace(0.1, 1, masks.shape[1]), -np.inf)


def _state(bits: int = 9) -> State:
    return evolve(_score, bits, OPTIONS, 0)


def test_what_is_kept_comes_back_to_the_last_bit(tmp_path: Path):
    state, kept_state = _state(), SearchState(tmp_path, CALL)
    assert kept_state.read(4) is None
    kept_state.write(state)
    found = SearchState(tmp_path, dict(reversed(CALL.items()))).read(4)
    assert found is not None
    assert (found.generation, found.rows, found.met) == (4, state.rows, state.met)
    assert list(found.known.items()) == list(state.known.items())
    for name in ("population", "scores", "hall", "hall_scores"):
        array = getattr(found, name)
        assert array.dtype == getattr(state, name).dtype
        np.testing.assert_array_equal(array, getattr(state, name))
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


def test_an_empty_mask_is_remembered_as_never(tmp_path: Path):
    state = _state(2)
    assert -np.inf in state.known.values()
    SearchState(tmp_path, CALL).write(state)
    found = SearchState(tmp_path, CALL).read(4)
    assert found is not None
    assert found.known == state.known


def test_without_a_folder_nothing_is_kept():
    kept_state = SearchState(None, CALL)
    kept_state.write(_state())
    assert kept_state.read(4) is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("seed", 1, "seed was 0 and is 1"), ("sites", {"dense1": 8}, "sites was"), ("rows", 5, "rows was None and is 5")],
)
def test_the_state_of_another_search_is_refused(tmp_path: Path, key, value, message):
    SearchState(tmp_path, CALL).write(_state())
    with pytest.raises(UsageError, match=f"another search: {message}.*; give another folder") as raised:
        SearchState(tmp_path, {**CALL, key: value}).read(4)
    assert "\n" not in str(raised.value)


def test_more_generations_go_on_and_fewer_are_refused(tmp_path: Path):
    SearchState(tmp_path, CALL).write(_state())
    assert SearchState(tmp_path, CALL).read(40) is not None
    with pytest.raises(UsageError, match="is at generation 4, beyond the 3 requested"):
        SearchState(tmp_path, CALL).read(3)


def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path):
    path = tmp_path / "state.npz"
    SearchState(tmp_path, CALL).write(_state())
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(FileRefused):
            SearchState(tmp_path, CALL).read(4)


def _rewritten(path: Path, **changes: np.ndarray) -> None:
    with np.load(path) as stored:
        arrays = {**stored, **changes}
    file = io.BytesIO()
    np.savez(file, **arrays)
    path.write_bytes(file.getvalue())


def test_changed_content_is_refused(tmp_path: Path):
    path = tmp_path / "state.npz"
    SearchState(tmp_path, CALL).write(_state())
    _rewritten(path, scores=np.zeros(10))
    with pytest.raises(FileRefused, match="does not match its digest"):
        SearchState(tmp_path, CALL).read(4)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (b"[]", "is not the state of a search"),
        (b"{", "is not the state of a search"),
        (b'{"digest": "", "format": 1}', "does not match its digest"),
        (json.dumps({"digest": "", "format": 2}).encode(), "another version of weightsmith"),
        (b"\xff\xfe\xff", "is not the state of a search"),
    ],
)
def test_foreign_content_is_refused(tmp_path: Path, facts, message):
    SearchState(tmp_path, CALL).write(_state())
    _rewritten(tmp_path / "state.npz", facts=np.frombuffer(facts, np.uint8))
    with pytest.raises(FileRefused, match=message):
        SearchState(tmp_path, CALL).read(4)


def test_pickled_objects_and_other_archives_are_refused(tmp_path: Path):
    np.savez(tmp_path / "state.npz", facts=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FileRefused, match="pickled"):
        SearchState(tmp_path, CALL).read(4)
    np.savez(tmp_path / "state.npz", weight=np.zeros(3))
    with pytest.raises(FileRefused, match="is not the state of a search"):
        SearchState(tmp_path, CALL).read(4)
