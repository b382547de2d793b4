from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.reducing.criteria.angles import angles_between, pairs
from weightsmith.reducing.criteria.gram import Gram
from weightsmith.reducing.inspecting import AnglesRecord, angles, nearest_pairs


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture
def planted():
    """Eight sigmoid units: 5 is a twin of 1, 6 the opposite of 2, 7 always the same."""
    network = ws.networks.mlp(64, 8, 10, activation="sigmoid", seed=3)
    weight, bias = network.dense1.weight.data, network.dense1.bias.data
    weight[5], bias[5] = weight[1], bias[1]
    weight[6], bias[6] = -weight[2], -bias[2]
    weight[7], bias[7] = 0.0, 1.5
    return network


def test_planted_units_are_named(planted, digits):
    (site,) = angles(planted, digits, angle=1, top=2).record.sites
    assert [(pair.a, pair.b, pair.kind) for pair in site.pairs] == [(1, 5, "similar"), (2, 6, "complementary")]
    assert [pair.degrees for pair in site.pairs] == pytest.approx([0, 180], abs=0.01)
    assert (site.similar, site.complementary, site.constant) == (1, 1, (7,))
    assert site.groups == ((1, 5), (2, 6))
    assert (site.left, site.centre, site.entries, site.activation) == (5, "0.5", 1437, "sigmoid")


def test_a_sum_of_others_is_combined_though_near_to_none(digits):
    network = ws.networks.mlp(64, 6, 10, activation="sigmoid", seed=3)
    (site,) = angles(network, digits, angle=5).record.sites
    assert (site.combined, site.groups, site.left) == ((), (), 6)
    pixels = torch.zeros(1437, 64)
    pixels[:, :3] = torch.randn(1437, 3, generator=torch.Generator().manual_seed(0))
    linear = torch.nn.Sequential(torch.nn.Linear(64, 3), torch.nn.Linear(3, 2))
    linear[0].weight.data.zero_()
    linear[0].bias.data.zero_()
    linear[0].weight.data[:2, :2] = torch.eye(2)
    linear[0].weight.data[2, :2] = 1.0
    (site,) = angles(linear, (pixels, torch.arange(1437) % 2), angle=5, centre="none").record.sites
    assert (site.similar, site.complementary, len(site.combined)) == (0, 0, 1)


def test_the_degrees_are_those_of_the_activations(planted, digits):
    seen = []
    hook = planted.output.register_forward_pre_hook(lambda _m, given: seen.append(given[0].detach().numpy() - 0.25))
    ws.evaluate(planted, digits, split="train", batch=2000)
    hook.remove()
    whole = angles(planted, digits, centre=0.25).degrees("dense1")
    unit = seen[0].astype(np.float64) / np.linalg.norm(seen[0].astype(np.float64), axis=0)
    assert whole == pytest.approx(np.degrees(np.arccos(np.clip(unit.T @ unit, -1, 1))), abs=2e-3)
    assert angles(planted, digits, rows=100).record.sites[0].entries == 100


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**16))
def test_the_nearest_are_the_first_of_all_pairs(units, count, seed):
    generator = np.random.default_rng(seed)
    rows = np.round(generator.normal(size=(3, units)))  # coarse: there are twins, opposites and zeros
    gram = Gram(units)
    gram.add(rows)
    found = nearest_pairs(gram, count)
    zero = ~rows.any(axis=0)
    degrees = angles_between(gram)
    every = [(a, b) for a in range(units) for b in range(a + 1, units) if not zero[a] and not zero[b]]
    every.sort(key=lambda pair: (-round(abs(np.cos(np.radians(degrees[pair]))), 9), *pair))
    assert [(pair.a, pair.b) for pair in found] == every[:count]
    below = pairs(gram, 40)
    assert found[: len(below)] == below[:count]


def test_many_units_are_read_strip_by_strip():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(400, 600))
    rows[:, 599], rows[:, 300] = rows[:, 2], -rows[:, 299]
    gram = Gram(600)
    gram.add(rows)
    assert [(pair.a, pair.b) for pair in nearest_pairs(gram, 2)] == [(2, 599), (299, 300)]
    assert nearest_pairs(gram, 50) == tuple(sorted(pairs(gram, 89.9), key=lambda p: -abs(p.degrees - 90)))[:50]
    assert nearest_pairs(gram, 0) == ()


def test_short_units_are_told_from_constant_ones(digits):
    network = ws.networks.mlp(64, 6, 10, activation="tanh", seed=1)
    network.dense1.weight.data[4] *= 1e-3
    network.dense1.weight.data[5] = 0.0
    network.dense1.bias.data.zero_()
    (site,) = angles(network, digits, short=0.2).record.sites
    assert (site.constant, site.short) == ((5,), (4,))
    assert angles(network, digits, short=0).record.sites[0].short == ()


def test_the_network_stays_as_it_is_and_the_record_reads_back(planted, digits):
    before = {name: value.clone() for name, value in planted.state_dict().items()}
    planted.train()
    found = angles(planted, digits)
    assert planted.training
    assert all(torch.equal(value, before[name]) for name, value in planted.state_dict().items())
    assert AnglesRecord.from_json(found.record.to_json()) == found.record
    assert repr(found) == "UnitAngles(1 site, 2 pairs within 15°)"


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"angle": 200}, OptionError, "angle must be a number ≥ 0, ≤ 90, not 200"),
        ({"angle": 0}, OptionError, "angle must be > 0"),
        ({"centre": "median"}, OptionError, "centre must be auto, mean, none or a finite number"),
        ({"short": 1}, OptionError, "short must be a number ≥ 0, < 1, not 1"),
        ({"top": -1}, UsageError, "top must be a whole number ≥ 0"),
        ({"layers": "dense9"}, UnknownName, "unknown layer 'dense9'"),
        ({"layers": "output"}, UsageError, "output: cannot be cut: gives the output of the network"),
    ],
)
def test_wrong_options_are_named(planted, digits, options, kind, message):
    with pytest.raises(kind, match=message):
        angles(planted, digits, **options)


def test_rows_with_nan_and_unknown_sites_are_refused(planted, digits):
    with pytest.raises(UnknownName, match="unknown layer 'dense2'"):
        angles(planted, digits).degrees("dense2")
    x = torch.randn(20, 64)
    x[7, 3] = float("nan")
    with pytest.raises(DataMismatch, match="row 7 .*holds nan"):
        angles(planted, (x, torch.arange(20) % 10))
