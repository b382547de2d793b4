from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion import distilling
from weightsmith.spiking.conversion.balance import Mse, Percentile, balanced
from weightsmith.spiking.conversion.calibrate import CalibrateDistill
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.conversion.distilling import Distillation, distilled
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.neurons import IF, Graded
from weightsmith.spiking.simulation.simulate import simulate

STEPS = 3
NEURONS = [IF(signed=True), Graded(4), IF()]


class _Residual(nn.Module):
    """Two convolutions with a shortcut, a pool, and a dense layer."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.last = pool, nn.Linear(4 * 9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.one(x).relu()
        return self.last(self.pool((self.two(first) + first).relu()).flatten(1))


def _given(neuron, pool=None, encode=None, rows=96):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = _Residual(nn.AvgPool2d(2) if pool is None else pool).eval()
    x = torch.rand(rows, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    made = convert(module, neuron, Constant() if encode is None else encode, input_shape=(1, 6, 6))
    how = Percentile() if isinstance(neuron, Graded) else Mse()
    return balanced(made, how, x, steps=STEPS).network, made.network, x


def _damaged(network):
    """The same network with every weight off by about a fifth."""
    generator = torch.Generator().manual_seed(2)
    return network.replaced(
        dataclasses.replace(node, weight=node.weight * (1 + 0.2 * torch.randn(node.weight.shape, generator=generator)))
        for node in network.synapses
    )


@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_damaged_weights_come_nearer_to_the_network_again(neuron):
    network, plain, x = _given(neuron, rows=640)
    damaged = _damaged(network)
    found, record = distilled(damaged, plain, CalibrateDistill(rate=0.02, batch=16), x, steps=STEPS)
    assert record.kept
    assert (record.images, record.held, record.steps) == (560, 80, STEPS)
    assert record.after < 0.8 * record.before
    # Other rows, which it has never seen, run by the engine as any network.
    others = torch.rand(200, 1, 6, 6, generator=torch.Generator().manual_seed(3))
    expected = _scores(plain, others)
    before, after = ((_run(each, others) - expected).square().sum() for each in (damaged, found))
    assert after < 0.85 * before
    assert Distillation.from_json(record.to_json()) == record


def _scores(plain, x):
    lessons = distilling._Lessons(plain, plain, x, steps=STEPS, seed=0)
    return lessons._original(torch.arange(len(x)))[0]


def _run(network, x):
    summed = torch.from_numpy(np.asarray(simulate(network, x, STEPS).scores)).float()
    return summed if isinstance(network.neuron, Graded) else summed / STEPS


@pytest.mark.parametrize(
    ("neuron", "pool"),
    # Graded spikes are not pooled by their largest, and plain ones only about so.
    [*((neuron, nn.AvgPool2d(2)) for neuron in NEURONS), (IF(signed=True), nn.MaxPool2d(2))],
    ids=str,
)
def test_what_is_trained_is_what_the_engine_runs(neuron, pool):
    """The scores of a single pass on mean values are those of the simulation, step by step."""
    network, plain, x = _given(neuron, pool)
    student = distilling._Student(network, STEPS)
    lessons = distilling._Lessons(network, plain, x, steps=STEPS, seed=0)
    rows = torch.arange(len(x))
    given, _ = student(lessons._inputs(rows), lessons._sums(student, rows))
    torch.testing.assert_close(given.detach(), _run(network, x), rtol=1e-4, atol=1e-4)
    for old, new in zip(network.nodes, student.network().nodes, strict=True):
        assert old.name == new.name
    for old, new in zip(network.synapses, student.network().synapses, strict=True):
        torch.testing.assert_close(old.weight, new.weight, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_for_8_bits_what_is_trained_is_what_runs_in_8_bits(neuron):
    network, plain, x = _given(neuron, encode=Constant(step=1 / 127))
    student = distilling._Student(network, STEPS, whole=True)
    lessons = distilling._Lessons(network, plain, x, steps=STEPS, seed=0)
    rows = torch.arange(len(x))
    given, _ = student(lessons._inputs(rows), lessons._sums(student, rows))
    summed = torch.from_numpy(simulate(quantised(network), x, STEPS, precision="int8").scores).float()
    expected = summed if isinstance(neuron, Graded) else summed / STEPS
    torch.testing.assert_close(given.detach(), expected, rtol=1e-4, atol=1e-4)
    assert float((given.detach() - _run(network, x)).abs().max()) > 1e-3  # not the network that is not rounded
    given.sum().backward()
    assert all(each.change.grad.abs().sum() > 0 for each in student._weights.values())


def _with_large_weights(network):
    """The first weight of each unit is so large that 8 bits leave only a few levels to the others."""
    large = [torch.ones_like(node.weight).flatten(1) for node in network.synapses]
    for factors in large:
        factors[:, 0] = 20
    return network.replaced(
        dataclasses.replace(node, weight=node.weight * factors.reshape(node.weight.shape))
        for node, factors in zip(network.synapses, large, strict=True)
    )


def test_coarse_weights_are_trained_for_their_rounding():
    network, plain, x = _given(IF(signed=True), encode=Constant(step=1 / 127), rows=640)
    network, plain = _with_large_weights(network), _with_large_weights(plain)
    found, record = distilled(network, plain, CalibrateDistill(rate=0.02, batch=16), x, steps=STEPS, whole=True)
    assert record.kept
    others = torch.rand(200, 1, 6, 6, generator=torch.Generator().manual_seed(3))
    expected, errors = _scores(plain, others), []
    for each in (network, found):
        run = simulate(quantised(each), others, STEPS, precision="int8")
        errors.append(float((torch.from_numpy(run.scores) / STEPS - expected).square().sum()))
    assert errors[1] < 0.8 * errors[0]


def test_the_derivative_is_that_of_a_clipped_relu():
    network, _, _ = _given(IF(signed=True))
    student, node = distilling._Student(network, STEPS), network.populations[0]
    amplitude = node.amplitude[:, None, None]
    mean = torch.cat([-amplitude, amplitude / 2, 2 * amplitude], dim=2)[None].clone().requires_grad_()
    sums = torch.randint(0, STEPS + 1, (1, 3, 4), generator=torch.Generator().manual_seed(0))
    spoken = student._represented(node, mean, sums.numpy())
    torch.testing.assert_close(spoken.detach(), sums.movedim(-1, 1)[:, :, None] * amplitude / STEPS)
    (gradient,) = torch.autograd.grad(spoken.sum(), mean)
    assert gradient[0, 0, 0].tolist() == [0, 1, 0]
    share = sums.movedim(-1, 1)[:, :, None] / STEPS
    spoken = student._represented(node, mean, sums.numpy())
    spoken.sum().backward()
    inside = torch.tensor([0.0, 0.5, 0.0])  # I/A of the mean currents between zero and the amplitude
    expected = amplitude.flatten() * (share - inside).sum(dim=(0, 2, 3))  # of the logarithm
    torch.testing.assert_close(student._logarithms[node.name].grad, expected)
    graded, _, _ = _given(Graded(4))
    spoken = distilling._Student(graded, STEPS)._represented(graded.populations[0], mean, sums.numpy())
    (gradient,) = torch.autograd.grad(spoken.sum(), mean)
    assert gradient[0, 0, 0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("neuron", NEURONS, ids=str)
def test_small_units_are_moved_in_proportion(neuron):
    """A unit whose weights and threshold are scaled down spikes alike, and its weights must move alike."""
    network, _, _ = _given(neuron)
    factor = torch.tensor([1e-4, 1.0, 1.0, 1.0])
    one, fire = network.node("one"), network.populations[0]
    scaled = network.replaced(
        [
            dataclasses.replace(one, weight=one.weight * factor[:, None, None, None], bias=one.bias * factor),
            dataclasses.replace(fire, threshold=fire.threshold * factor, amplitude=fire.amplitude * factor),
        ]
    )
    found = []
    for each in (network, scaled):
        student = distilling._Student(each, STEPS)
        with torch.no_grad():
            for change in student.trained()[: 2 * len(network.synapses)]:
                change.add_(0.1)
        found.append(student.network())
    moved = found[0].node("one").weight
    assert float((moved - one.weight).abs().max()) > 0.01
    torch.testing.assert_close(found[1].node("one").weight, moved * factor[:, None, None, None], rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(found[1].node("two").weight, found[0].node("two").weight)


def test_the_rate_follows_from_distance_and_depth():
    network, plain, x = _given(IF(signed=True))
    _, record = distilled(network, plain, CalibrateDistill(batch=16), x, steps=STEPS)
    assert record.rate == pytest.approx((record.before / 2) ** 0.5 / 10)
    _, given = distilled(network, plain, CalibrateDistill(batch=16, rate=0.02), x, steps=STEPS)
    assert given.rate == 0.02


def test_long_runs_of_deep_networks_have_a_lower_rate():
    assert distilling._rate(0.24, 55, 164) == pytest.approx((0.24 / 55) ** 0.5 / 10)
    assert distilling._rate(0.24, 55, 2500) == pytest.approx(36 / (55 * 55**0.5 * 50))
    assert distilling._rate(0.24, 55, 10_000) == pytest.approx(36 / (55 * 55**0.5 * 100))
    assert distilling._rate(0.14, 19, 2500) == pytest.approx((0.14 / 19) ** 0.5 / 10)
    assert distilling._rate(9.0, 4, 1) == pytest.approx(0.05)  # a distance above the variance says no more than that


def test_thresholds_that_are_far_off_come_back():
    """Three times too large, they would round everything to zero or one step."""
    network, plain, x = _given(IF(signed=True), rows=640)
    far = network.with_factor(3.0)
    found, record = distilled(far, plain, CalibrateDistill(rate=0.05, batch=8), x, steps=STEPS)
    assert record.after < 0.5 * record.before
    for before, node in zip(far.populations, found.populations, strict=True):
        torch.testing.assert_close(node.threshold, node.amplitude)
        assert float((node.threshold / before.threshold).mean()) < 0.8


def test_thresholds_of_graded_neurons_stay():
    network, plain, x = _given(Graded(4), rows=320)
    found, record = distilled(_damaged(network), plain, CalibrateDistill(rate=0.02, batch=16), x, steps=STEPS)
    assert record.kept
    for before, node in zip(network.populations, found.populations, strict=True):
        torch.testing.assert_close(node.threshold, before.threshold)


def test_a_ceiling_is_never_exceeded():
    network, plain, x = _given(IF(signed=True), rows=320)
    low = network.replaced(
        dataclasses.replace(node, ceiling=float(node.threshold.min())) for node in network.populations
    )
    found, _ = distilled(low, plain, CalibrateDistill(rate=0.05, batch=8), x, steps=STEPS)
    assert all(float(node.threshold.max()) <= node.ceiling * (1 + 1e-6) for node in found.populations)


def test_a_training_that_does_not_help_is_not_used():
    network, plain, x = _given(IF(signed=True))
    found, record = distilled(network, plain, CalibrateDistill(rate=0.9, batch=8), x, steps=STEPS)
    assert not record.kept
    assert found is network


def test_the_same_seed_gives_the_same_weights_and_leaves_all_else_alone():
    network, plain, x = _given(IF(signed=True))
    damaged, how = _damaged(network), CalibrateDistill(batch=16)
    before = [node.weight.clone() for node in damaged.synapses]
    state = torch.random.get_rng_state()
    one, two, other = (distilled(damaged, plain, how, x, steps=STEPS, seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(old, node.weight) for old, node in zip(before, damaged.synapses, strict=True))
    assert torch.equal(one.node("two").weight, two.node("two").weight)
    assert not torch.equal(one.node("two").weight, other.node("two").weight)


def test_rows_that_cannot_tell_are_refused():
    network, plain, x = _given(IF(signed=True))
    with pytest.raises(UsageError, match="needs at least 16 training rows, not 15; use calibrate=weights or bias"):
        distilled(network, plain, CalibrateDistill(), x[:15], steps=STEPS)
    with pytest.raises(UsageError, match="the same scores for all of the 6 rows that are held back"):
        distilled(network, plain, CalibrateDistill(), x[:1].expand(50, 1, 6, 6), steps=STEPS)


def test_poisson_inputs_are_learnt_from_the_spikes_they_give():
    network, plain, x = _given(IF(signed=True), encode=Poisson(), rows=320)
    lessons = distilling._Lessons(network, plain, x, steps=200, seed=0)
    torch.testing.assert_close(lessons._inputs(torch.arange(4)), x[:4], atol=0.2, rtol=0)
    assert torch.equal(lessons._original(torch.arange(4))[1]["input"], x[:4])  # the original sees no spikes
    _, record = distilled(_damaged(network), plain, CalibrateDistill(rate=0.02, batch=16), x, steps=8)
    assert record.kept


def test_progress_counts_the_batches():
    network, plain, x = _given(IF(signed=True))
    seen = []
    distilled(network, plain, CalibrateDistill(batch=16), x, steps=2, progress=lambda *done: seen.append(done))
    assert seen == [(number, 5) for number in range(1, 6)]  # 84 rows: five batches of 16, the last four are left out
