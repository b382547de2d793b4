from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.core.seeds import subseed
from weightsmith.data.splits import stratified_folds
from weightsmith.papers.study.rows import scaled
from weightsmith.papers.study.study import METHODS, reduction_study
from weightsmith.reducing.methods import Method
from weightsmith.reducing.reduce import reduce
from weightsmith.reducing.study_table import Study

_QUICK = ("angles:60,merge=outputs,complementary=remove", "genetic:30,population=20,generations=4", "groups:30")


def rows(count=90, seed=0):
    y = np.arange(count) % 3
    x = np.random.default_rng(seed).normal(size=(count, 4)) + 1.5 * np.eye(3, 4)[y]
    return x.astype(np.float32), y


def quick(data=None, **options):
    given = {"hidden": [8, 12], "methods": _QUICK, "epochs": 8, "folds": 3, "repeats": 2, "random": 3, **options}
    return reduction_study(rows() if data is None else data, **given)


@pytest.fixture(scope="module")
def study():
    return quick()


def test_every_network_has_a_row_for_itself_and_for_each_method(study):
    keys = [(row.hidden, row.repeat, row.fold, row.method) for row in study.rows]
    methods = ["whole", *study.settings["methods"]]
    assert keys == [(h, r, f, m) for h in (8, 12) for r in range(2) for f in range(3) for m in methods]
    for row in study.rows:
        assert 1 <= row.units <= row.hidden
        if row.method == "whole":
            assert (row.units, row.angle, row.random_accuracy, row.scratch_accuracy) == (row.hidden, None, None, None)
        else:
            assert None not in (row.random_accuracy, row.scratch_accuracy)
            assert (row.angle is None) != (row.penalty is None)
    assert [(each.hidden, each.method) for each in study.summaries] == [(h, m) for h in (8, 12) for m in methods]
    assert [each.method for each in study.slopes] == methods[1:]
    assert any(row.units < row.hidden for row in study.rows)
    # The classes are apart: a network that had learnt nothing would be right in a third of the cases.
    assert study.summaries[0].test_accuracy > 60


@pytest.mark.parametrize("scaling", ["zscore", "none"])
@pytest.mark.parametrize(
    "by", ["angles:60,merge=outputs,complementary=remove", "genetic:30,population=20,generations=4"]
)
def test_a_row_is_what_train_and_reduce_give_on_that_fold(by, scaling):
    x, y = rows()
    study = quick((x, y), hidden=[12], methods=[by], scaling=scaling, repeats=1, epochs=3, scratch=False, seed=5)
    fold = stratified_folds(y, 3, subseed(5, "study", 0))[1]
    inputs = scaled(x, fold.train, scaling)
    data = {"train": (inputs[fold.train], y[fold.train]), "test": (inputs[fold.test], y[fold.test])}
    run = ws.train(
        "mlp:12,activation=sigmoid,initialiser=torch-default",
        data,
        optimiser="adam",
        schedule=0.01,
        epochs=3,
        batch=32,
        seed=subseed(5, "network", 0, 1),
        diagnose=False,
    )
    small = reduce(run.network, data, by=by, refit="none", seed=subseed(5, "method", 0, 1), random=0, latency=False)
    whole, row = (row for row in study.rows if row.fold == 1)
    assert row.units == small.network.dense1.out_features
    assert row.test_accuracy == pytest.approx(100 * small.record.measured.reduced.value)
    assert whole.test_accuracy == pytest.approx(100 * small.record.measured.whole.value)


def test_scratch_networks_are_trained_in_the_same_way_and_random_masks_have_the_same_size(study):
    # A method that takes out nothing ends beside the network itself, and beside one with another seed.
    same = quick(hidden=[8], methods=["angles:0.001"])
    for whole, row in zip(same.rows[::2], same.rows[1::2], strict=True):
        assert (row.units, row.test_accuracy, row.random_accuracy) == (8, whole.test_accuracy, whole.test_accuracy)
    scratch = [row.scratch_accuracy for row in same.rows[1::2]]
    assert np.mean(scratch) == pytest.approx(same.summaries[0].test_accuracy, abs=15)
    assert scratch != [row.test_accuracy for row in same.rows[1::2]]
    # A third unit chosen blindly says less than all of them.
    few = quick(hidden=[12], methods=["genetic:1000,population=20,generations=8"], scratch=False, random=10)
    assert few.summaries[1].units < 4
    assert few.summaries[1].random_accuracy < few.summaries[0].test_accuracy


