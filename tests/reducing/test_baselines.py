from __future__ import annotations

import dataclasses
import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import mean_interval
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.reducing.baselines import RandomMasks, Scratch, from_scratch, random_masks, reinitialised
from weightsmith.reducing.recovery.recover import FineTune
from weightsmith.training.freezing import freeze


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


# random masks


@st.composite
def sites(draw):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    ends = np.cumsum(sizes).tolist()
    slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return slices, [draw(st.integers(1, size)) for size in sizes]


@given(sites(), st.integers(1, 6), st.integers(0, 3))
def test_every_mask_has_exactly_the_units_asked_for(layout, repeats, seed):
    slices, counts = layout
    seen = []

    def evaluate(masks):
        seen.append(masks)
        return np.arange(len(masks), dtype=np.float32)

    found = random_masks(evaluate, slices, counts, repeats=repeats, seed=seed)
    (masks,) = seen
    assert masks.dtype == np.bool_
    assert masks.shape == (repeats, slices[-1].stop)
    for position, count in zip(slices, counts, strict=True):
        assert (masks[:, position].sum(axis=1) == count).all()
    assert found.accuracies == tuple(map(float, range(repeats)))
    assert found.counts == tuple(counts)


def test_every_unit_has_the_same_chance():
    taken = []
    random_masks(lambda masks: taken.append(masks) or masks.sum(1), [slice(0, 5)], [2], repeats=3000)
    share = taken[0].mean(axis=0)
    assert np.abs(share - 0.4).max() < 5 * math.sqrt(0.4 * 0.6 / 3000)


def test_mean_spread_and_interval():
    values = [60.0, 70.0, 65.0, 71.5]
    found = random_masks(lambda _: np.array(values), [slice(0, 8)], [4], repeats=4)
    assert (found.mean, found.deviation) == (statistics.fmean(values), statistics.stdev(values))
    assert found.interval == mean_interval(values)
    assert [found.as_good(x) for x in (59, 65, 70.1, 80)] == [4, 3, 1, 0]
    assert RandomMasks.from_json(found.to_json()) == found
    single = random_masks(lambda _: [60.0], [slice(0, 8)], [4], repeats=1)
    assert (single.mean, single.deviation, single.interval) == (60.0, None, None)


def test_the_first_masks_stay_when_more_are_asked_for_and_differ_between_seeds():
    drawn = {}

    def keep(name):
        return lambda masks: drawn.setdefault(name, masks).sum(1)

    random_masks(keep("few"), [slice(0, 30)], [9], repeats=3, seed=1)
    random_masks(keep("many"), [slice(0, 30)], [9], repeats=9, seed=1)
    random_masks(keep("other"), [slice(0, 30)], [9], repeats=3, seed=2)
    assert (drawn["many"][:3] == drawn["few"]).all()
    assert (drawn["other"] != drawn["few"]).any()
    assert len({mask.tobytes() for mask in drawn["many"]}) == 9


@pytest.mark.parametrize(
    ("slices", "counts", "message"),
    [
        ([slice(0, 4)], [0], "cannot keep 0 of 4 units"),
        ([slice(0, 4)], [5], "cannot keep 5 of 4 units"),
        ([slice(0, 4)], [2, 2], "1 sites and 2 counts"),
        ([], [], "0 sites"),
        ([slice(0, 4), slice(5, 8)], [2, 2], "must begin at 4, where the one before it ends"),
        ([slice(0, 4, 2)], [1], "must begin at 0, .* and have step 1"),
    ],
)
def test_sites_and_counts_that_do_not_fit(slices, counts, message):
    with pytest.raises(UsageError, match=message):
        random_masks(lambda masks: masks.sum(1), slices, counts)


@pytest.mark.parametrize("answer", [[1.0], [1.0, math.nan], [[1.0], [2.0]]])
def test_an_evaluation_that_is_none(answer):
    with pytest.raises(UsageError, match="a finite accuracy for each of 2 masks"):
        random_masks(lambda _: np.array(answer), [slice(0, 4)], [2], repeats=2)


# fresh weights


