from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Flatten, Neurons, Synapses
from weightsmith.spiking.monitors.activity import ActivityRecord, Statistics
from weightsmith.spiking.monitors.correspondence import Rates
from weightsmith.spiking.monitors.raster import Raster
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, Graded
from weightsmith.spiking.simulation.exits import Margin


def network(units=3, threshold=1.0, encode=None):
    return SpikingNetwork(
        (
            Synapses("dense", INPUT, torch.eye(units)),
            Neurons("relu", "dense", torch.full((units,), threshold), layer="dense"),
            Synapses("out", "relu", torch.ones(2, units)),
        ),
        (units,),
        IF(),
        encode or Poisson(),
    )


def inputs(images, units):
    return torch.rand(images, units, generator=torch.Generator().manual_seed(3)) * 2 - 1


def shown(spikes, membranes=None, chunk=None, **options):
    """What is found for spikes (images, steps, units) of the only population."""
    images, steps, units = spikes.shape
    statistics = Statistics(network(units), images=images, **options)
    for step in range(0, steps, chunk or steps):
        part = slice(step, step + (chunk or steps))
        tested = None if membranes is None else membranes[:, part, None]
        statistics.see("relu", np.arange(images), step, spikes[:, part, None].astype(np.uint8), tested)
    return statistics.record().of("relu")


def test_bernoulli_trains():
    spikes = np.random.default_rng(0).random((20, 1000, 10)) < 0.3
    found = shown(spikes)
    assert found.rate == pytest.approx(spikes.mean())
    assert found.fano == pytest.approx(0.7, abs=0.02)
    assert found.interval_cv == pytest.approx(math.sqrt(0.7), abs=0.01)
    assert found.rate_noise == pytest.approx(0.3 * 0.7 / 10, rel=0.02)
    assert (found.fano_trains, found.interval_trains, found.silent) == (200, 200, 0.0)


def test_sparse_bernoulli_trains_of_75_steps_still_look_like_poisson():
    spikes = np.random.default_rng(1).random((40, 75, 500)) < 0.04
    found = shown(spikes)
    assert found.fano == pytest.approx(0.96, abs=0.02)
    counts, first = spikes.sum(axis=1), spikes.argmax(axis=1)
    enough = counts >= 3
    span = (74 - spikes[:, ::-1].argmax(axis=1) - first)[enough]
    intervals = counts[enough] - 1
    expected = np.average(1 - intervals / span, weights=intervals - 1)
    assert found.interval_cv**2 == pytest.approx(expected, abs=0.015)
    assert found.interval_trains == enough.sum() < 0.6 * enough.size


def all_trains(steps, spikes):
    trains = np.zeros((math.comb(steps, spikes), steps, 1), bool)
    for row, times in enumerate(itertools.combinations(range(steps), spikes)):
        trains[row, list(times)] = True
    return trains


def test_the_mean_fano_factor_over_all_trains_is_the_formula():
    for spikes in (2, 3, 5):
        found = shown(all_trains(12, spikes), window=3)
        assert found.fano == pytest.approx((1 - spikes / 12) * 12 / 11, rel=1e-12)


def test_the_mean_interval_cv_over_all_trains_of_a_span_is_the_formula():
    for spikes in (3, 4, 6):
        trains = all_trains(9, spikes)
        trains = trains[trains[:, 0, 0] & trains[:, 8, 0]]
        found = shown(trains)
        assert found.interval_cv**2 == pytest.approx(1 - (spikes - 1) / 8, rel=1e-12)


def test_regular_trains():
    spikes = np.zeros((2, 60, 3), bool)
    spikes[:, 2::5] = True
    found = shown(spikes)
    assert (found.fano, found.interval_cv, found.rate, found.rate_variance) == (0.0, 0.0, 0.2, 0.0)
    in_windows = [1, 2, 1, 1, 2, 1, 1, 2]  # spikes at 2, 7, 12, … in eight windows of 7
    assert shown(spikes, window=7).fano == pytest.approx(np.var(in_windows, ddof=1) / np.mean(in_windows))


def test_rates_and_silence_by_hand():
    spikes = np.zeros((2, 10, 4), bool)
    spikes[0, :, 0] = True
    spikes[1, ::2, 0] = True
    spikes[1, 3, 1] = True
    found = shown(spikes)
    rates = [15 / 20, 1 / 20, 0, 0]
    assert (found.spikes, found.units, found.layer, found.silent) == (16, 4, "dense", 0.5)
    assert found.rate == pytest.approx(np.mean(rates))
    assert found.rate_variance == pytest.approx(np.var(rates))
    assert found.fano is None  # one whole window only
    assert found.rate_noise is None


