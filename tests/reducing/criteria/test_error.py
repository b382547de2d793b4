"""Choice by error."""

from __future__ import annotations

import pytest
import torch
from tests.reducing.networks import KINDS, inputs, network

from weightsmith.core.errors import UsageError
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.error import LeastError
from weightsmith.reducing.surgery.sites import find_sites


def _context(kind: str) -> PruningContext:
    whole, x = network(kind), inputs(kind, 60)
    return PruningContext(whole, find_sites(whole, x[:2]).sites, x, torch.arange(60) % 5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_site_is_cut_to_its_count(kind: str) -> None:
    context = _context(kind)
    counts = {site.name: max(1, site.units // 3) for site in context.sites}
    for choice in LeastError().choose(context, counts).choices:
        assert len(choice.kept) == counts[choice.site]
        assert {removal.reason for removal in choice.removals} == {"error"}


def test_a_twin_and_a_silent_unit_go_first() -> None:
    context = _context("vgg with bias")
    first = context.sites[0]
    layer = context.network.get_submodule(first.writers[0].layer)
    with torch.no_grad():
        layer.weight[1], layer.bias[1] = 2 * layer.weight[4], 2 * layer.bias[4]
        layer.weight[3], layer.bias[3] = 0.0, -1.0  # ReLU: never above 0
    counts = {site.name: site.units for site in context.sites} | {first.name: first.units - 2}
    gone = {removal.unit for removal in LeastError().choose(context, counts).choices[0].removals}
    assert 3 in gone
    assert gone & {1, 4}


def test_orders_that_a_plan_has_measured_are_taken() -> None:
    context = _context("mlp")
    orders = {"dense1": tuple(range(19)), "dense2": tuple(range(11))}
    known = PruningContext(context.network, context.sites, context.x, context.y, orders=orders)
    choice = LeastError().choose(known, {"dense1": 15, "dense2": 12}).choices[0]
    assert [removal.unit for removal in choice.removals] == [0, 1, 2, 3, 4]


def test_without_a_target_there_is_no_end() -> None:
    with pytest.raises(UsageError, match="does not determine how much"):
        LeastError().choose(_context("mlp"), None)
