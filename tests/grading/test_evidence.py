"""Amounts of evidence as options: their text forms, defaults and ranges."""

from __future__ import annotations

import pytest

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.grading.evidence import Evidence, FastEvidence, FullEvidence, NoEvidence


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("none", NoEvidence()),
        ("fast", FastEvidence()),
        ("fast:100", FastEvidence(resamples=100)),
        ("fast:confidence=0.9", FastEvidence(confidence=0.9)),
        ("full:resamples=50,draws=60,aspect=2", FullEvidence(resamples=50, draws=60, aspect=2.0)),
    ],
)
def test_text_and_object_are_the_same_option(text, made):
    assert Evidence.of(text) == made
    assert Evidence.of(made) is made
    assert Evidence.of(str(made)) == made
    assert Evidence.from_dict(made.to_dict()) == made


def test_full_has_all_that_fast_has_and_at_least_as_many_resamples():
    fast, full = FastEvidence().to_dict(), FullEvidence().to_dict()
    assert set(fast) <= set(full)
    assert full["resamples"] >= fast["resamples"]
    assert FastEvidence().confidence == FullEvidence().confidence == 0.95


@pytest.mark.parametrize(
    "text",
    [
        "fast:resamples=0",
        "fast:resamples=49",
        "fast:confidence=1",
        "fast:confidence=0",
        "fast:confidence=95",
        "full:draws=1",
        "full:aspect=0.5",
        "none:resamples=100",
        "fast:draws=100",
        "fast:resamples=many",
        "fast:confidence=nan",
    ],
)
def test_what_is_out_of_range_is_refused_in_one_line(text):
    with pytest.raises(OptionError) as refused:
        Evidence.of(text)
    assert "\n" not in str(refused.value)


def test_an_unknown_amount_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="fast") as refused:
        Evidence.of("quick")
    assert isinstance(refused.value, UnknownName | OptionError)
    assert "full" in str(refused.value)


def test_of_other_families_nothing_is_taken():
    from weightsmith.grading.fits.cuts import SmallestDistance

    with pytest.raises(UsageError):
        Evidence.of(SmallestDistance())
    with pytest.raises(UsageError):
        Evidence.of("ks")