def test_overshoot_by_hand():
    spikes = np.zeros((1, 4, 2), bool)
    spikes[0, [0, 2], [0, 1]] = True
    spikes[0, 3, 1] = True
    membranes = np.full((1, 4, 2), 0.9, np.float32)
    membranes[0, 0, 0], membranes[0, 2, 1], membranes[0, 3, 1] = 1.5, 1.25, 2.0
    assert shown(spikes, membranes).overshoot == pytest.approx((0.5 + 0.25 + 1.0) / 3)
    assert shown(spikes).overshoot is None


def test_overshoot_counts_in_thresholds_of_a_run():
    """A current of 0.75 fires at the membranes 2.25, 2.5, 2.75 and again 2.25 past the threshold 2."""
    net = network(1, threshold=2.0, encode=Constant())
    statistics = Statistics(net, images=1)
    net.run(torch.tensor([[0.75]]), 11, observers=[statistics])
    found = statistics.record().of("relu")
    assert found.spikes == 4
    assert found.overshoot == pytest.approx(np.mean([0.125, 0.25, 0.375, 0.125]))


def test_per_unit_thresholds_are_met_unit_by_unit():
    net = SpikingNetwork(
        (
            Synapses("conv", INPUT, torch.ones(2, 1, 1, 1)),
            Neurons("relu", "conv", torch.tensor([[[1.0, 2.0, 4.0]], [[8.0, 16.0, 32.0]]])),
            Flatten("flat", "relu"),
            Synapses("out", "flat", torch.ones(2, 6)),
        ),
        (1, 1, 3),
        IF(),
        Poisson(),
    )
    statistics = Statistics(net, images=1)
    membranes = np.array([[1.5, 10.0], [3.0, 24.0], [4.4, 35.2]]).reshape(1, 1, 3, 2)
    spikes = np.ones((1, 1, 3, 2), np.uint8)
    statistics.see("relu", np.arange(1), 0, spikes, membranes)
    assert statistics.record().of("relu").overshoot == pytest.approx((0.5 + 0.5 + 0.1 + 0.25 + 0.5 + 0.1) / 6)


