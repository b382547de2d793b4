from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import Preference
from weightsmith.chain.tailor.concluding import check_any, judge
from weightsmith.chain.tailor.configurations import Configuration, Conversion, PruningStep
from weightsmith.chain.tailor.judging import Answered
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.results import Verdict
from weightsmith.chain.tailor.runner import Refusal
from weightsmith.core.errors import UsageError

CUT, CONVERSION = PruningStep("groups", "macs", 0.3), Conversion("constant", "percentile", 8)
WAYS = {
    "whole": Configuration(),
    "reduced": Configuration(CUT),
    "spiking": Configuration(None, CONVERSION),
    "both": Configuration(CUT, CONVERSION),
}
ROWS = 100


class FakeRunner:
    """Candidates (kind, right of 100, energy), and how many of the judging rows each has right."""

    def __init__(self, *rows, judged):
        self.candidates = []
        for number, (kind, right, energy) in enumerate(rows):
            steps = 3 if WAYS[kind].conversion else None
            sizes = (energy, energy / 100, 10, 1.0, 5)
            self.candidates.append(Candidate(number, WAYS[kind], steps, ROWS, right, *sizes, "stage"))
        self._judged, self.asked = judged, []

    def judged(self, candidate):
        self.asked.append(candidate.number)
        return Answered(np.arange(ROWS) < self._judged[candidate.number], candidate.energy)


CANDIDATES = (("whole", 95, 100.0), ("reduced", 90, 40.0), ("spiking", 88, 30.0), ("both", 89, 10.0), ("both", 70, 5.0))
LIMITS = Limits(accuracy=0.8, energy=20.0)


def judged(found=CANDIDATES, limits=LIMITS, rows=(94, 89, 87, 88, 60), margin=0.0):
    runner = FakeRunner(*found, judged=rows)
    return judge(runner, Preference(limits, margin)), runner


def test_the_best_is_judged_beside_the_best_of_each_kind_alone():
    result, runner = judged()
    assert result.best.number == 3
    assert sorted(set(runner.asked)) == [0, 1, 2, 3]  # and not the one that lost
    assert result.judgements[3].accuracy.value == 0.88
    assert result.judgements[3].cost.difference == pytest.approx(0.88 - 0.94)
    by_name = {each.kind: each for each in result.alone()}
    assert by_name["reduced"].missed == {"energy": 1.0}
    assert by_name["spiking"].missed == {"energy": 0.5}
    assert not by_name["reduced"].met
    assert by_name["spiking"].judged.accuracy.value == 0.87


@pytest.mark.parametrize(
    ("right", "verdict"),
    [(95, Verdict.MET), (82, Verdict.BY_ESTIMATE), (80, Verdict.BY_ESTIMATE), (79, Verdict.NOT_CONFIRMED)],
)
def test_the_judging_rows_have_the_last_word(right, verdict):
    result, _ = judged(rows=(94, 89, 87, right, 60))
    assert result.verdict is verdict


def test_what_misses_limits_on_the_selection_rows_is_not_met_however_it_is_judged():
    result, _ = judged(limits=Limits(accuracy=0.9, energy=20.0), rows=(94, 89, 87, 99, 60))
    assert result.verdict is Verdict.NOT_MET


def test_without_a_limit_on_the_accuracy_there_is_no_estimate_to_doubt():
    result, _ = judged(limits=Limits(energy=20.0), rows=(94, 89, 87, 12, 60))
    assert (result.best.number, result.verdict) == (3, Verdict.MET)


def test_a_kind_that_could_not_be_tried_has_no_candidate():
    result, _ = judged(found=CANDIDATES[:2], limits=Limits(accuracy=0.8, energy=50.0), rows=(94, 89))
    by_name = {each.kind: each for each in result.alone()}
    assert by_name["reduced"].met
    assert (by_name["spiking"].candidate, by_name["spiking"].met, by_name["spiking"].judged) == (None, False, None)


def test_progress_is_told_of_judging():
    calls = []
    judge(
        FakeRunner(*CANDIDATES, judged=(94, 89, 87, 88, 60)), Preference(LIMITS, 0.0), lambda *each: calls.append(each)
    )
    assert calls == [("judging", 1, 3), ("judging", 2, 3), ("judging", 3, 3)]


def test_where_nothing_but_the_whole_network_is_left_the_reasons_are_told_once():
    whole = FakeRunner(CANDIDATES[0], judged=(94,)).candidates
    refusals = [
        Refusal(WAYS["reduced"], "no site"),
        Refusal(WAYS["reduced"], "no site"),
        Refusal(WAYS["spiking"], "tanh"),
    ]
    with pytest.raises(UsageError, match="neither be reduced nor converted: no site; tanh$"):
        check_any(SimpleNamespace(candidates=whole, refusals=refusals))
    check_any(SimpleNamespace(candidates=whole, refusals=[]))  # the budget left no time
    check_any(SimpleNamespace(candidates=FakeRunner(*CANDIDATES, judged=()).candidates, refusals=refusals))
