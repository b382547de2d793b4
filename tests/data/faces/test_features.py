from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.data.faces.features import FaceFeatures, LeftOut, principal
from weightsmith.data.splits import stratified_folds


@pytest.fixture
def features():
    draw = np.random.default_rng(0)
    return FaceFeatures(
        lpq=draw.random((40, 60), np.float32),
        phog=draw.random((40, 90), np.float32),
        labels=np.arange(40) % 4,
        classes=("angry", "glad", "sad", "Ärger"),
        paths=tuple(f"class/{i}.png" for i in range(40)),
        left_out=(LeftOut("glad/x.png", "no face found"),),
        notes=("a remark",),
        recipe="face 128×128, lpq, phog",
    )


def test_components_are_fitted_on_the_training_rows_alone(features):
    train = stratified_folds(features.labels, 10)[3].train
    found = features.components(train)
    assert found.shape == (40, 10)
    for start, x in ((0, features.lpq), (5, features.phog)):
        other = PCA(5, svd_solver="full").fit(x[train].astype(float)).transform(x.astype(float))
        assert np.allclose(np.abs(found[:, start : start + 5]), np.abs(other), atol=1e-6)
    assert np.allclose(found[train].mean(axis=0), 0, atol=1e-9)


def test_test_rows_do_not_leak_into_the_components(features):
    train = np.arange(40) < 30
    found = features.components(train)
    changed = dataclasses.replace(features, lpq=features.lpq.copy(), phog=features.phog.copy())
    changed.lpq[35] = 1e3
    changed.phog[35] = -1e3
    again = changed.components(train)
    same = np.arange(40) != 35
    assert np.array_equal(found[same], again[same])
    assert not np.allclose(found[35], again[35])
    assert not np.allclose(found, features.components(np.arange(40)), atol=1e-3)


def test_rows_as_numbers_or_as_true_and_false(features):
    mask = np.arange(40) % 3 > 0
    assert np.array_equal(features.components(mask, 2, 3), features.components(np.flatnonzero(mask), 2, 3))
    assert features.components(mask, 0, 3).shape == (40, 3)
    for wrong in ([], [40], [-1], [0.5], [[1, 2]], [True, False], np.zeros(40, bool)):
        with pytest.raises(UsageError, match="training rows are numbers from 0 to 39, or 40 times true or false"):
            features.components(wrong)
    with pytest.raises(UsageError, match="PHOG: 9 components were requested, but the 6 training rows vary in 5"):
        features.components(range(6), 5, 9)


def test_the_split_is_stratified_unless_folders_say(features):
    splits = features.divided(0.2, seed=3)
    test = [i for i, split in enumerate(splits) if split == "test"]
    assert np.bincount(features.labels[test]).tolist() == [2, 2, 2, 2]
    assert splits == features.divided(0.2, seed=3) != features.divided(0.2, seed=4)
    assert features.divided(0) == ("train",) * 40
    given = dataclasses.replace(features, splits=("train",) * 20 + ("validation",) * 5 + ("test",) * 15)
    assert given.divided(0.2) == given.splits
    with pytest.raises(UsageError, match="≥ 0 and < 1, not 1"):
        features.divided(1)


def test_saved_and_loaded_to_the_last_bit(features, tmp_path):
    path = features.save(tmp_path / "faces.npz")
    again = FaceFeatures.load(path)
    for field in dataclasses.fields(features):
        mine, read = getattr(features, field.name), getattr(again, field.name)
        assert np.array_equal(mine, read), field.name
        assert type(mine) is type(read)
    assert repr(again) == "FaceFeatures(40 faces, 4 classes, 1 left out)"
    assert again.left_out[0].reason == "no face found"
    once = path.read_bytes()
    assert features.save(path).read_bytes() == once
    bare = dataclasses.replace(features, left_out=(), notes=())
    assert FaceFeatures.load(bare.save(path)).left_out == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.arange(40) % 5}, "numbers of the 4 classes"),
        ({"labels": np.zeros(39, int)}, "need the same number of rows"),
        ({"splits": np.array(["somewhere"] * 40)}, "splits of faces are train"),
        ({"lpq": np.full((40, 60), np.nan, np.float32)}, "NaN or infinity"),
        ({"lpq": np.zeros((40, 6, 10), np.float32)}, "does not hold descriptions of faces"),
        ({"paths": np.arange(40)}, "does not hold descriptions of faces"),
        ({"left_out": np.full((1, 3), "x")}, "does not hold descriptions of faces"),
        ({"recipe": np.array({"a": 1}, object)}, "array 'recipe' claims object"),
        ({"phog": None}, "has no array 'phog'"),
    ],
)
def test_damaged_files_are_refused_by_name(features, tmp_path, change, message):
    path = features.save(tmp_path / "faces.npz")
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files} | change
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(FileRefused, match=f"faces.npz: .*{message}"):
        FaceFeatures.load(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK nonsense")
    for name, message in (("x.npz", "not a readable NumPy archive"), ("gone.npz", "no such file")):
        with pytest.raises(FileRefused, match=message):
            FaceFeatures.load(tmp_path / name)


def test_rows_must_fit_each_other(features):
    with pytest.raises(DataMismatch, match="39 labels"):
        dataclasses.replace(features, labels=features.labels[:39])


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(6, 30), st.integers(6, 40))
def test_components_are_those_of_another_implementation(seed, rows, features):
    x = np.random.default_rng(seed).normal(size=(rows, features)) * np.geomspace(1, 100, features)
    other = PCA(4, svd_solver="full").fit(x)
    fit = principal(x, 4)
    assert np.allclose(np.abs(fit.scores(x)), np.abs(other.transform(x)), atol=1e-6)
    assert np.allclose(fit.shares, other.explained_variance_ratio_)
    assert np.allclose(fit.directions @ fit.directions.T, np.eye(4))
    for direction in fit.directions:
        assert direction[np.abs(direction).argmax()] > 0


def test_new_rows_are_seen_from_the_old_mean():
    fit = principal([[0, 0], [2, 0]], 1)
    assert fit.scores([[5, 9]]).tolist() == [[4]]


def test_the_order_of_rows_does_not_turn_the_signs():
    x = np.random.default_rng(3).normal(size=(20, 50))
    assert np.allclose(principal(x, 5).directions, principal(x[::-1], 5).directions)


def test_no_more_components_than_the_rows_have():
    x = np.random.default_rng(0).normal(size=(4, 9))
    assert principal(x, 3).directions.shape == (3, 9)
    with pytest.raises(UsageError, match="LPQ: 4 components were requested, but the 4 training rows vary in 3"):
        principal(x, 4, "LPQ")
    with pytest.raises(UsageError, match="vary in 0 directions"):
        principal(np.full((8, 5), 0.1), 1)
    with pytest.raises(UsageError, match="vary in 1 directions"):
        principal(np.outer([1, 2, 3, 4, 5], np.full(7, 0.3)), 2)
    with pytest.raises(UsageError, match="-1 components"):
        principal(x, -1)
    with pytest.raises(UsageError, match=r"not \(0,\)"):
        principal([], 1)
    assert principal(x, 0).scores(x).shape == (4, 0)
