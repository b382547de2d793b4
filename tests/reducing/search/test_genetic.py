"""The genetic method: its options, what it decides, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reducing.fakes import FakeContext, FakeSite

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.decisions import Decision
from weightsmith.reducing.search.genetic import Genetic, Pareto

pytestmark = pytest.mark.choice

USEFUL = {"first": (0, 4, 8), "second": (0, 4)}


def _kept(decision: Decision) -> dict[str, tuple[int, ...]]:
    return {choice.site: choice.kept for choice in decision.choices}


def test_the_paper_is_the_default():
    method = Genetic()
    assert (method.penalty, method.per, method.population, method.generations) == (50.0, "share", 100, 50)
    assert (method.tournament, method.crossover, method.mutation, method.flip, method.elite) == (3, 0.8, 0.2, 0.1, 5)
    assert Method.parse("genetic:20,per=units,generations=9") == Genetic(20, per="units", generations=9)


def test_useless_units_go_and_useful_ones_stay():
    # A useful unit is worth 2 points at least, and any unit costs one tenth.
    context: Any = FakeContext()
    decision = Genetic(penalty=2).choose(context, None)
    assert _kept(decision) == USEFUL
    assert {removal.reason for choice in decision.choices for removal in choice.removals} == {"search"}
    assert decision.trace is not None
    assert decision.trace.fitness == "training accuracy % − 2·Nf/Ni"
    assert [row.generation for row in decision.trace.rows] == list(range(51))
    assert decision.trace.rows[-1].best == pytest.approx(100 - 2 * 5 / 20)
    assert decision.trace.rows[-1].best_units == 5
    assert context.evaluated <= sum(row.evaluated for row in decision.trace.rows)
    assert Decision.from_json(decision.to_json()) == decision


def test_equation_6_is_equation_5_with_another_penalty():
    fifth, sixth = Genetic(40).choose(FakeContext(), None), Genetic(2, per="units").choose(FakeContext(), None)
    assert _kept(fifth) == _kept(sixth)
    assert sixth.trace is not None
    assert sixth.trace.fitness == "training accuracy % − 2·Nf"


def test_a_higher_penalty_leaves_fewer_units_but_never_none():
    sizes = [sum(map(len, _kept(Genetic(penalty).choose(FakeContext(), None)).values())) for penalty in (2, 200, 1e6)]
    assert sizes[0] == 5
    assert sizes[0] > sizes[1] >= sizes[2] == 2  # one unit in each of two layers


def test_a_price_and_a_fitness_of_ones_own():
    # Useful units of the second site are made so dear that they do not pay.
    dear = np.where(np.arange(20) >= 12, 1000.0, 0.001)
    priced = Genetic(penalty=400).choose(FakeContext(price=lambda masks: masks @ dear), None)
    assert _kept(priced)["first"] == USEFUL["first"]
    assert len(_kept(priced)["second"]) == 1
    assert priced.trace is not None
    assert "price" in priced.trace.fitness
    # A fitness of one's own that wants exactly as many units as it says.
    own = Genetic().choose(FakeContext(fitness=lambda accuracy, masks: -abs(masks.sum(axis=1) - 13.0)), None)
    assert sum(map(len, _kept(own).values())) == 13


def test_with_counts_the_size_is_held_and_the_most_accurate_found():
    decision = Genetic().choose(FakeContext(), {"first": 2, "second": 1})
    assert _kept(decision) == {"first": (4, 8), "second": (4,)}
    assert decision.notes == ("the target fixes the number of units, so the penalty had no effect",)
    assert Genetic(generations=1).choose(FakeContext(), None).notes == ()


def test_rows_are_handed_on():
    context: Any = FakeContext()
    Genetic(generations=1, rows=99).choose(context, None)
    assert context.rows == [99]


def test_same_seed_same_decision():
    first, again, other = (Genetic(generations=3).choose(FakeContext(seed=seed), None) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"population": 0}, "population must be ≥ 2, not 0"),
        ({"population": 1}, "population must be ≥ 2"),
        ({"population": 5}, r"elite must be < population \(5\), not 5"),
        ({"population": 10, "elite": 11}, r"elite must be < population \(10\), not 11"),
        ({"elite": 0}, "elite must be ≥ 1"),
        ({"generations": 0}, "generations must be ≥ 1, not 0"),
        ({"tournament": 0}, "tournament must be ≥ 1"),
        ({"crossover": 1.1}, "crossover must be ≤ 1"),
        ({"mutation": -0.1}, "mutation must be ≥ 0"),
        ({"mutation": 1.1}, "mutation must be ≤ 1"),
        ({"flip": 2}, "flip must be ≤ 1"),
        ({"penalty": -1}, "penalty must be ≥ 0"),
        ({"penalty": float("inf")}, "penalty must be < inf"),
        ({"per": "layer"}, "per must be share | units"),
        ({"rows": 0}, "rows must be ≥ 1"),
        ({"population": 10**9}, "population must be ≤"),
    ],
)
def test_options_out_of_range_are_named(values, message):
    with pytest.raises(OptionError, match=message):
        Genetic(**values)


def test_a_chromosome_without_bits_is_refused():
    with pytest.raises(OptionError, match="a chromosome of 0 bits"):
        Genetic().choose(FakeContext(sites=()), None)


def test_a_layer_of_one_unit_keeps_it():
    decision = Genetic(population=6, generations=2).choose(FakeContext(sites=(FakeSite("only", 1),)), None)
    assert _kept(decision) == {"only": (0,)}


def test_a_fitness_that_is_not_a_number_is_refused():
    with pytest.raises(UsageError, match="NaN or infinite"):
        Genetic().choose(FakeContext(fitness=lambda accuracy, masks: accuracy * np.nan), None)


# Worths of units 0, 4, 8 (first site) and 12, 16 (second): 1, 5, 9, 13, 17 of 45. Each site needs one.
BEST = {2: 26 / 45, 3: 39 / 45, 4: 44 / 45, 5: 1.0}


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
    assert decision.notes == ("the target fixes the number of units, so the most accurate was taken",)


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
def test_options_out_of_range_are_named_of_pareto(values, message):
    with pytest.raises(OptionError, match=message):
        Pareto(**values)


def test_text_form_and_empty_chromosome():
    assert Method.parse("pareto:2.5,population=30") == Pareto(2.5, population=30)
    with pytest.raises(OptionError, match="a chromosome of 0 bits"):
        Pareto().choose(FakeContext(sites=()), None)


def test_the_tuned_settings_have_a_name():
    tuned = Genetic(preset="tuned").operators(40)
    assert (tuned.mutation, tuned.flip, tuned.elite) == (0.5, 0.05, 30)
    assert Genetic(preset="tuned", population=20).operators(40).elite == 19
    assert Genetic().operators(40) == Genetic()
    assert _kept(Genetic(penalty=2, preset="tuned").choose(FakeContext(), None)) == USEFUL
    with pytest.raises(OptionError, match="preset=tuned sets flip itself"):
        Genetic(preset="tuned", flip=0.3)
