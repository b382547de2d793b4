from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.l4.membranes import MembraneMoments, arrivals, truncated
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF


class Everything:
    """Keeps all that it is shown: population → (images, steps, positions, channels)."""

    def __init__(self, membranes: bool = True) -> None:
        self.membranes, self.inputs = membranes, False
        self.parts: dict[str, list] = {}

    def see(self, population, images, step, spikes, membranes):
        shown = membranes if self.membranes else spikes
        self.parts.setdefault(population, []).append((images.copy(), step, shown.copy()))

    def of(self, population):
        parts = self.parts[population]
        images = 1 + max(int(rows.max()) for rows, _, _ in parts)
        steps = max(step + shown.shape[1] for _, step, shown in parts)
        whole = np.full((images, steps, *parts[0][2].shape[2:]), np.nan)
        for rows, step, shown in parts:
            whole[rows, step : step + shown.shape[1]] = shown
        assert not np.isnan(whole).any()
        return whole


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pictures(count, *shape, seed=9):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def two_layers(neuron=None, encode=None):
    """conv 2→3, fires, average pool, conv 3→4, fires, dense 3; 6×6 pictures."""
    nodes = (
        Synapses("one", INPUT, normal(3, 2, 3, 3), padding=(1, 1)),
        Neurons("fire1", "one", torch.tensor([1.0, 1.5, 2.0])),
        Pool("pool", "fire1", (2, 2), (2, 2)),
        Synapses("two", "pool", normal(4, 3, 3, 3, seed=1), normal(4, seed=2) / 10, padding=(1, 1)),
        Neurons("fire2", "two", torch.full((4,), 1.2)),
        Flatten("flat", "fire2"),
        Synapses("out", "flat", normal(3, 36, seed=3)),
    )
    return SpikingNetwork(nodes, (2, 6, 6), neuron or LIF(0.9), encode or Poisson())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.sampled_from([0.0, 3.0, 1e6]))
def test_moments_are_those_of_all_values_together(seed, lengths, offset):
    generator = np.random.default_rng(seed)
    parts = [generator.normal(offset, 0.5, (2, steps, 3, 5)) for steps in lengths]
    watch, step = MembraneMoments(), 0
    for part in parts:
        watch.see("a", np.arange(2), step, np.zeros(part.shape, np.uint8), part)
        step += part.shape[1]
    together = np.concatenate([part.reshape(-1, 5) for part in parts])
    assert watch.count("a") == len(together)
    np.testing.assert_allclose(watch.mean("a"), together.mean(axis=0), rtol=1e-12, atol=1e-12)
    # Sums of squares as they are would lose all digits at an offset of 1e6.
    np.testing.assert_allclose(watch.variance("a"), together.var(axis=0), rtol=1e-8)


