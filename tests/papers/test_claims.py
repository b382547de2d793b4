"""Verdicts follow from intervals, never from a difference inside the noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weightsmith.papers.claims import Finding, Verdict, by_interval, by_parts, combined, paired, worded


def test_the_paired_test_is_students():
    a, b = np.array([0.91, 0.88, 0.93, 0.90]), np.array([0.89, 0.87, 0.90, 0.91])
    found = paired(a, b)
    want = stats.ttest_rel(a, b)
    assert found.p == pytest.approx(want.pvalue)
    assert found.statistic == pytest.approx(want.statistic)
    low, high = want.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    ("differences", "claimed", "least", "verdict"),
    [
        ([0.02, 0.021, 0.019, 0.02], 1, 0.0, Verdict.HOLDS),
        ([0.02, 0.021, 0.019, 0.02], -1, 0.0, Verdict.FAILS),
        ([0.02, -0.03, 0.019, -0.01], 1, 0.0, Verdict.UNCLEAR),
        ([0.02, 0.021, 0.019, 0.02], 1, 0.05, Verdict.FAILS),  # certain, but less than was claimed
        ([-0.02, -0.021, -0.019, -0.02], 1, -0.05, Verdict.HOLDS),  # a loss, but a smaller one than allowed
        ([0.02, 0.02, 0.02, 0.02], 1, 0.0, Verdict.UNCLEAR),  # equal differences have no interval
    ],
)
def test_the_interval_decides(differences, claimed, least, verdict):
    compared = paired(differences, np.zeros(4))
    assert by_interval("c", compared, "found", claimed=claimed, least=least).verdict is verdict


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([True, True], Verdict.HOLDS),
        ([True, None], Verdict.IN_PART),
        ([True, False], Verdict.IN_PART),
        ([False, None], Verdict.FAILS),
        ([None, None], Verdict.UNCLEAR),
        ([], Verdict.UNCLEAR),
    ],
)
def test_parts(parts, verdict):
    assert by_parts("c", parts, "found", ours="", n=1).verdict is verdict


def test_several_tests_give_one_verdict_with_their_largest_p():
    findings = [
        Finding("a", Verdict.HOLDS, "", 3, "", 0.01),
        Finding("b", Verdict.UNCLEAR, "", 3, "", 0.4),
    ]
    found = combined("c", findings, "found", ours="x")
    assert (found.verdict, found.p, found.n) == (Verdict.IN_PART, 0.4, 6)


def test_words():
    assert worded(paired([1.0, 1.0], [0.5, 0.5]), "decades", 1.0) == "+0.50 decades"
    assert worded(paired([0.03, 0.01], [0, 0])).startswith("+2.00 points (")
