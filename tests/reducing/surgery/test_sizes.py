"""Sizes by formula are those of networks that were really cut, and targets are met as closely as units allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reducing.networks import KINDS, inputs, network

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.networks.operations import operations
from weightsmith.reducing.surgery.removal import plain_cut
from weightsmith.reducing.surgery.sites import find_sites
from weightsmith.reducing.surgery.sizes import Macs, Params, SizeModel, Target, counts_for_target, shares_by_plan


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_sizes_are_those_of_the_cut_network(kind: str, seed: int) -> None:
    whole, x = network(kind), inputs(kind, 2)
    sites = find_sites(whole, x).sites
    sizes = SizeModel(whole, sites, x)
    generator = np.random.default_rng(seed)
    counts = {site.name: int(generator.integers(1, site.units + 1)) for site in sites}
    cut = plain_cut(whole, sites, {name: range(count) for name, count in counts.items()})
    assert sizes.size(counts) == sum(value.numel() for value in cut.parameters())
    assert sizes.size(counts, "macs") == operations(cut, x)
    for site in sites:
        for measure in ("params", "macs"):
            after = sizes.size({**counts, site.name: 1}, measure)
            assert sizes.size(counts, measure) + sizes.change(counts, site.name, 1, measure) == after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [Params(0.6), Macs(0.6)])
def test_targets_are_met_and_not_overshot_by_more_than_a_unit(kind: str, target: Target) -> None:
    whole, x = network(kind), inputs(kind, 2)
    sites = find_sites(whole, x).sites
    sizes = SizeModel(whole, sites, x)
    counts = counts_for_target(sizes, {site.name: target.keep for site in sites}, target)
    allowed = target.keep * sizes.size({}, target.measure)
    assert sizes.size(counts, target.measure) <= allowed
    shares = [counts[site.name] / site.units for site in sites]
    steps = [1 / site.units for site in sites]
    assert max(shares) - min(shares) <= 2 * max(steps)  # a share for all, but for rounding and the unit given out
    assert sizes.size({name: count + 1 for name, count in counts.items()}, target.measure) > allowed
    assert all(1 <= counts[site.name] <= site.units for site in sites)


def test_shares_of_a_plan_are_kept_in_proportion() -> None:
    whole, x = network("mlp"), inputs("mlp", 2)
    sites = find_sites(whole, x).sites
    plan = LayerPlan({"dense1": 0.8, "dense2": 0.4}, {"dense1": 220, "dense2": 252}, "by hand", 0.6)
    shares = shares_by_plan(sites, plan)
    assert shares == {"dense1": 0.8, "dense2": 0.4}
    sizes = SizeModel(whole, sites, x)
    assert counts_for_target(sizes, shares, None) == {"dense1": 16, "dense2": 5}
    smaller = counts_for_target(sizes, shares, Params(0.3))
    assert smaller["dense1"] / 20 == pytest.approx(2 * smaller["dense2"] / 12, abs=0.1)


def test_coupled_layers_take_the_weighted_mean_of_their_shares() -> None:
    sites = find_sites(network("resnet conv"), inputs("resnet conv", 2)).sites
    names = [layer for site in sites for layer in site.layers]
    plan = LayerPlan(
        {name: 0.9 if name == "conv1" else 0.3 for name in names},
        {name: 300 if name == "conv1" else 100 for name in names},
        "by hand",
        0.5,
    )
    assert shares_by_plan(sites, plan)["conv1"] == pytest.approx((0.9 * 300 + 0.3 * 100) / 400)


def test_what_cannot_be_met_is_said() -> None:
    whole, x = network("mlp"), inputs("mlp", 2)
    sites = find_sites(whole, x).sites
    sizes = SizeModel(whole, sites[:1], x)
    with pytest.raises(
        UsageError, match=r"params:0.05 cannot be met: one unit per layer .* give params:0\.\d+ or more"
    ):
        counts_for_target(sizes, {"dense1": 0.05}, Params(0.05))
    plan = LayerPlan({"dense1": 0.5}, {"dense1": 1}, "half a plan", 0.5)
    with pytest.raises(UsageError, match=r"half a plan.* has no share for dense2"):
        shares_by_plan(sites, plan)


@pytest.mark.parametrize("keep", [0, 1, 1.5, -0.2])
def test_targets_are_shares(keep: float) -> None:
    with pytest.raises(OptionError, match="keep must be"):
        Params(keep)


def test_text_forms() -> None:
    assert Target.parse("params:0.5") == Params(0.5)
    assert Target.parse("macs:0.25") == Macs(0.25)


def test_a_share_may_be_given_in_per_cent() -> None:
    assert Target.parse("params:50%") == Target.parse("params:keep=50%") == Params(0.5)
    assert str(Target.parse("macs:12.5%,multiple=8")) == "macs:0.125,multiple=8"
    with pytest.raises(OptionError, match=r"keep must be < 1, not 1\.5"):
        Target.parse("params:150%")
    with pytest.raises(OptionError, match=r"unknown target '50%' .*; for example params:0\.5 or macs:50%"):
        Target.parse("50%")


@pytest.mark.parametrize("multiple", [2, 4])
def test_sites_keep_multiples_where_asked(multiple: int) -> None:
    whole, x = network("mlp"), inputs("mlp", 2)
    sites = find_sites(whole, x).sites
    sizes = SizeModel(whole, sites, x)
    target = Params(0.6, multiple=multiple)
    counts = counts_for_target(sizes, {site.name: 0.6 for site in sites}, target)
    assert all(count % multiple == 0 for count in counts.values())
    assert 0.3 * sizes.size({}) < sizes.size(counts) <= 0.6 * sizes.size({})
    assert str(target) == f"params:0.6,multiple={multiple}"
    with pytest.raises(UsageError, match="cannot be met: 8 units per layer"):
        counts_for_target(sizes, {site.name: 0.2 for site in sites}, Params(0.2, multiple=8))
