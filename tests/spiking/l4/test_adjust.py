from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, UsageError
from weightsmith.spiking.conversion.preparing import with_mismatch
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.l4.adjust import (
    L4,
    Adjust,
    Adjustment,
    adjusted,
    apply_scales,
    channel_factors,
    l4_scales,
    population_means,
    population_norms,
    population_scales,
    population_spreads,
)
from weightsmith.spiking.l4.membranes import MembraneMoments
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, Mismatch
from weightsmith.spiking.simulation.sources import source_of


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def pictures(count, *shape, seed=9):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def convolutions(neuron=None, encode=None, *, bias=True, dtype=torch.float32):
    """conv 2→4, fires, average pool, conv 4→3, fires, dense 3; 6×6 pictures. Filters are sparse and dense ones."""
    first = normal(4, 2, 3, 3, dtype=dtype) / 2
    first[0].flatten()[1:] /= 20
    nodes = (
        Synapses("one", INPUT, first, normal(4, seed=5, dtype=dtype) / 10 if bias else None, padding=(1, 1)),
        Neurons("fire1", "one", torch.tensor([1.0, 1.5, 2.0, 0.7], dtype=dtype), layer="features.0"),
        Pool("pool", "fire1", (2, 2), (2, 2)),
        Synapses("two", "pool", normal(3, 4, 3, 3, seed=1, dtype=dtype), padding=(1, 1)),
        Neurons("fire2", "two", torch.full((3,), 1.2, dtype=dtype), layer="features.3"),
        Flatten("flat", "fire2"),
        Synapses("out", "flat", normal(3, 27, seed=3, dtype=dtype)),
    )
    return SpikingNetwork(nodes, (2, 6, 6), neuron or LIF(0.9), encode or Poisson())


def dense(weights, thresholds, neuron=None, encode=None, **options):
    nodes = (
        Synapses("layer", INPUT, weights),
        Neurons("fire", "layer", thresholds, **options),
        Synapses("out", "fire", normal(2, len(weights), seed=1)),
    )
    return SpikingNetwork(nodes, (weights.shape[1],), neuron or LIF(0.9), encode or Poisson())


def mean_size(network, name):
    return network.node(name).weight.double().abs().mean().item()


# The equations


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 10), st.floats(-5, 5), st.floats(0.1, 5)),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.0, 0.3, 1.0, 20.0]),
)
def test_scales_against_the_equations_one_by_one(units, r):
    found = l4_scales(*(np.array(column) for column in zip(*units, strict=True)), r)
    average = math.fsum(norm for norm, _, _ in units) / len(units)
    for j, (norm, mean, threshold) in enumerate(units):
        smoothed = (norm + r * average) / (1 + r)  # eq. 8
        wanted = mean + smoothed / average * (threshold - mean)  # eq. 6
        assume(abs(wanted - 0.1 * threshold) > 1e-9)
        guarded = wanted < 0.1 * threshold
        wanted = 0.1 * threshold if guarded else wanted
        scalar = threshold / wanted  # eq. 7
        assert found.smoothed[j] == pytest.approx(smoothed, rel=1e-12)
        assert found.wanted[j] == pytest.approx(wanted, rel=1e-9)
        assert found.full[j] == pytest.approx(scalar, rel=1e-9)
        assert found.applied[j] == pytest.approx((scalar + r) / (1 + r), rel=1e-9)  # eq. 9
        assert found.guarded[j] == guarded


def test_an_example_worked_by_hand():
    # Norms 1, 2, 3 with mean 2; r = 1 halves their distances; thresholds 4 and means 2, 0, 6.
    found = l4_scales([1, 2, 3], [2, 0, 6], 4, 1)
    assert found.smoothed.tolist() == [1.5, 2, 2.5]
    assert found.wanted.tolist() == [2 + 0.75 * 2, 4, 6 - 1.25 * 2]
    assert found.full.tolist() == pytest.approx([8 / 7, 1, 8 / 7])
    assert found.applied.tolist() == pytest.approx([15 / 14, 1, 15 / 14])
    assert not found.guarded.any()