def slowly(spikes, window, ended):
    """The same numbers, train by train."""
    fano, noise, squares, degrees = [], [], 0.0, 0
    for image, length in enumerate(ended):
        for train in spikes[image, :length].T:
            counts = [train[k * window : (k + 1) * window].sum() for k in range(length // window)]
            if len(counts) >= 2:
                noise.append(np.var(counts, ddof=1) / window**2)
                if sum(counts) >= 2:
                    fano.append(np.var(counts, ddof=1) / np.mean(counts))
            intervals = np.diff(np.flatnonzero(train))
            if len(intervals) >= 2:
                n = len(intervals)
                squares += (n - 1) * (n + 1) / n * np.var(intervals, ddof=1) / intervals.mean() ** 2
                degrees += n - 1
    mean = [float(np.mean(values)) if values else None for values in (fano, noise)]
    return [*mean, math.sqrt(squares / degrees) if degrees else None]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.floats(0.02, 0.7), st.integers(1, 9), st.lists(st.integers(1, 9), min_size=1), st.data()
)
def test_parts_of_any_length_and_images_that_end_give_what_a_slow_version_gives(seed, p, window, cuts, data):
    generator = np.random.default_rng(seed)
    steps = sum(cuts)
    spikes = generator.random((4, steps, 3)) < p
    statistics = Statistics(network(3), images=[10, 12, 13, 99], window=window)
    present, ended, step = [0, 1, 2, 3], [0, 0, 0, 0], 0
    for length in cuts:
        rows = np.array([11, 12, 13, 10])[present]  # 11 is not watched
        order = np.argsort(rows)
        part = spikes[present][order, step : step + length, None].astype(np.uint8)
        statistics.see("relu", rows[order], step, part, None)
        step += length
        for row in present:
            ended[row] = step
        present = [row for row in present if not data.draw(st.booleans())] or present
    ended[0] = 0
    found = statistics.record().of("relu")
    expected = slowly(spikes, window, ended)
    for value, other in zip((found.fano, found.rate_noise, found.interval_cv), expected, strict=True):
        assert value == (None if other is None else pytest.approx(other, rel=1e-9, abs=1e-12))
    counted = [spikes[row, : ended[row]].sum(axis=0) for row in range(4)]
    assert found.rate == pytest.approx(np.sum(counted) / (3 * sum(ended)))


def test_skipped_steps_do_not_count():
    spikes = np.random.default_rng(5).random((3, 50, 4)) < 0.3
    for chunk in (1, 7, 50):
        late, whole = shown(spikes, skip=13, chunk=chunk), shown(spikes[:, 13:])
        assert late == whole
    with pytest.raises(UsageError, match="more than the 60 steps"):
        shown(spikes, skip=60)


def test_a_silent_population_has_no_regularity():
    found = shown(np.zeros((2, 40, 3), bool), np.zeros((2, 40, 3)))
    assert (found.rate, found.rate_variance, found.silent, found.rate_noise) == (0.0, 0.0, 1.0, 0.0)
    assert (found.fano, found.interval_cv, found.overshoot) == (None, None, None)
    assert (found.fano_trains, found.interval_trains) == (0, 0)


def test_a_run_is_watched_through_an_early_exit():
    net = network(5)
    statistics = Statistics(net, images=30, window=5)
    responses = net.run(inputs(40, 5), 60, observers=[statistics], early=Margin(2.0, least=4))
    record = statistics.record()
    assert record.images == 30
    assert responses.ended[:30].mean() <= record.steps <= 60
    assert [item.name for item in record.populations] == ["relu"]
    assert ActivityRecord.from_json(record.to_json()) == record
    assert record.of("relu").overshoot is not None


def test_what_cannot_be_watched_is_refused():
    net = network(2)
    with pytest.raises(UnknownName, match="unknown population 'rule'; did you mean 'relu'"):
        Statistics(net, populations=["rule"])
    with pytest.raises(UsageError, match="populations is empty"):
        Statistics(net, populations=[])
    with pytest.raises(UsageError, match="window must be ≥ 1"):
        Statistics(net, window=0)
    with pytest.raises(UsageError, match="images must be a number ≥ 1"):
        Statistics(net, images=0)
    statistics = Statistics(net)
    with pytest.raises(UsageError, match="has seen nothing"):
        statistics.record()
    with pytest.raises(DataMismatch, match="relu has"):
        statistics.see("relu", np.arange(1), 0, np.zeros((1, 1, 2, 1), np.uint8), None)
    net.run(inputs(3, 2), 5, observers=[statistics])
    with pytest.raises(UsageError, match="step 0 of image 0 follows step 4 of relu: an observer watches one whole run"):
        net.run(inputs(3, 2), 5, observers=[statistics])
    with pytest.raises(UsageError, match="'other' was not watched"):
        statistics.record().of("other")


def test_spikes_taken_back_are_counted_apart():
    nodes = (
        Neurons("on", INPUT, torch.tensor([0.5, 2.9])),
        Synapses("a", "on", torch.tensor([[0.7, -1.6]])),
        Neurons("relu", "a", torch.tensor([0.5])),
        Synapses("out", "relu", torch.ones(1, 1)),
    )
    net = SpikingNetwork(nodes, (2,), IF(signed=True), Constant())
    statistics = Statistics(net, images=1, window=2)
    raster = Raster(net, images=1)
    net.run(torch.tensor([[0.75, 1.0]]), 4, observers=[statistics, raster])
    found = statistics.record().of("relu")
    # v: 0.7 (+1), 0.9 (+1), 0.4 + 0.7 − 1.6 = −0.5 (−1), 0.7 (+1)
    assert (found.spikes, found.taken_back) == (4, 0.25)
    assert found.overshoot == pytest.approx((0.4 + 0.8 + 0.4) / 3, abs=1e-6)
    assert raster.record().populations[1].spike_sizes.tolist() == [1, 1, -1, 1]
    plain = Statistics(net.with_neuron(IF()), images=1)
    net.with_neuron(IF()).run(torch.tensor([[0.75, 1.0]]), 4, observers=[plain])
    assert plain.record().of("relu").taken_back is None


def test_graded_spikes_have_no_overshoot():
    net = network(1, threshold=2.0, encode=Constant()).with_neuron(Graded(3))
    statistics, rates = Statistics(net, images=1), Rates(net, images=1)
    net.run(torch.tensor([[1.3]]), 3, observers=[statistics, rates])
    found = statistics.record().of("relu")
    assert (found.spikes, found.overshoot) == (2, None)  # 2.6 quarters of a threshold: two of them, then one
    assert rates.of("relu").reshape(-1).tolist() == [0.75]
