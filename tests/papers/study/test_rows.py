from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, FileRefused, UsageError
from weightsmith.data.faces.features import FaceFeatures
from weightsmith.papers.study.rows import SCALINGS, read_study_data, scaled


def rows(count=60, classes=3):
    y = np.arange(count) % classes
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32), y


def faces(count=40):
    random = np.random.default_rng(2)
    lpq, phog = (random.normal(size=(count, size)).astype(np.float32) for size in (30, 20))
    paths = tuple(f"{number}.png" for number in range(count))
    return FaceFeatures(lpq, phog, (np.arange(count) % 2).astype(np.int64), ("glad", "sad"), paths)


def table(path, lines):
    path.write_text("label,a,b,c\n" + "\n".join(lines) + "\n")
    return path


def test_a_table_is_read_and_its_rows_with_gaps_are_left_out_and_reported(tmp_path):
    lines = [f"{'glad' if n % 2 else 'sad'},{n},{n * n},{-n}" for n in range(20)]
    lines[7] = "glad,1,NaN,3"
    data = read_study_data(table(tmp_path / "t.csv", lines))
    assert len(data) == 19
    assert (data.features, data.classes) == (3, ("glad", "sad"))
    assert "1 of 20 rows left out for missing values: row 9 (column b)" in data.notes


def test_splits_are_joined_and_images_become_rows_of_pixels():
    data = read_study_data("digits")
    assert (len(data), data.features, len(data.classes)) == (1797, 64, 10)
    assert any("joined" in note for note in data.notes)
    assert any("3 of 64 pixels have the same value" in note for note in data.notes)
    digits = ws.data.load("digits")
    assert (data.x[:1437] == digits.train.x.flatten(1).numpy()).all()
    assert (data.y[1437:] == digits.test.y.numpy()).all()


def test_bytes_are_shares_of_255():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 1, 2, 2)).astype(np.uint8)
    data = read_study_data((pixels, np.arange(20) % 2))
    assert np.abs(data.x - pixels.reshape(20, 4) / 255).max() < 1e-6


def test_folds_are_the_same_for_everyone_and_others_in_each_repeat():
    data = read_study_data(rows())
    first = data.folds(5, seed=1, repeat=0)
    assert sorted(np.concatenate([fold.test for fold in first]).tolist()) == list(range(60))
    assert all((data.y[fold.test] == label).sum() == 4 for fold in first for label in range(3))
    again, other = data.folds(5, seed=1, repeat=0), data.folds(5, seed=1, repeat=1)
    assert all((one.test == same.test).all() for one, same in zip(first, again, strict=True))
    assert any((one.test != another.test).any() for one, another in zip(first, other, strict=True))


def test_one_class_only_is_refused():
    x, y = rows()
    with pytest.raises(DataMismatch, match="all 60 rows have the class '0'; with one class"):
        read_study_data((x, y * 0))


def test_a_constant_column_is_refused_by_its_number(tmp_path):
    lines = [f"{n % 2},{n},7,{-n}" for n in range(20)]
    with pytest.raises(DataMismatch, match="input column 2 of 3 .* is 7 in every row"):
        read_study_data(table(tmp_path / "t.csv", lines))


def test_rows_with_nan_in_arrays_are_refused_by_number():
    x, y = rows()
    x[13, 2] = np.nan
    with pytest.raises(DataMismatch, match="row 13"):
        read_study_data((x, y))


def test_more_folds_than_the_smallest_class_has_rows_are_refused():
    x, y = rows()
    y[:50] = 0
    data = read_study_data((x, y))
    with pytest.raises(UsageError, match=r"the class '[12]' has \d rows, too few for 10 folds; use at most \d"):
        data.check_folds(10)
    data.check_folds(3)


def test_components_of_faces_are_fitted_on_the_training_rows_alone(tmp_path):
    features = faces()
    path = features.save(tmp_path / "faces.npz")
    data = read_study_data(path)
    assert data.features == 10
    assert any("fitted on the training rows of each fold" in note for note in data.notes)
    train = np.arange(30)
    expected = features.components(train).astype(np.float32)
    assert (data.inputs(train, "none") == expected).all()
    assert np.abs(data.inputs(train, "zscore")[train].std(axis=0) - 1).max() < 1e-5
    assert read_study_data(features).digest() == data.digest()


def test_an_archive_that_is_none_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(FileRefused):
        read_study_data(path)


def test_the_digest_tells_other_rows_and_other_labels():
    x, y = rows()
    digests = {read_study_data(given).digest() for given in ((x, y), (x + 1, y), (x, np.roll(y, 1)))}
    assert len(digests) == 3


@pytest.fixture
def x():
    return np.random.default_rng(3).normal(5, [0.01, 1, 1000], size=(40, 3))


TRAIN = np.arange(30)


def test_zscore_of_the_training_rows_has_mean_0_and_deviation_1(x):
    rows = scaled(x, TRAIN, "zscore")[TRAIN].astype(np.float64)
    assert np.abs(rows.mean(axis=0)).max() < 1e-6
    assert np.abs(rows.std(axis=0) - 1).max() < 1e-6


def test_minmax_puts_the_training_rows_between_0_and_1_and_may_put_others_outside(x):
    x[35] = 1e6
    rows = scaled(x, TRAIN, "minmax")
    assert rows[TRAIN].min(axis=0).tolist() == [0, 0, 0]
    assert rows[TRAIN].max(axis=0).tolist() == [1, 1, 1]
    assert (rows[35] > 1).all()


def test_rows_of_length_1_and_a_row_of_zeros_that_stays(x):
    x[4] = 0
    rows = scaled(x, TRAIN, "rowl2").astype(np.float64)
    assert np.abs(np.linalg.norm(np.delete(rows, 4, axis=0), axis=1) - 1).max() < 1e-6
    assert rows[4].tolist() == [0, 0, 0]


def test_none_leaves_everything(x):
    assert (scaled(x, TRAIN, "none") == x.astype(np.float32)).all()


@pytest.mark.parametrize("how", SCALINGS)
def test_test_rows_have_no_say_in_how_training_rows_are_scaled(x, how):
    other = x.copy()
    other[30:] *= -17
    assert (scaled(x, TRAIN, how)[TRAIN] == scaled(other, TRAIN, how)[TRAIN]).all()


@pytest.mark.parametrize("how", ["zscore", "minmax"])
def test_a_column_that_is_constant_in_training_is_not_stretched(x, how):
    x[:30, 1] = 0.1
    x[30, 1] = 0.6
    rows = scaled(x, TRAIN, how)
    assert (rows[TRAIN, 1] == 0).all()
    assert rows[30, 1] == pytest.approx(0.5)
    assert np.isfinite(rows).all()


def test_classes_without_names_are_numbered_up_to_the_largest_label():
    data = ws.data.load("digits")
    plain = dataclasses.replace(data, classes=())
    assert read_study_data(plain).classes == tuple(map(str, range(10)))
