"""The state of a search on disk: exact, its own only, never half written, never trusted blindly."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.reducing.evolution import State, evolve
from weightsmith.reducing.keeping import Keeper

CALL = {"name": "genetic", "penalty": 50.0, "seed": 0, "sites": {"dense1": 9}, "counts": None}
OPTIONS = SimpleNamespace(population=10, generations=4, tournament=3, crossover=0.8, mutation=0.2, flip=0.1, elite=3)


def _score(masks: np.ndarray) -> np.ndarray:
    return np.where(masks.any(axis=1), masks @ np.linspace(0.1, 1, masks.shape[1]), -np.inf)


def _state(bits: int = 9) -> State:
    return evolve(_score, bits, OPTIONS, 0)


def test_what_is_kept_comes_back_to_the_last_bit(tmp_path: Path):
    state, keeper = _state(), Keeper(tmp_path, CALL)
    assert keeper.read(4) is None
    keeper.write(state)
    found = Keeper(tmp_path, dict(reversed(CALL.items()))).read(4)
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
    Keeper(tmp_path, CALL).write(state)
    found = Keeper(tmp_path, CALL).read(4)
    assert found is not None
    assert found.known == state.known


def test_without_a_folder_nothing_is_kept():
    keeper = Keeper(None, CALL)
    keeper.write(_state())
    assert keeper.read(4) is None


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [("seed", 1, "seed was 0 and is 1"), ("sites", {"dense1": 8}, "sites was"), ("rows", 5, "rows was None and is 5")],
)
def test_the_state_of_another_search_is_refused(tmp_path: Path, key, value, told):
    Keeper(tmp_path, CALL).write(_state())
    with pytest.raises(UsageError, match=f"another search: {told}.*; give another folder") as raised:
        Keeper(tmp_path, {**CALL, key: value}).read(4)
    assert "\n" not in str(raised.value)


def test_more_generations_go_on_and_fewer_are_refused(tmp_path: Path):
    Keeper(tmp_path, CALL).write(_state())
    assert Keeper(tmp_path, CALL).read(40) is not None
    with pytest.raises(UsageError, match="stands at generation 4, beyond the 3 asked for"):
        Keeper(tmp_path, CALL).read(3)


def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path):
    path = tmp_path / "state.npz"
    Keeper(tmp_path, CALL).write(_state())
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(FileRefused):
            Keeper(tmp_path, CALL).read(4)


def _rewritten(path: Path, **changes: np.ndarray) -> None:
    with np.load(path) as stored:
        arrays = {**stored, **changes}
    file = io.BytesIO()
    np.savez(file, **arrays)
    path.write_bytes(file.getvalue())


def test_changed_content_is_refused(tmp_path: Path):
    path = tmp_path / "state.npz"
    Keeper(tmp_path, CALL).write(_state())
    _rewritten(path, scores=np.zeros(10))
    with pytest.raises(FileRefused, match="does not match its digest"):
        Keeper(tmp_path, CALL).read(4)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (b"[]", "is not the state of a search"),
        (b"{", "is not the state of a search"),
        (b'{"digest": "", "format": 1}', "does not match its digest"),
        (json.dumps({"digest": "", "format": 2}).encode(), "another version of weightsmith"),
        (b"\xff\xfe\xff", "is not the state of a search"),
    ],
)
def test_foreign_content_is_refused(tmp_path: Path, facts, told):
    Keeper(tmp_path, CALL).write(_state())
    _rewritten(tmp_path / "state.npz", facts=np.frombuffer(facts, np.uint8))
    with pytest.raises(FileRefused, match=told):
        Keeper(tmp_path, CALL).read(4)


def test_pickled_objects_and_other_archives_are_refused(tmp_path: Path):
    np.savez(tmp_path / "state.npz", facts=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FileRefused, match="pickled"):
        Keeper(tmp_path, CALL).read(4)
    np.savez(tmp_path / "state.npz", weight=np.zeros(3))
    with pytest.raises(FileRefused, match="is not the state of a search"):
        Keeper(tmp_path, CALL).read(4)
