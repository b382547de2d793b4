"""The search for channels by the error that is left after a refit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network

import weightsmith as ws
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.elimination import eliminate, removal_cost
from weightsmith.reducing.criteria.error import LeastError
from weightsmith.reducing.criteria.readers import readers_of
from weightsmith.reducing.search.compensated import Compensated
from weightsmith.reducing.surgery.sites import find_sites

pytestmark = pytest.mark.choice


def _context(kind: str, rows: int = 60) -> PruningContext:
    whole, x = network(kind), inputs(kind, rows)
    return PruningContext(whole, find_sites(whole, x[:2]).sites, x, torch.arange(rows) % 5)


def test_the_cost_of_a_set_is_that_of_its_eliminations() -> None:
    context = _context("vgg with batch norm")
    for readers in readers_of(context).values():
        problems = [reader.problem for reader in readers]
        found = eliminate(problems, 1e-4)
        cost = removal_cost(problems, 1e-4)
        for gone in (1, 2, len(found.order)):
            assert cost(np.array(found.order[:gone])) == pytest.approx(found.errors[gone - 1], rel=1e-5)


def test_the_best_of_all_masks_is_found_and_is_not_worse_than_its_seeds() -> None:
    context = _context("mlp")
    counts = {"dense1": 18, "dense2": 10}
    decision = Compensated(generations=40).choose(context, counts)
    assert {choice.site: len(choice.kept) for choice in decision.choices} == counts
    kept = {choice.site: set(choice.kept) for choice in decision.choices}
    for name, readers in readers_of(context).items():
        cost = removal_cost([reader.problem for reader in readers], 1e-4)
        units = len(readers[0].problem.columns)
        every = {pair: cost(np.array(pair)) for pair in itertools.combinations(range(units), units - counts[name])}
        gone = tuple(sorted(set(range(units)) - kept[name]))
        assert every[gone] == pytest.approx(min(every.values()), rel=1e-6)
    assert "its seeds" in decision.notes[0]
    assert decision.trace is not None
    assert decision.trace.rows[-1].best >= decision.trace.rows[0].best


def test_a_search_that_finds_nothing_says_so() -> None:
    """With one unit to go, elimination is the best there is."""
    context = _context("mlp")
    counts = {"dense1": 19, "dense2": 11}
    decision = Compensated(generations=2).choose(context, counts)
    assert decision.notes[0].startswith("the search found no better units than its seeds: those of error were taken")
    expected = {choice.site: choice.kept for choice in LeastError().choose(context, counts).choices}
    assert {choice.site: choice.kept for choice in decision.choices} == expected


def test_it_is_a_method_of_reduce_and_needs_a_target() -> None:
    whole, x = network("vgg with batch norm"), inputs("vgg with batch norm", 60)
    y = torch.arange(60) % 5
    data = Data("made", train=Split(x, y), test=Split(x.flip(0), y.flip(0)))
    options = {"random": 0, "latency": False}
    record = ws.reduce(
        whole, data, by="compensated:generations=3", target="params:0.6", plan="uniform", **options
    ).record
    assert record.reduced.parameters <= 0.6 * record.whole.parameters
    assert any("its seeds" in note for note in record.notes)
    with pytest.raises(UsageError, match="give a target"):
        ws.reduce(whole, data, by="compensated", **options)
    with pytest.raises(OptionError, match="elite must be < population"):
        Compensated(population=10, elite=10)
