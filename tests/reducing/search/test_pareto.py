"""The front as a method: what of it is taken, and that it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reducing.fakes import FakeContext

from weightsmith.core.errors import OptionError
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Decision
from weightsmith.reducing.search.pareto import Pareto

# Worths of units 0, 4, 8 (first site) and 12, 16 (second): 1, 5, 9, 13, 17 of 45. Each site needs one.
BEST = {2: 26 / 45, 3: 39 / 45, 4: 44 / 45, 5: 1.0}


def _kept(decision: Decision) -> dict[str, tuple[int, ...]]:
    return {choice.site: choice.kept for choice in decision.choices}


def test_the_front_is_the_true_one():
    decision = Pareto(generations=120).choose(FakeContext(), None)
    assert {point.units: point.accuracy for point in decision.front} == pytest.approx(
        {count: 100 * share for count, share in BEST.items()}
    )
    assert [point.units for point in decision.front] == sorted(BEST)
    assert decision.front[1].kept == {"first": (8,), "second": (0, 4)}
    assert decision.trace is not None
    assert decision.trace.fitness == "training accuracy %"
    assert [row.generation for row in decision.trace.rows] == list(range(121))
    assert Decision.from_json(decision.to_json()) == decision


@pytest.mark.parametrize(("loss", "units"), [(0, 5), (2, 5), (2.3, 4), (13.4, 3), (50, 2), (100, 2)])
def test_the_smallest_within_the_loss_is_taken(loss, units):
    decision = Pareto(loss, generations=120).choose(FakeContext(), None)
    assert sum(map(len, _kept(decision).values())) == units
    assert _kept(decision) in [point.kept for point in decision.front]


def test_the_loss_may_change_on_a_finished_search(tmp_path: Path):
    Pareto(0, generations=20).choose(FakeContext(folder=tmp_path), None)
    again: Any = FakeContext(folder=tmp_path)
    decision = Pareto(50, generations=20).choose(again, None)
    assert again.evaluated == 0
    assert decision == Pareto(50, generations=20).choose(FakeContext(), None)


def test_a_price_stands_in_for_the_units():
    # The most worthy unit of the second site is dearer than all the others together.
    dear = np.ones(20)
    dear[16] = 100.0
    decision = Pareto(loss=41, generations=120).choose(FakeContext(price=lambda masks: masks @ dear), None)
    assert _kept(decision) == {"first": (4, 8), "second": (0,)}
    accuracies = [point.accuracy for point in decision.front]
    assert accuracies == sorted(accuracies)


def test_with_counts_the_most_accurate_is_taken():
    decision = Pareto(loss=100, generations=60).choose(FakeContext(), {"first": 2, "second": 1})
    assert _kept(decision) == {"first": (4, 8), "second": (4,)}
    assert [point.units for point in decision.front] == [3]
    assert decision.notes == ("the target holds the number of units, so the most accurate was taken",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"population": 0}, "population must be ≥ 2, not 0"),
        ({"population": 10**6}, "population must be ≤ 5000"),
        ({"generations": 0}, "generations must be ≥ 1"),
        ({"loss": -1}, "loss must be ≥ 0"),
        ({"loss": 101}, "loss must be ≤ 100"),
    ],
)
def test_options_out_of_range_are_named(values, message):
    with pytest.raises(OptionError, match=message):
        Pareto(**values)


def test_text_form_and_empty_chromosome():
    assert Method.parse("pareto:2.5,population=30") == Pareto(2.5, population=30)
    with pytest.raises(OptionError, match="a chromosome of 0 bits"):
        Pareto().choose(FakeContext(sites=()), None)