@pytest.mark.parametrize(
    "text", ["mlp:7,batch_norm=after", "mlp:7,activation=selu", "vgg:5,classifier=[8]", "resnet:8"]
)
def test_one_of_our_networks_gets_what_building_it_would_give(text):
    built = ws.networks.build(text, input_shape=(1, 8, 8), classes=3, seed=1)
    with torch.no_grad():
        for value in built.state_dict().values():
            value.add_(1)
    fresh = reinitialised(built, 5)
    wanted = ws.networks.build(text, input_shape=(1, 8, 8), classes=3, seed=5)
    assert weights_digest(fresh) == weights_digest(wanted) != weights_digest(built)


def own(**layers: nn.Module) -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.PReLU(), nn.Linear(6, 10))
    for name, layer in layers.items():
        network.add_module(name, layer)
    return network


def test_a_module_of_the_users_own_resets_itself_and_leaves_the_global_generator_alone():
    network = own()
    with torch.no_grad():
        network[2].running_mean.fill_(3)
        network[3].weight.fill_(9)
    freeze(network, "1")
    state, before = torch.get_rng_state(), weights_digest(network)
    fresh, again, other = reinitialised(network, 1), reinitialised(network, 1), reinitialised(network, 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert weights_digest(network) == before
    assert weights_digest(fresh) == weights_digest(again) != weights_digest(other)
    assert fresh[2].running_mean.eq(0).all()
    assert fresh[3].weight.item() == 0.25
    assert not torch.equal(fresh[1].weight, network[1].weight)
    assert all(value.requires_grad for value in fresh.parameters())


def test_the_outer_layer_has_the_last_word():
    class Zeroed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(10, 10)

        def reset_parameters(self):
            nn.init.zeros_(self.inner.weight)

    assert reinitialised(own(last=Zeroed()), 0).last.inner.weight.eq(0).all()


def test_a_layer_that_cannot_be_drawn_anew_is_named():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.ones(10))

    with pytest.raises(UsageError, match=r"last \(Scale\): has parameters but no reset_parameters"):
        reinitialised(own(last=Scale()), 0)


def test_the_card_is_kept_but_for_the_ancestry(digits):
    trained = ws.train("mlp:5", digits, epochs=1).network
    fresh = card_of(reinitialised(trained, 8))
    assert fresh.lineage.operation == "drawn anew from seed 8"
    assert fresh.lineage.parent is None
    assert dataclasses.replace(fresh, lineage=card_of(trained).lineage) == card_of(trained)


# training from scratch


def test_from_scratch_trains_fresh_weights_once_per_seed(digits, tmp_path):
    small = ws.train("mlp:8", digits, epochs=1, seed=9).network
    option = FineTune(3, rate=0.05)
    found = from_scratch(small, digits, option, seeds=(4, 5), out=tmp_path)
    shares = []
    for seed in (4, 5):
        run = ws.train(
            "mlp:8", digits, schedule=0.05, batch=64, epochs=3, seed=seed, normalise=card_of(small).normalisation
        )
        shares.append(ws.evaluate(run.network, digits).accuracy)
        stored = ws.load(tmp_path / f"seed-{seed}" / "network.safetensors")
        assert weights_digest(stored) == weights_digest(run.network)
    assert found.accuracies == tuple(shares)
    assert found.mean == mean_interval([share.value for share in shares])
    assert (found.seeds, found.split, found.option) == ((4, 5), "test", option)
    assert found.parameters == 64 * 8 + 8 + 8 * 10 + 10
    assert Scratch.from_json(found.to_json()) == found


def test_a_single_seed_has_no_interval_over_seeds(digits):
    found = from_scratch(ws.networks.mlp(64, 4, 10), digits, FineTune(1), seeds=(3,), split="train")
    assert (found.mean, found.split, len(found.accuracies)) == (None, "train", 1)


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_that_are_none(digits, seeds):
    with pytest.raises(UsageError, match="seeds must be distinct, and at least one"):
        from_scratch(ws.networks.mlp(64, 4, 10), digits, FineTune(1), seeds=seeds)