def test_large_parts_are_taken_in_pieces(monkeypatch):
    part = np.random.default_rng(0).normal(2, 1, (5, 7, 4, 3)).astype(np.float32)
    monkeypatch.setattr("weightsmith.spiking.l4.membranes._AT_ONCE", 25)
    watch = MembraneMoments(["a"])
    watch.see("a", np.arange(5), 0, np.zeros(part.shape, np.uint8), part)
    rows = part.reshape(-1, 3).astype(np.float64)
    assert watch.count("a") == 140
    np.testing.assert_allclose(watch.mean("a"), rows.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(watch.variance("a"), rows.var(axis=0), rtol=1e-12)


@pytest.mark.parametrize("neuron", [IF(), LIF(0.8, reset="hard"), LIF(0.9, delay=True)])
def test_moments_of_a_run(neuron):
    network, x = two_layers(neuron), pictures(70, 2, 6, 6)
    watch, everything = MembraneMoments(), Everything()
    network.run(x, 20, observers=[watch, everything])
    for name, channels in (("fire1", 3), ("fire2", 4)):
        rows = everything.of(name).reshape(-1, channels)
        assert watch.count(name) == len(rows) == 70 * 20 * (36 if name == "fire1" else 9)
        np.testing.assert_allclose(watch.mean(name), rows.mean(axis=0), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(watch.variance(name), rows.var(axis=0), rtol=1e-10)


def test_only_the_populations_asked_for_are_watched():
    watch = MembraneMoments(["fire2"])
    two_layers().run(pictures(2, 2, 6, 6), 3, observers=[watch])
    assert watch.mean("fire2").shape == (4,)
    with pytest.raises(UnknownName, match="'fire1'.*known: fire2"):
        watch.mean("fire1")


def test_what_comes_out_is_a_copy():
    watch = MembraneMoments()
    watch.see("a", np.arange(1), 0, np.zeros((1, 1, 1, 2), np.uint8), np.ones((1, 1, 1, 2)))
    watch.mean("a")[:] = 7
    assert watch.mean("a").tolist() == [1, 1]


def test_a_watcher_refuses_one_name_as_text_and_missing_membranes():
    with pytest.raises(UsageError, match=r"write \['fire1'\]"):
        MembraneMoments("fire1")
    with pytest.raises(UsageError, match="fire1: no membranes"):
        MembraneMoments().see("fire1", np.arange(1), 0, np.zeros((1, 1, 1, 2), np.uint8), None)


# The per-step forms of eqs. 1 and 2: simulated membranes have this mean and this variance after every step.


@pytest.mark.parametrize(("leak", "scale"), [(1.0, 1.0), (0.9, 1.0), (0.6, 0.7)])
def test_membranes_of_20_random_neurons_agree_with_the_formulas(leak, scale):
    images, steps, inputs = 3000, 25, 30
    weights, x = normal(20, inputs, seed=4), pictures(1, inputs, seed=5) * 0.95
    nodes = (
        Synapses("layer", INPUT, weights),
        Neurons("silent", "layer", torch.full((20,), 1e9)),
        Synapses("out", "silent", torch.ones(2, 20)),
    )
    network = SpikingNetwork(nodes, (inputs,), LIF(leak), Poisson(scale))
    everything, watch = Everything(), MembraneMoments()
    responses = network.run(x.expand(images, -1), steps, seed=11, observers=[everything, watch])
    assert responses.spikes() == {"silent": 0}
    seen = everything.of("silent")[:, :, 0]

    w, p = weights.double().numpy(), (x[0].double() * scale).numpy()
    t = np.arange(1, steps + 1)[:, None]
    growth = t if leak == 1 else (1 - leak**t) / (1 - leak)
    growth2 = t if leak == 1 else (1 - leak ** (2 * t)) / (1 - leak**2)
    mean, variance = (w @ p) * growth, (w**2 @ (np.abs(p) - p**2)) * growth2

    found_mean, found_variance = seen.mean(axis=0), seen.var(axis=0)
    fourth = ((seen - found_mean) ** 4).mean(axis=0)
    z_mean = (found_mean - mean) / np.sqrt(variance / images)
    z_variance = (found_variance - variance) / np.sqrt((fourth - found_variance**2) / images)
    for z in (z_mean, z_variance):
        assert np.abs(z).max() < 4.2  # 500 values that hang together
        assert 0.5 < np.sqrt(np.square(z[-1]).mean()) < 1.6  # and neither too good to be true: 20 at the last step
    # Over all steps the observer must find the mean of the means, the mean variance and the variance of the means.
    error = 4 * np.sqrt(variance.mean(axis=0) / images)
    assert (np.abs(watch.mean("silent") - mean.mean(axis=0)) < error).all()
    np.testing.assert_allclose(watch.variance("silent"), variance.mean(axis=0) + mean.var(axis=0), rtol=0.1)


# Networks that end early


def test_a_truncated_network_has_the_same_membranes():
    network, x = two_layers(), pictures(5, 2, 6, 6)
    whole, part = Everything(), Everything()
    network.run(x, 12, seed=3, observers=[whole])
    short = truncated(network, "fire1")
    responses = short.run(x, 12, seed=3, observers=[part])
    assert [node.name for node in short.nodes[:2]] == ["one", "fire1"]
    assert len(short.nodes) == 4
    assert short.classes == 1
    assert not responses.scores.any()
    assert set(part.parts) == {"fire1"}
    assert np.array_equal(part.of("fire1"), whole.of("fire1"))


def test_what_does_not_lead_to_the_population_is_left_out():
    nodes = (
        Synapses("a", INPUT, normal(4, 5)),
        Neurons("fire_a", "a", torch.ones(4)),
        Synapses("b", INPUT, normal(4, 5, seed=1)),
        Neurons("fire_b", "b", torch.ones(4)),
        Add("sum", ("fire_a", "fire_b")),
        Synapses("out", "sum", normal(2, 4)),
    )
    network = SpikingNetwork(nodes, (5,), IF(), Poisson())
    assert [node.name for node in truncated(network, "fire_b").nodes[:2]] == ["b", "fire_b"]


def test_a_network_ends_behind_populations_only():
    with pytest.raises(UnknownName, match="unknown population 'pool'.*fire1, fire2"):
        truncated(two_layers(), "pool")
    with pytest.raises(UnknownName, match="'fire3'"):
        truncated(two_layers(), "fire3")


# What arrives at a layer


def test_moments_of_what_comes_from_the_input_need_no_run():
    x = pictures(7, 2, 6, 6)
    found = arrivals(two_layers(encode=Poisson(0.8)), "one", x, steps=3)
    torch.testing.assert_close(found.mean, 0.8 * x.double().mean(dim=0))
    torch.testing.assert_close(found.square, 0.8 * x.double().abs().mean(dim=0))


def test_drawn_spikes_have_these_moments():
    nodes = (
        Synapses("see", INPUT, torch.eye(6)),
        Neurons("silent", "see", torch.full((6,), 1e9), leak=torch.full((6,), 1e-30)),  # forgets: shows the input
        Synapses("out", "silent", torch.ones(2, 6)),
    )
    network, x = SpikingNetwork(nodes, (6,), IF(), Poisson(0.9)), pictures(64, 6)
    everything = Everything()
    network.run(x, 300, observers=[everything])
    drawn = everything.of("silent").reshape(-1, 6).round()
    assert set(np.unique(drawn)) == {-1, 0, 1}
    found = arrivals(network, "see", x, steps=300)
    assert found.square is not None
    np.testing.assert_allclose(drawn.mean(axis=0), found.mean.numpy(), atol=4 / np.sqrt(len(drawn)))
    np.testing.assert_allclose((drawn**2).mean(axis=0), found.square.numpy(), atol=4 / np.sqrt(len(drawn)))


def test_constant_currents_have_a_mean_but_no_rates():
    x = pictures(7, 2, 6, 6)
    found = arrivals(two_layers(encode=Constant()), "one", x, steps=3)
    torch.testing.assert_close(found.mean, x.double().mean(dim=0))
    assert found.square is None


@pytest.mark.parametrize("average", [True, False])
def test_moments_of_pooled_spikes_are_measured(monkeypatch, average):
    monkeypatch.setattr("weightsmith.spiking.l4.membranes._AT_ONCE", 1000)
    network, x = two_layers(), pictures(70, 2, 6, 6)
    network = network.replaced([dataclasses.replace(network.node("pool"), average=average)])
    everything = Everything(membranes=False)
    network.run(x, 10, seed=2, observers=[everything])
    spikes = everything.of("fire1").reshape(700, 6, 6, 3)
    pooled = (spikes[:, ::2] + spikes[:, 1::2])[:, :, ::2] + (spikes[:, ::2] + spikes[:, 1::2])[:, :, 1::2]
    pooled = np.moveaxis(pooled / (4 if average else 1), -1, 1)
    found = arrivals(network, "two", x, steps=10, seed=2)
    assert found.square is not None
    np.testing.assert_allclose(found.mean.numpy(), pooled.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.square.numpy(), (pooled**2).mean(axis=0), rtol=1e-12)
    assert not torch.allclose(found.square, found.mean, rtol=0.01)  # these are not spikes of size 1


def test_moments_behind_a_scale_and_a_flattening():
    network, x = two_layers(), pictures(4, 2, 6, 6)
    everything = Everything(membranes=False)
    network.run(x, 10, observers=[everything])
    scaled = dataclasses.replace(
        network,
        nodes=(
            *network.nodes[:5],
            Scale("scale", "fire2", torch.tensor([1.0, 2.0, 3.0, 4.0])),
            Flatten("flat", "scale"),
            network.nodes[-1],
        ),
    )
    found = arrivals(scaled, "out", x, steps=10)
    assert found.square is not None
    rates = everything.of("fire2").mean(axis=(0, 1)).T  # channels, positions
    factors = np.arange(1, 5)[:, None]
    np.testing.assert_allclose(found.mean.numpy(), (factors * rates).ravel(), rtol=1e-12)
    np.testing.assert_allclose(found.square.numpy(), (factors**2 * rates).ravel(), rtol=1e-12)


@pytest.mark.parametrize(
    "between", [Pool("between", INPUT, (2, 2), (2, 2)), Scale("between", INPUT, torch.tensor([0.5, 0.25]))]
)
def test_random_inputs_that_are_mixed_or_scaled_have_no_rates(between):
    nodes = (
        between,
        Synapses("one", "between", normal(3, 2, 3, 3)),
        Neurons("fire", "one", torch.ones(3)),
        Flatten("flat", "fire"),
        Synapses("out", "flat", normal(2, 3 if isinstance(between, Pool) else 48)),
    )
    x = pictures(6, 2, 6, 6)
    found = arrivals(SpikingNetwork(nodes, (2, 6, 6), IF(), Poisson()), "one", x, steps=2)
    assert found.square is None
    mean = x.double().mean(dim=0)
    scaled = mean * torch.tensor([0.5, 0.25])[:, None, None]
    wanted = mean.reshape(2, 3, 2, 3, 2).mean(dim=(2, 4)) if isinstance(between, Pool) else scaled
    torch.testing.assert_close(found.mean, wanted.double())


@pytest.mark.parametrize("kind", ["Add", "Gate"])
def test_behind_sums_and_gates_nothing_is_measured(kind):
    between = Add("mixed", ("fire", "fire")) if kind == "Add" else Gate("mixed", "fire", (1, 1), (1, 1))
    nodes = (
        Synapses("one", INPUT, normal(3, 2, 3, 3)),
        Neurons("fire", "one", torch.ones(3)),
        between,
        Flatten("flat", "mixed"),
        Synapses("out", "flat", normal(2, 48)),
    )
    network = SpikingNetwork(nodes, (2, 6, 6), IF(), Poisson())
    with pytest.raises(UsageError, match=rf"the inputs of out pass mixed \({kind}\).*use by=norm"):
        arrivals(network, "out", pictures(2, 2, 6, 6), steps=2)