def test_a_wanted_threshold_near_zero_is_raised_to_a_tenth():
    # −9 + ½·(1 + 9) = −4 and 1 are the wanted thresholds without the guard; at 0.1 the scalar is 10.
    found = l4_scales([1, 3], [-9, 1], 1, 0)
    assert found.wanted.tolist() == [0.1, 1]
    assert found.full.tolist() == [pytest.approx(10), 1]
    assert found.guarded.tolist() == [True, False]


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10**6), st.floats(-0.9, 0.99), st.floats(0.01, 100), st.floats(0, 50))
def test_of_equal_length_and_mean_the_larger_l4_norm_wants_the_higher_threshold(inputs, seed, share, threshold, r):
    weights = np.random.default_rng(seed).normal(size=(2, inputs)) ** 3
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    first, second = (np.sum(weights**4, axis=1)) ** 0.25
    assume(abs(first - second) > 1e-6)
    # Far above one another in a layer of more units, too: others only move the average.
    found = l4_scales([first, second, 0.5], [share * threshold] * 3, threshold, r)
    assume(not found.guarded[:2].all())
    assert (found.wanted[0] > found.wanted[1]) == (first > second)
    assert (found.applied[0] < found.applied[1]) == (first > second)


def test_the_example_of_the_paper_has_these_norms():
    half = math.sqrt(2) / 2
    network = dense(torch.tensor([[half, half], [1.0, 0.0]]), torch.ones(2))
    assert population_norms(network, "fire").tolist() == pytest.approx([2**-0.25, 1], abs=1e-7)


@pytest.mark.parametrize(
    ("norms", "means", "threshold", "match"),
    [
        ([1, 2], [0], 1, r"norms \(2,\), means \(1,\)"),
        ([1, 2], [0, 0], [1, 1, 1], r"thresholds \(3,\)"),
        ([[1, 2]], [[0, 0]], 1, "do not match"),
        ([], [], 1, "do not match"),
        ([1, math.nan], [0, 0], 1, "a norm of nan"),
        ([1, -2], [0, 0], 1, "a norm of -2"),
        ([1, 2], [0, math.inf], 1, "a mean of inf"),
        ([1, 2], [0, 0], [1, 0], "a threshold of 0"),
        ([1, 2], [0, 0], math.nan, "a threshold of nan"),
        ([0, 0], [0, 0], 1, "every unit's norm is zero"),
    ],
)
def test_numbers_that_make_no_sense_are_named(norms, means, threshold, match):
    with pytest.raises(DataMismatch, match=match):
        l4_scales(norms, means, threshold, 1)


@pytest.mark.parametrize("smoothing", [-1, math.nan, -math.inf])
def test_smoothing_is_not_negative(smoothing):
    with pytest.raises(OptionError, match="smoothing must be"):
        l4_scales([1, 2], [0, 0], 1, smoothing)
    with pytest.raises(OptionError, match="smoothing must be"):
        L4(smoothing)


