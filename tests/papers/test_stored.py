"""The rules on stored results; that all of them are judged is tested with the index."""

from __future__ import annotations

from pathlib import Path

from weightsmith.papers.claims import Verdict
from weightsmith.papers.stored import NOT_RUN, STORED, not_run

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_a_trend_over_five_leaks_inside_the_noise_is_no_verdict():
    leaks = next(stored for stored in STORED if stored.name == "leaks")
    found = {each.claim: each for each in leaks.judge(RESULTS / leaks.file)}
    assert found["trend"].n == 5
    assert found["trend"].p > 0.05
    assert found["trend"].verdict is Verdict.UNCLEAR
    assert found["no-leak"].verdict is Verdict.FAILS  # its whole interval lies below 0


def test_what_was_not_run_says_what_it_needs():
    for claims in NOT_RUN.values():
        for claim in claims:
            found = not_run(claim)
            assert (found.verdict, found.found) == (Verdict.NOT_RUN, claim.rule)
