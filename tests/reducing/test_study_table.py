from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from scipy import stats

from weightsmith.core.records import Origin
from weightsmith.core.statistics import ComparisonStatus
from weightsmith.reducing.study_table import WHOLE, Study, StudyRow, slopes, summaries


def rows_of(differences, folds, *, hidden=20, random=None):
    """Whole networks at 50 %, and a method that is better by the differences, fold after fold."""
    found = []
    for index, difference in enumerate(differences):
        repeat, fold = divmod(index, folds)
        found.append(StudyRow(WHOLE, hidden, repeat, fold, hidden, 90.0, 50.0))
        baselines = None if random is None else random[index]
        found.append(StudyRow("m", hidden, repeat, fold, 5 + fold, 80.0, 50.0 + difference, 45.0, None, baselines))
    return found


def test_the_corrected_test_is_that_of_nadeau_and_bengio():
    differences = np.array([1.0, -2.0, 3.0, 0.5, 2.5, 1.5, -0.5, 2.0])
    whole, reduced = summaries(rows_of(differences, 4), 4)
    error = math.sqrt((1 / 8 + 1 / 3) * differences.var(ddof=1))
    t = differences.mean() / error
    found = reduced.against_whole
    assert found.difference == pytest.approx(1.0)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), 7))
    # The plain test takes the folds for independent and is far surer.
    assert found.p > 1.5 * stats.ttest_1samp(differences, 0).pvalue
    assert (whole.against_whole, whole.against_random, reduced.against_random, reduced.against_scratch) == (None,) * 4


def test_means_and_deviations_over_folds():
    differences, random = [1.0, 3.0, 5.0, 7.0], [40.0, 50.0, 60.0, 50.0]
    _, reduced = summaries(rows_of(differences, 2, random=random), 2)
    assert (reduced.method, reduced.hidden, reduced.n) == ("m", 20, 4)
    assert (reduced.units, reduced.removed) == (5.5, 1 - 5.5 / 20)
    assert reduced.test_accuracy == 54.0
    assert reduced.test_deviation == pytest.approx(np.std([51, 53, 55, 57], ddof=1))
    assert reduced.random_accuracy == 50.0
    assert reduced.against_random.difference == pytest.approx(4.0)
    assert reduced.scratch_accuracy is None


def test_a_method_that_changes_nothing_has_no_p():
    _, reduced = summaries(rows_of([0.0] * 4, 2), 2)
    assert reduced.against_whole.status is ComparisonStatus.NO_VARIANCE
    assert (reduced.against_whole.difference, reduced.against_whole.p) == (0.0, None)


def test_each_size_is_compared_with_its_own_whole_network():
    rows = [*rows_of([1.0, 2.0], 2, hidden=20), *rows_of([-3.0, -4.0], 2, hidden=50)]
    found = {(each.hidden, each.method): each.against_whole for each in summaries(rows, 2)}
    assert found[20, "m"].difference == pytest.approx(1.5)
    assert found[50, "m"].difference == pytest.approx(-3.5)


@pytest.mark.parametrize(
    ("final", "slope"), [(lambda h: 25, 0.0), (lambda h: h // 2, 1.0), (lambda h: 2 * h**0.5, 0.5)]
)
def test_slopes_tell_the_same_size_from_the_same_share(final, slope):
    rows = [
        StudyRow(method, hidden, 0, fold, hidden if method == WHOLE else round(final(hidden)), 50.0, 50.0)
        for hidden in (100, 400, 900)
        for fold in (0, 1)
        for method in (WHOLE, "m")
    ]
    (found,) = slopes(rows)
    assert (found.method, found.deviation) == ("m", 0.0)
    assert found.slope == pytest.approx(slope, abs=1e-9)


def test_one_size_has_no_slope():
    assert slopes(rows_of([1.0, 2.0], 2)) == ()


def test_csv_and_json_hold_every_row():
    rows = tuple(rows_of([1.0, 2.0], 2))
    study = Study(
        "t", 60, 4, ("a", "b"), {"scaling": "rowl2"}, rows, summaries(rows, 2), slopes(rows), (), Origin(seed=0)
    )
    assert Study.from_json(study.to_json()) == study
    lines = list(csv.DictReader(io.StringIO(study.to_csv())))
    assert [line["scaling"] for line in lines] == ["rowl2"] * 4
    assert [float(line["test_accuracy"]) for line in lines] == [row.test_accuracy for row in rows]
    assert (lines[0]["angle"], lines[1]["angle"], lines[1]["penalty"]) == ("", "45.0", "")