def test_the_text_form():
    assert Adjust.parse("l4:0.5,layers=2,by=input") == L4(0.5, layers=2, by="input")
    assert Adjust.parse(str(L4(math.inf))) == L4(math.inf)
    for wrong in ({"layers": 0}, {"images": 0}, {"steps": 0}, {"by": "l2"}, {"mean": "median"}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            L4(1, **wrong)


# Smoothing without end changes nothing


def test_infinite_smoothing_gives_back_the_same_bits():
    network, x = convolutions(), pictures(8, 2, 6, 6)
    found = adjusted(network, L4(math.inf, layers=2), x, steps=10)
    for before, after in zip(network.synapses, found.network.synapses, strict=True):
        assert torch.equal(before.weight, after.weight)
        assert before.bias is None or torch.equal(before.bias, after.bias)
    assert all(set(part.scalars) == {1.0} and part.rescale == 1.0 for part in found.report.populations)


@pytest.mark.parametrize("r", [1e12, 1e300])
def test_very_large_smoothing_changes_next_to_nothing(r):
    network, x = convolutions(dtype=torch.float64), pictures(8, 2, 6, 6)
    found = adjusted(network, L4(r), x, steps=10)
    before, after = network.synapses[0], found.network.synapses[0]
    torch.testing.assert_close(after.weight, before.weight, rtol=1e-9, atol=0)
    torch.testing.assert_close(after.bias, before.bias, rtol=1e-9, atol=0)
    assert l4_scales([1, 2], [-3, 0.5], 1, r).applied.tolist() == pytest.approx([1, 1], abs=1e-9)


# What is done to the network


@pytest.mark.parametrize("r", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("neuron", [IF(), LIF(0.9, reset="hard")])
def test_the_mean_size_of_weights_is_kept(r, neuron):
    network, x = convolutions(neuron), pictures(8, 2, 6, 6)
    found = adjusted(network, L4(r, layers=2), x, steps=15).network
    for name in ("one", "two"):
        assert not torch.allclose(found.node(name).weight, network.node(name).weight, rtol=1e-3)
        assert mean_size(found, name) == pytest.approx(mean_size(network, name), rel=1e-6)


def test_weights_and_bias_of_a_unit_are_multiplied_by_what_is_reported_and_nothing_else_is_touched():
    network, x = convolutions(), pictures(8, 2, 6, 6)
    weight, bias = network.node("one").weight.clone(), network.node("one").bias.clone()
    found = adjusted(network, L4(0.5), x, steps=15, seed=3)
    (part,) = found.report.populations
    assert (part.population, part.layer, part.synapses) == ("fire1", "features.0", "one")
    factors = torch.tensor(part.scalars, dtype=torch.float64) * part.rescale
    after = found.network.node("one")
    torch.testing.assert_close(after.weight.double(), weight.double() * factors[:, None, None, None], rtol=1e-7, atol=0)
    torch.testing.assert_close(after.bias.double(), bias.double() * factors, rtol=1e-7, atol=0)
    assert after.weight.dtype == torch.float32
    assert [a is b for a, b in zip(network.nodes, found.network.nodes, strict=True)] == [False, *[True] * 6]
    assert torch.equal(network.node("one").weight, weight)
    assert torch.equal(network.node("one").bias, bias)


def test_the_report_holds_what_the_equations_say():
    network, x = convolutions(), pictures(8, 2, 6, 6)
    found = adjusted(network, L4(0.5), x, steps=15, seed=3).report
    (part,) = found.populations
    weights = network.node("one").weight.double().flatten(1).numpy()
    norms = (weights**4).sum(axis=1) ** 0.25
    assert part.norms == pytest.approx(norms)
    assert part.thresholds == pytest.approx([1, 1.5, 2, 0.7])
    smoothed = (norms + 0.5 * norms.mean()) / 1.5
    assert part.smoothed == pytest.approx(smoothed)
    means, thresholds = np.array(part.means), np.array(part.thresholds)
    wanted = means + smoothed / norms.mean() * (thresholds - means)
    assert part.wanted == pytest.approx(np.maximum(wanted, 0.1 * thresholds))
    assert part.scalars == pytest.approx((thresholds / np.array(part.wanted) + 0.5) / 1.5)
    assert (found.adjust, found.images, found.steps, found.seed) == ("l4:0.5", 8, 15, 3)


def test_the_guard_is_reported():
    weights = torch.tensor([[-0.2] * 20, [0.05] * 20, [2.0] + [0.0] * 19])
    network = dense(weights, torch.tensor([1.0, 1.0, 2.5]), LIF(0.99))
    found = adjusted(network, L4(0), torch.full((4, 20), 0.9), steps=50)
    (part,) = found.report.populations
    assert part.means[0] < -3  # inhibited all the time, with a norm below the average
    assert part.guarded == (0,)
    assert part.wanted[0] == pytest.approx(0.1)
    assert part.scalars[0] == pytest.approx(10)


@pytest.mark.parametrize("smoothing", [1.0, math.inf])
def test_the_report_survives_json(smoothing):
    report = adjusted(convolutions(), L4(smoothing, layers=2), pictures(4, 2, 6, 6), steps=5).report
    assert Adjustment.from_json(report.to_json()) == report
    assert Adjust.parse(report.adjust) == L4(smoothing, layers=2)


def test_only_the_first_images_and_the_steps_of_the_option_count():
    network, x = convolutions(), pictures(8, 2, 6, 6)
    found = adjusted(network, L4(1, images=5, steps=7), x, steps=30)
    alone = adjusted(network, L4(1), x[:5], steps=7)
    assert (found.report.images, found.report.steps) == (5, 7)
    assert found.report.populations == alone.report.populations
    assert found.report.populations != adjusted(network, L4(1), x, steps=7).report.populations


# The same spikes, whether a threshold is scaled up or weights are scaled down


@pytest.mark.parametrize("neuron", [IF(), IF(reset="hard"), LIF(0.9), LIF(0.83, reset="hard"), LIF(0.9, delay=True)])
def test_powers_of_two_on_thresholds_or_inversely_on_weights_give_the_same_spikes(neuron):
    network, x = convolutions(neuron), pictures(20, 2, 6, 6)
    powers = torch.tensor([2.0, 0.25, 1.0, 8.0])
    fire, one = network.node("fire1"), network.node("one")
    weight, bias = one.weight / powers[:, None, None, None], one.bias / powers
    thresholds = network.replaced([dataclasses.replace(fire, threshold=fire.threshold * powers)])
    weights = network.replaced([dataclasses.replace(one, weight=weight, bias=bias)])
    by_threshold, by_weight = (each.run(x, 30, seed=1) for each in (thresholds, weights))
    unscaled = network.run(x, 30, seed=1)
    for name in ("fire1", "fire2"):
        assert by_threshold.spikes()[name] > 0
        assert np.array_equal(by_threshold.spikes_per_step[name], by_weight.spikes_per_step[name])
        assert np.array_equal(by_threshold.spikes_per_image[name], by_weight.spikes_per_image[name])
    assert np.array_equal(by_threshold.answers, by_weight.answers)
    assert np.array_equal(by_threshold.scores, by_weight.scores)
    assert by_threshold.spikes()["fire1"] != unscaled.spikes()["fire1"]


# Means


def slow_means(network, x, steps, seed):
    """The mean membrane of the first population, in a loop of its own, in float64."""
    one, fire, neuron = network.nodes[0], network.nodes[1], network.neuron
    source = source_of(network, x, seed, 0)
    threshold = fire.threshold.double()[:, None, None]
    v = torch.zeros(len(x), *network.shapes["fire1"], dtype=torch.float64)
    total = torch.zeros(4, dtype=torch.float64)
    for step in range(steps):
        arriving = source.step(torch.arange(len(x)), step).double()
        current = functional.conv2d(arriving, one.weight.double(), one.bias.double(), padding=1)
        tested = v if neuron.delay else neuron.leak * v + current
        spikes = (tested > threshold).double()
        total += tested.mean(dim=(0, 2, 3))
        match neuron.reset, neuron.delay:
            case "soft", False:
                v = tested - threshold * spikes
            case "hard", False:
                v = tested * (1 - spikes)
            case "soft", True:
                v = neuron.leak * v + current - threshold * spikes
            case _:
                v = neuron.leak * v * (1 - spikes) + current
    return total / steps


@pytest.mark.parametrize("encode", [Poisson(), Poisson(0.7), Constant()])
@pytest.mark.parametrize("neuron", [IF(), LIF(0.9), LIF(0.8, reset="hard"), LIF(0.9, delay=True), IF("hard", True)])
def test_means_against_a_loop(neuron, encode):
    network, x = convolutions(neuron, encode), pictures(10, 2, 6, 6)
    (part,) = adjusted(network, L4(1), x, steps=12, seed=4).report.populations
    assert part.means == pytest.approx(slow_means(network, x, 12, 4).tolist(), rel=1e-5, abs=1e-5)


def test_means_are_measured_at_the_threshold_in_use():
    network, x = convolutions(IF()), pictures(10, 2, 6, 6)
    higher = network.with_factor(4.0)
    found = population_means(higher, "fire1", x, steps=20)
    assert found == pytest.approx(slow_means(higher, x, 20, 0).tolist(), rel=1e-5, abs=1e-5)
    assert found != pytest.approx(population_means(network, "fire1", x, steps=20), rel=0.05)


def test_later_populations_are_measured_with_the_earlier_ones_adjusted():
    network, x = convolutions(), pictures(10, 2, 6, 6)
    found = adjusted(network, L4(0.5, layers=2), x, steps=20, seed=2)
    once = adjusted(network, L4(0.5), x, steps=20, seed=2)
    watch, unadjusted = MembraneMoments(), MembraneMoments()
    once.network.run(x, 20, seed=2, observers=[watch])
    network.run(x, 20, seed=2, observers=[unadjusted])
    first, second = found.report.populations
    assert first == once.report.populations[0]
    assert second.means == pytest.approx(watch.mean("fire2").tolist())
    assert second.means != pytest.approx(unadjusted.mean("fire2").tolist(), rel=1e-3)
    assert torch.equal(found.network.node("one").weight, once.network.node("one").weight)


def test_the_mean_current_is_the_steady_state_of_eq_1():
    x = pictures(10, 2, 6, 6)
    for encode, scale in ((Poisson(0.8), 0.8), (Constant(), 1.0)):
        network = convolutions(LIF(0.9), encode)
        one = network.node("one")
        current = functional.conv2d(scale * x.double(), one.weight.double(), one.bias.double(), padding=1)
        wanted = -1 / math.log(0.9) * current.mean(dim=(0, 2, 3))
        (part,) = adjusted(network, L4(1, mean="current"), x, steps=5).report.populations
        assert part.means == pytest.approx(wanted.tolist(), rel=1e-6)


def test_the_mean_current_of_a_deeper_layer_is_measured():
    network, x = convolutions(LIF(0.8)), pictures(10, 2, 6, 6)
    found = population_means(network, "fire2", x, steps=20, seed=1, of="current")
    # A neuron that never fires and forgets at once holds the current of the step.
    fire = dataclasses.replace(network.node("fire2"), threshold=torch.full((3,), 1e9), leak=torch.full((3,), 1e-30))
    watch = MembraneMoments(["fire2"])
    network.replaced([fire]).run(x, 20, seed=1, observers=[watch])
    np.testing.assert_allclose(found, -1 / math.log(0.8) * watch.mean("fire2"), rtol=1e-5)


def test_the_mean_current_uses_the_leak_of_the_channel():
    weights, x = normal(2, 5), pictures(6, 5)
    shared = population_means(dense(weights, torch.ones(2), LIF(0.5)), "fire", x, steps=1, of="current")
    own = dense(weights, torch.ones(2), LIF(0.9), leak=torch.tensor([0.5, 0.25], dtype=torch.float64))
    assert population_means(own, "fire", x, steps=1, of="current") == pytest.approx(shared * [1, 0.5])


@pytest.mark.parametrize("neuron", [IF(), LIF(1.0)])
def test_without_leak_there_is_no_steady_state(neuron):
    with pytest.raises(UsageError, match="fire1 does not leak, so its mean membrane has no steady state"):
        adjusted(convolutions(neuron), L4(1, mean="current"), pictures(2, 2, 6, 6), steps=3)


# The spread the inputs cause, in place of the norm


def test_the_spread_is_the_mean_of_rates_times_squared_weights():
    network, x = convolutions(encode=Poisson(0.9)), pictures(5, 2, 6, 6)
    weights = network.node("one").weight.double().numpy()
    rates = np.pad(0.9 * np.abs(x.double().numpy()), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = []
    for filters in weights:
        sums = [
            (rates[image, :, row : row + 3, column : column + 3] * filters**2).sum()
            for image in range(5)
            for row in range(6)
            for column in range(6)
        ]
        wanted.append(math.sqrt(np.mean(sums)))
    np.testing.assert_allclose(population_spreads(network, "fire1", x, steps=3), wanted, rtol=1e-6)
    (part,) = adjusted(network, L4(0.5, by="input"), x, steps=8).report.populations
    assert part.norms == pytest.approx(wanted)
    # Σ of 18 rates spreads units differently from the norm: the choice must matter.
    (by_norm,) = adjusted(network, L4(0.5), x, steps=8).report.populations
    assert part.scalars != pytest.approx(by_norm.scalars, rel=1e-3)


def test_the_spread_of_a_dense_layer_behind_a_flattening():
    nodes = (
        Flatten("flat", INPUT),
        Synapses("layer", "flat", normal(3, 8)),
        Neurons("fire", "layer", torch.ones(3)),
        Synapses("out", "fire", normal(2, 3)),
    )
    network, x = SpikingNetwork(nodes, (2, 2, 2), IF(), Poisson()), pictures(5, 2, 2, 2)
    wanted = (x.double().abs().flatten(1).mean(dim=0) @ normal(3, 8).double().square().T).sqrt()
    np.testing.assert_allclose(population_spreads(network, "fire", x, steps=1), wanted.numpy(), rtol=1e-6)


def test_the_spread_of_a_deeper_layer_runs_and_keeps_the_mean_size():
    network, x = convolutions(), pictures(8, 2, 6, 6)
    found = adjusted(network, L4(0.5, layers=2, by="input"), x, steps=15)
    assert mean_size(found.network, "two") == pytest.approx(mean_size(network, "two"), rel=1e-6)
    second = found.report.populations[1]
    once = adjusted(network, L4(0.5, by="input"), x, steps=15).network
    assert second.norms == pytest.approx(population_spreads(once, "fire2", x, steps=15).tolist())


def test_constant_currents_cause_no_spread():
    with pytest.raises(UsageError, match="the inputs of one are not single random spikes.*by=norm"):
        adjusted(convolutions(encode=Constant()), L4(1, by="input"), pictures(2, 2, 6, 6), steps=3)


# Factors per channel, for sweeps


def test_channel_factors_are_what_weights_are_multiplied_by():
    network, x = convolutions(dtype=torch.float64), pictures(8, 2, 6, 6)
    means = population_means(network, "fire1", x, steps=15)
    factors = channel_factors(network, "fire1", means, 0.5)
    after = adjusted(network, L4(0.5), x, steps=15).network.node("one")
    ratio = after.weight / network.node("one").weight
    torch.testing.assert_close(ratio, torch.from_numpy(factors)[:, None, None, None].expand_as(ratio))
    by_input = channel_factors(network, "fire1", means, 0.5, population_spreads(network, "fire1", x, steps=15))
    weight = adjusted(network, L4(0.5, by="input"), x, steps=15).network.node("one").weight
    np.testing.assert_allclose((weight / network.node("one").weight)[:, 0, 0, 0].numpy(), by_input)


def test_scaled_currents_and_scaled_weights_fire_the_same():
    network, x = convolutions(bias=True, dtype=torch.float64), pictures(8, 2, 6, 6)
    means = population_means(network, "fire1", x, steps=15)
    factors = torch.from_numpy(channel_factors(network, "fire1", means, 0.5))
    first, fire, *others = network.nodes
    between = (first, Scale("factors", "one", factors), dataclasses.replace(fire, source="factors"), *others)
    by_current = dataclasses.replace(network, nodes=between).run(x, 15, precision="float64")
    by_weight = adjusted(network, L4(0.5), x, steps=15).network.run(x, 15, precision="float64")
    assert by_current.spikes() == by_weight.spikes()
    assert np.array_equal(by_current.answers, by_weight.answers)


def test_a_scale_in_front_counts_as_part_of_the_weights():
    plain, x = convolutions(dtype=torch.float64), pictures(8, 2, 6, 6)
    first, fire, *others = plain.nodes
    factor = torch.tensor([2.0, -0.5, 4.0, 1.0], dtype=torch.float64)
    spread = factor[:, None, None, None]
    halved = dataclasses.replace(first, weight=first.weight / spread, bias=first.bias / factor)
    nodes = (halved, Scale("scale", "one", factor), dataclasses.replace(fire, source="scale"), *others)
    scaled = dataclasses.replace(plain, nodes=nodes)
    for adjust in (L4(0.5), L4(0.5, by="input"), L4(0.5, mean="current")):
        found, wanted = (adjusted(network, adjust, x, steps=15) for network in (scaled, plain))
        torch.testing.assert_close(found.network.node("one").weight * spread, wanted.network.node("one").weight)
        (part,), (same,) = found.report.populations, wanted.report.populations
        for field in ("norms", "smoothed", "means", "wanted", "scalars"):
            assert getattr(part, field) == pytest.approx(getattr(same, field), rel=1e-5)


def test_scales_of_another_number_of_units_are_refused():
    with pytest.raises(DataMismatch, match="fire1 has 4 units, the scales have 2"):
        apply_scales(convolutions(), "fire1", l4_scales([1, 2], [0, 0], 1, 1))
    with pytest.raises(DataMismatch, match="do not match"):
        population_scales(convolutions(), "fire1", [0, 0], 1)


# What cannot be adjusted


def residual():
    nodes = (
        Synapses("stem", INPUT, normal(4, 5)),
        Neurons("fire1", "stem", torch.ones(4)),
        Synapses("a", "fire1", normal(4, 4)),
        Add("sum", ("a", "fire1")),
        Neurons("fire2", "sum", torch.ones(4)),
        Synapses("out", "fire2", normal(2, 4)),
    )
    return SpikingNetwork(nodes, (5,), IF(), Poisson())


def test_a_residual_sum_is_refused_by_name_and_the_stem_is_not():
    x = pictures(3, 5)
    assert len(adjusted(residual(), L4(1), x, steps=3).report.populations) == 1
    with pytest.raises(UsageError, match=r"fire2 reads sum \(Add\); adjust fewer layers"):
        adjusted(residual(), L4(1, layers=2), x, steps=3)


def test_neurons_that_read_the_input_itself_are_refused():
    nodes = (Neurons("fire", INPUT, torch.ones(5)), Synapses("out", "fire", normal(2, 5)))
    with pytest.raises(UsageError, match="fire reads the input"):
        adjusted(SpikingNetwork(nodes, (5,), IF(), Poisson()), L4(1), pictures(3, 5), steps=3)


def test_weights_that_others_read_too_are_refused():
    nodes = (
        Synapses("stem", INPUT, normal(4, 5)),
        Neurons("fire1", "stem", torch.ones(4)),
        Add("sum", ("stem", "fire1")),
        Synapses("out", "sum", normal(2, 4)),
    )
    with pytest.raises(UsageError, match=r"fire1 reads stem \(Synapses\), which others read too"):
        adjusted(SpikingNetwork(nodes, (5,), IF(), Poisson()), L4(1), pictures(3, 5), steps=3)


def test_bad_calls_are_named():
    network, x = convolutions(), pictures(3, 2, 6, 6)
    with pytest.raises(UsageError, match="has 2 populations, fewer than the 3 to adjust"):
        adjusted(network, L4(1, layers=3), x, steps=3)
    with pytest.raises(UsageError, match="no image"):
        adjusted(network, L4(1), x[:0], steps=3)
    with pytest.raises(UsageError, match="steps"):
        adjusted(network, L4(1), x, steps=0)
    with pytest.raises(UnknownName, match="unknown population 'pool'"):
        population_norms(network, "pool")
    varied = with_mismatch(network, Mismatch(threshold=0.1), 0)
    with pytest.raises(UsageError, match="fire1 has a threshold for every position; adjust first"):
        adjusted(varied, L4(1), x, steps=3)
    leaking = with_mismatch(network, Mismatch(leak=0.1), 0)
    with pytest.raises(UsageError, match="fire1 has a leak for every position"):
        adjusted(leaking, L4(1, mean="current"), x, steps=3)


def test_a_dead_layer_is_named():
    network = dense(torch.zeros(3, 5), torch.ones(3))
    with pytest.raises(DataMismatch, match="fire cannot be adjusted: its weights are all zero"):
        adjusted(network, L4(1), pictures(3, 5), steps=3)
    lit = dense(normal(3, 5), torch.ones(3))
    with pytest.raises(DataMismatch, match="no input reaches them"):
        adjusted(lit, L4(1, by="input"), torch.zeros(3, 5), steps=3)