def test_equation_6_with_a_penalty_is_equation_5_with_it_times_the_units():
    by = "population=20,generations=6"
    study = quick(hidden=[16], methods=[f"genetic:40,{by}", f"genetic:2.5,per=units,{by}"], scratch=False, random=0)
    five, six = (
        [dataclasses.replace(row, method="", penalty=None) for row in study.rows if row.method == method]
        for method in study.settings["methods"]
    )
    assert five == six


@pytest.mark.slow
def test_the_same_bytes_on_one_two_and_four_workers(study):
    for workers in (2, 4):
        assert quick(workers=workers).to_json() == study.to_json()


def test_a_study_goes_on_where_it_was_stopped(tmp_path, study):
    class Stop(Exception):
        pass

    def stop(done, total):
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        quick(out=tmp_path, progress=stop)
    calls = []
    resumed = quick(out=tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 4)]
    assert resumed == study
    assert (tmp_path / "study.csv").read_text() == study.to_csv()
    assert Study.from_json((tmp_path / "study.json").read_text()) == study
    with pytest.raises(UsageError, match="belongs to another call"):
        quick(out=tmp_path, scaling="minmax")
    with pytest.raises(UsageError, match="belongs to another call"):
        quick(rows(seed=1), out=tmp_path)


def test_digits_can_be_learnt_and_the_scaling_stands_in_the_record():
    study = reduction_study(
        "digits", hidden=[16], methods=["angles:15"], epochs=4, folds=3, repeats=1, scaling="minmax", scratch=False
    )
    assert study.settings["scaling"] == "minmax"
    assert study.summaries[0].test_accuracy > 85
    assert (study.rows_of_data, study.features) == (1797, 64)


def test_the_four_methods_of_the_paper_are_the_default():
    assert [str(Method.of(method)) for method in METHODS] == [
        "angles:15.0,merge=outputs,complementary=remove",
        "angles:45.0,merge=outputs,complementary=remove",
        "genetic:penalty=0.0",
        "genetic",
    ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hidden": [0]}, UsageError, "hidden must be"),
        ({"hidden": []}, UsageError, "hidden needs at least 1 value"),
        ({"hidden": [5, 5]}, UsageError, "each once"),
        ({"folds": 1}, UsageError, "folds must be"),
        ({"folds": 31}, UsageError, "has 30 rows, too few for 31 folds"),
        ({"repeats": 0}, UsageError, "repeats must be"),
        ({"epochs": 0}, UsageError, "epochs must be"),
        ({"rate": 0.0}, UsageError, "rate must be a number > 0"),
        ({"rate": float("nan")}, UsageError, "rate must be a number > 0"),
        ({"scaling": "robust"}, OptionError, "scaling must be one of zscore, minmax, rowl2, none, not 'robust'"),
        ({"methods": []}, UsageError, "needs at least one method"),
        ({"methods": ["magnitude"]}, UsageError, "does not determine how much"),
        ({"methods": ["angles:45", "angles:45.0"]}, UsageError, "twice"),
        ({"methods": ["angles:200"]}, OptionError, "angle must be ≤ 90"),
        ({"methods": ["genetic:population=0"]}, OptionError, "population must be"),
        ({"activation": "sigmod"}, UnknownName, "did you mean 'sigmoid'"),
        ({"initialiser": "golrot"}, UnknownName, "initialiser"),
        ({"workers": 0}, OptionError, "workers must be"),
    ],
)
def test_what_is_wrong_is_reported_before_anything_is_trained(options, error, message):
    with pytest.raises(error, match=message):
        quick(**options)


def test_one_class_constant_columns_and_divergence_are_reported():
    x, y = rows()
    with pytest.raises(DataMismatch, match="with one class"):
        quick((x, y * 0))
    with pytest.raises(DataMismatch, match="input column 3 of 4"):
        quick((np.where(np.arange(4) == 2, 1.0, x), y))
    with pytest.raises(UsageError, match="diverged at the rate 1e\\+38 with the scaling none; use a lower rate"):
        quick((1e6 * x, y), rate=1e38, activation="relu", scaling="none")
