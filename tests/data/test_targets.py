from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

from weightsmith.core.errors import DataMismatch
from weightsmith.core.statistics import score_difference, score_interval
from weightsmith.data.targets import Kind, kind_of, scoring_of

DRAW = np.random.default_rng(0)


def test_the_type_says_what_a_target_is():
    assert kind_of(torch.tensor([0, 2])) is Kind.CLASSES
    assert kind_of(torch.tensor([[True], [False]])) is Kind.LABELS
    assert kind_of(torch.zeros(2, 1)) is Kind.VALUES


@pytest.mark.parametrize("columns", [1, 3])
def test_the_mean_score_of_values_is_r2_as_scikit_learn_has_it(columns):
    targets = DRAW.normal(5, 3, (50, columns)).astype(np.float32)
    answers = (targets + DRAW.normal(0, 1, targets.shape)).astype(np.float32)
    scores = scoring_of(torch.from_numpy(targets)).rows(torch.from_numpy(answers), torch.from_numpy(targets))
    assert float(scores.mean()) == pytest.approx(r2_score(targets, answers), rel=1e-6)
    assert scoring_of(torch.from_numpy(targets)).total(
        torch.from_numpy(answers), torch.from_numpy(targets)
    ) == pytest.approx(float(scores.sum()))


def test_labels_are_right_if_all_of_a_row_are_and_what_is_not_finite_is_wrong():
    targets = torch.tensor([[True, False], [True, False], [True, False]])
    answers = torch.tensor([[1.0, -1.0], [1.0, 1.0], [torch.inf, -1.0]])
    assert scoring_of(targets).rows(answers, targets).tolist() == [True, False, False]
    classes = torch.tensor([1, 1])
    assert scoring_of(classes).rows(torch.tensor([[0.0, 1.0], [0.0, torch.inf]]), classes).tolist() == [True, False]


def test_values_that_do_not_differ_and_answers_that_are_not_finite_are_refused():
    with pytest.raises(DataMismatch, match="target 2 is the same in all 3 rows"):
        scoring_of(torch.tensor([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
    targets = torch.tensor([[1.0], [2.0]])
    with pytest.raises(DataMismatch, match="nan or infinity for row 1"):
        scoring_of(targets).rows(torch.tensor([[1.0], [torch.nan]]), targets)


def test_scores_are_compared_as_shares_or_by_the_paired_t_test():
    from scipy.stats import ttest_rel

    a, b = DRAW.normal(0.5, 1, 40), DRAW.normal(0, 1, 40)
    found, known = score_difference(a, b), ttest_rel(a, b)
    low, high = known.confidence_interval()
    assert (found.p, found.statistic) == pytest.approx((known.pvalue, known.statistic))
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert score_difference(a > 0, b > 0).method.startswith("McNemar")
    assert (score_interval(a > 0).method, score_interval(a).method) == ("Wilson", "Student t")
