"""The order of the questions, by records made by hand: each earlier answer must hide all later ones."""

from __future__ import annotations

import itertools

import pytest

from weightsmith.core.statistics import Interval
from weightsmith.grading.classes import HEAVIEST, LIGHTEST
from weightsmith.grading.fits.cuts import SmallestDistance
from weightsmith.grading.fits.powerlaw import PowerLaw
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.grading.random_matrix.noise import Bulk
from weightsmith.grading.results import Status, Verdict, VerdictKind
from weightsmith.grading.verdicts import not_fitted, verdict

LAMBDA_MAX = 12.5


def law(alpha: float) -> PowerLaw:
    return PowerLaw(alpha, 0.3, 1.0, 0.08, 40, 100, SmallestDistance())


def interval(alpha: float, low: float, high: float) -> Interval:
    return Interval(alpha, low, high, 0.95, "bootstrap")


def bulk(spikes: int) -> Bulk:
    return Bulk(sigma=0.5, low=0.1, high=4.0, threshold=4.5, level=0.01, spikes=spikes, soft_rank=0.3, spike_alpha=None)


def fit(rejected: bool) -> Goodness:
    return Goodness(p=0.02 if rejected else 0.6, resamples=400, rejected=rejected)


def judged(alpha: float, found: Interval | None, goodness: Goodness | None, noise: Bulk | None) -> Verdict:
    """The verdict when all three were asked for and some may have no answer."""
    return verdict(law(alpha), {"interval": found, "goodness": goodness, "bulk": noise}, LAMBDA_MAX)


def kind(alpha: float, low: float, high: float, *, spikes: int = 3, rejected: bool = False) -> VerdictKind:
    return judged(alpha, interval(alpha, low, high), fit(rejected), bulk(spikes)).kind


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.FITTED])
def test_a_layer_without_a_fit_is_judged_by_its_status(status):
    found = not_fitted(status, "because of this")
    assert found.kind is VerdictKind.CANNOT_BE_FITTED
    assert found.because == f"{status.value}: because of this"


def test_without_evidence_nothing_is_judged():
    found = verdict(law(3.0), {}, LAMBDA_MAX)
    assert found.kind is VerdictKind.NOT_JUDGED
    assert "3.00" in found.because


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (1.2, VerdictKind.OVER_REGULARISED),
        (1.9999, VerdictKind.OVER_REGULARISED),
        (2.0, VerdictKind.WELL_TRAINED),
        (4.0, VerdictKind.WELL_TRAINED),
        (6.0, VerdictKind.WELL_TRAINED),
        (6.0001, VerdictKind.WEAKLY_TRAINED),
        (40.0, VerdictKind.WEAKLY_TRAINED),
    ],
)
def test_the_exponent_decides_when_all_else_is_in_order(alpha, expected):
    assert (HEAVIEST, LIGHTEST) == (2.0, 6.0)
    assert kind(alpha, alpha, alpha) is expected


@pytest.mark.parametrize("alpha", [1.5, 3.0, 9.0])
@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_noise_hides_everything_after_it(alpha, rejected, wide):
    ends = (1.1, 20.0) if wide else (alpha, alpha)
    assert kind(alpha, *ends, spikes=0, rejected=rejected) is VerdictKind.NO_HEAVY_TAIL


@pytest.mark.parametrize("alpha", [1.5, 3.0, 9.0])
def test_a_rejected_law_cannot_be_judged(alpha):
    assert kind(alpha, alpha, alpha, rejected=True) is VerdictKind.CANNOT_SAY


@pytest.mark.parametrize(
    ("alpha", "low", "high"), [(3.0, 1.9, 4.0), (3.0, 2.5, 6.1), (1.8, 1.5, 2.2), (7.0, 5.9, 9.0), (3.0, 1.0, 50.0)]
)
def test_an_interval_that_reaches_into_another_class_cannot_be_judged(alpha, low, high):
    assert kind(alpha, low, high) is VerdictKind.CANNOT_SAY


def test_a_wide_interval_inside_one_class_can():
    assert kind(4.0, 2.01, 5.99) is VerdictKind.WELL_TRAINED
    assert kind(20.0, 6.5, 400.0) is VerdictKind.WEAKLY_TRAINED


@pytest.mark.parametrize(("with_bulk", "with_goodness"), [*itertools.product([True, False], repeat=2)])
def test_evidence_that_was_not_asked_for_does_not_decide(with_bulk, with_goodness):
    found = judged(3.0, interval(3.0, 2.5, 3.5), fit(False) if with_goodness else None, bulk(2) if with_bulk else None)
    assert found.kind is VerdictKind.WELL_TRAINED
    assert ("beyond the noise" in found.because) == with_bulk
    assert ("not rejected" in found.because) == with_goodness


def test_where_the_interval_has_no_answer_the_other_questions_still_have():
    """Many equal eigenvalues leave no interval; that is not the same as evidence nobody asked for."""
    assert judged(3.0, None, None, bulk(0)).kind is VerdictKind.NO_HEAVY_TAIL
    found = judged(3.0, None, None, bulk(3))
    assert found.kind is VerdictKind.CANNOT_SAY
    assert "asked" not in found.because


def test_each_verdict_names_the_numbers_it_rests_on():
    noise = judged(3.0, interval(3.0, 2.5, 3.5), None, bulk(0))
    assert "12.5" in noise.because
    assert "4.5" in noise.because
    assert "1 %" in noise.because
    rejected = judged(3.0, interval(3.0, 2.5, 3.5), fit(True), bulk(1))
    assert "0.020" in rejected.because
    assert "3.00 [2.50, 3.50]" in rejected.because
    wide = judged(3.0, interval(3.0, 1.25, 7.75), None, bulk(1))
    assert "[1.25, 7.75]" in wide.because
    assert "over-regularised" in wide.because
    assert "weakly trained" in wide.because
    good = judged(3.0, interval(3.0, 2.5, 3.5), fit(False), bulk(1))
    assert "1 eigenvalue beyond" in good.because
    assert "p = 0.60" in good.because
    for found in (noise, rejected, wide, good):
        assert "\n" not in found.because
