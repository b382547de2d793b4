"""A target shared out by its cost."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.budget import divergence, measured_budget, share_out
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.surgery.sites import find_sites
from weightsmith.reducing.surgery.sizes import Macs, Params, SizeModel


def _sizes(kind: str = "mlp") -> SizeModel:
    whole, x = network(kind), inputs(kind, 2)
    return SizeModel(whole, find_sites(whole, x).sites, x)


def _context(kind: str, rows: int = 200) -> PruningContext:
    whole, x = network(kind), inputs(kind, rows)
    return PruningContext(whole, find_sites(whole, x[:2]).sites, x, torch.arange(rows) % 5)


@pytest.mark.parametrize("target", [Params(0.5), Macs(0.4), Params(0.6, multiple=4)])
def test_no_better_sharing_of_convex_costs_exists(target: Any) -> None:
    """Against all pairs of counts: what the greedy walk leaves costs at most one step more than the best."""
    sizes = _sizes()
    costs = {"dense1": np.arange(20) ** 2 / 30.0, "dense2": np.arange(12) ** 2 / 5.0}
    counts = share_out(sizes, costs, target)
    allowed = target.keep * sizes.size({}, target.measure)
    assert sizes.size(counts, target.measure) <= allowed

    def cost(kept: dict[str, int]) -> float:
        return float(sum(costs[name][sizes.units[name] - count] for name, count in kept.items()))

    every = [
        {"dense1": first, "dense2": second}
        for first, second in itertools.product(range(1, 21), range(1, 13))
        if not (first % target.multiple or second % target.multiple)
    ]
    best = min(cost(kept) for kept in every if sizes.size(kept, target.measure) <= allowed)
    assert cost(counts) <= best + max(np.diff(costs["dense1"]).max(), np.diff(costs["dense2"]).max()) * target.multiple
    for name in counts:
        assert counts[name] % target.multiple == 0
        more = {**counts, name: counts[name] + target.multiple}
        assert more[name] > sizes.units[name] or sizes.size(more, target.measure) > allowed  # nothing is left over


def test_free_units_go_first() -> None:
    costs = {"dense1": np.zeros(20), "dense2": 10.0 * np.arange(12)}
    assert share_out(_sizes(), costs, Params(0.5))["dense2"] == 12


def test_what_cannot_be_met_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be met"):
        share_out(_sizes(), {"dense2": np.arange(12.0)}, Params(0.1))


@pytest.mark.parametrize("kind", ["mlp", "vgg with bias", "resnet conv", "resnet pad"])
def test_the_plan_is_not_worse_than_the_plain_ones_on_its_rows(kind: str) -> None:
    context = _context(kind)
    sizes = SizeModel(context.network, context.sites, context.x[:2])
    target = Params(0.6)
    budget, record = measured_budget(context, sizes, target)
    counts = budget.counts(sizes, target)
    assert sizes.size(counts) <= 0.6 * sizes.size({})
    assert record.divergences[record.taken] == min(record.divergences.values())
    known = {"all", "uniform"} | ({"inner", "all by sums", "inner by sums"} if "resnet" in kind else set())
    assert set(record.divergences) <= known
    for name, cost in budget.costs.items():
        assert len(cost) == sizes.units[name]
        assert (np.diff(cost) > 0).all()


def test_divergence_is_the_error_of_outputs_but_for_what_classes_share() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn((30, 4), generator=generator) for _ in range(2))
    assert divergence(first, first) == 0
    ours, theirs = (each.double().numpy() for each in (first, second))
    ours, theirs = (each - each.mean(axis=1, keepdims=True) for each in (ours, theirs))
    slow = np.square(ours - theirs).sum() / np.square(ours - ours.mean(axis=0)).sum()
    assert divergence(first, second) == pytest.approx(slow, rel=1e-9)
    shared = torch.arange(30.0)[:, None]  # the same for all classes: no answer changes
    assert divergence(first, first + shared) == pytest.approx(0, abs=1e-9)


def test_reduce_takes_it_by_default_with_a_target_and_says_so() -> None:
    whole, x = network("resnet conv"), inputs("resnet conv", 80)
    with torch.no_grad():
        y = whole(x).argmax(dim=1)
    data = Data("made", train=Split(x, y), test=Split(x.flip(0), y.flip(0)))
    options: dict[str, Any] = {"by": "error", "target": "params:0.6", "random": 0, "latency": False}
    record = ws.reduce(whole, data, **options).record
    assert record.settings["plan"] == "error"
    assert record.budget is not None
    assert record.reduced.parameters <= 0.6 * record.whole.parameters
    assert type(record).from_json(record.to_json()) == record
    plain = ws.reduce(whole, data, refit="none", **options).record
    assert plain.settings["plan"] == "uniform"
    assert plain.budget is None
    with pytest.raises(UsageError, match="needs a target"):
        ws.reduce(whole, data, by="angles:45", plan="error")
