from __future__ import annotations

import numpy as np
import pytest

from weightsmith.core.errors import UnknownName
from weightsmith.reducing.scaling import SCALINGS, check_scaling, scaled


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


def test_an_unknown_scaling_suggests_the_nearest():
    assert [check_scaling(name) for name in SCALINGS] == list(SCALINGS)
    with pytest.raises(UnknownName, match=r"'min-max'; did you mean 'minmax'"):
        check_scaling("min-max")
