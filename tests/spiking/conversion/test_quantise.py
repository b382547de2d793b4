from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.spiking.networks import KINDS, SpikeRecorder, chain, inputs, levels, network, weights

from weightsmith.core.errors import UsageError
from weightsmith.spiking.conversion.quantise import (
    LARGEST,
    check_quantised,
    dequantised,
    floating_nodes,
    quantised,
    units_of,
)
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.neurons import IF, LIF

CAN = ("mlp", "wide mlp", "conv", "eights", "borders", "pools", "gates", "residual", "groups", "units")


def _drawn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _dense(**changes):
    """Two dense layers with biases, of any numbers, in which some fields are changed."""
    nodes = {
        "one": Synapses("one", INPUT, _drawn(7, 20, seed=1), _drawn(7, seed=2)),
        "relu": Neurons("relu", "one", _drawn(7, seed=3).abs() + 2),
        "two": Synapses("two", "relu", _drawn(3, 7, seed=4), _drawn(3, seed=5)),
    }
    return chain([dataclasses.replace(node, **changes.get(name, {})) for name, node in nodes.items()], (20,))


def test_rounding_of_weights_biases_and_thresholds():
    found = _dense()
    whole = quantised(found)
    units = units_of(found)
    for layer, population in (("one", "relu"), ("two", "two")):
        before, after, unit = found.node(layer), whole.node(layer), units[population]
        assert torch.equal(unit, before.weight.double().abs().amax(dim=1) / LARGEST)
        assert after.weight.dtype == torch.int8
        assert torch.equal(after.weight.abs().amax(dim=1), torch.full((len(unit),), 127, dtype=torch.int8))
        assert ((after.weight.double() * unit[:, None] - before.weight).abs() <= unit[:, None] / 2 + 1e-9).all()
        assert torch.equal(after.bias, torch.round(before.bias.double() / unit).float())
    assert torch.equal(whole.node("relu").threshold, torch.round(found.node("relu").threshold / units["relu"]).float())


@pytest.mark.parametrize("kind", CAN)
@pytest.mark.parametrize("encode", [Poisson(), Constant(), Constant(step=1 / 127)], ids=str)
def test_rounded_in_their_old_units_networks_spike_as_in_8_bits(kind, encode):
    found = network(kind, IF(), encode)
    x, kept, reference = inputs(found), SpikeRecorder(), SpikeRecorder()
    whole = quantised(found).run(x, 20, precision="int8", observers=[kept])
    same = dequantised(found).run(x, 20, precision="float64", observers=[reference])
    for name, train in reference.trains.items():  # a membrane at its threshold may be rounded to either side of it
        assert (train != kept.trains[name]).mean() < 0.03
    assert np.corrcoef(whole.scores.ravel(), same.scores.ravel())[0, 1] > 0.99


def test_scores_are_in_the_old_unit():
    found = _dense()
    whole = quantised(found)
    last = whole.nodes[-1]
    assert isinstance(last, Scale)
    assert last.source == "two"
    assert torch.equal(last.factor, units_of(found)["two"].float())
    assert whole.classes == 3


def test_weights_that_are_whole_already_stay():
    """In units of 1/127 of the largest weight these are whole: the very same spikes must come out."""
    generator = torch.Generator().manual_seed(0)

    def whole(*shape):
        weight = torch.randint(-127, 128, shape, generator=generator)
        weight.flatten(1)[:, 0] = 127
        return weight / 64

    nodes = [
        Synapses("conv", INPUT, whole(6, 3, 3, 3), torch.randint(-9, 10, (6,), generator=generator) / 64),
        Neurons("relu", "conv", torch.randint(32, 200, (6,), generator=generator) / 64),
        Flatten("flat", "relu"),
        Synapses("out", "flat", whole(4, 6 * 9)),
    ]
    found = chain(nodes, (3, 5, 5))
    x, plain, kept = inputs(found), SpikeRecorder(), SpikeRecorder()
    expected = found.run(x, 30, precision="float64", path="steps", observers=[plain])
    got = quantised(found).run(x, 30, precision="int8", observers=[kept])
    assert np.array_equal(plain.trains["relu"], kept.trains["relu"])
    assert got.scores == pytest.approx(expected.scores, rel=1e-6)


@pytest.mark.parametrize("kind", CAN)
def test_spikes_stay_nearly_the_same(kind):
    for encode in (None, Constant()):
        found = network(kind, IF(), encode)
        x = inputs(found, 8)
        exact, whole = found.run(x, 40), quantised(found).run(x, 40, precision="int8")
        for name, count in exact.spikes().items():
            assert whole.spikes()[name] == pytest.approx(count, rel=0.03, abs=20)
        assert np.corrcoef(exact.scores.reshape(-1), whole.scores.reshape(-1))[0, 1] > 0.99


def test_the_other_precisions_give_the_same_spikes():
    """Currents are exact in any type: only what leaks may be rounded otherwise, and that only in float32."""
    found = quantised(network("residual", LIF(0.9)))
    keepers = {precision: SpikeRecorder() for precision in ("int8", "float64")}
    for precision, recorder in keepers.items():
        found.run(inputs(found), 30, precision=precision, observers=[recorder])
    assert all(np.array_equal(keepers["int8"].trains[name], train) for name, train in keepers["float64"].trains.items())


def test_averages_become_sums():
    found = network("pools")
    whole = quantised(found)
    assert not any(node.average for node in whole.nodes if isinstance(node, Pool))
    # Behind the average of 2 × 2 the weights are a quarter: units are those of the quarter.
    assert torch.equal(units_of(found)["relu2"], found.node("conv2").weight.double().abs().flatten(1).amax(1) / 4 / 127)
    assert torch.equal(
        whole.node("conv2").weight,
        torch.round(found.node("conv2").weight.double() / 4 / units_of(found)["relu2"][:, None, None, None]).to(
            torch.int8
        ),
    )


def test_all_that_leads_to_a_population_has_one_unit():
    found = network("residual")
    largest = torch.stack(
        [found.node("conv2").weight.double().abs().flatten(1).amax(1), found.node("same").factor.double()]
    ).amax(dim=0)
    assert torch.equal(units_of(found)["relu2"], largest / 127)
    assert torch.equal(
        quantised(found).node("same").factor, torch.round(found.node("same").factor * 127 / largest).float()
    )


def test_constant_currents_keep_their_layer():
    found = network("conv", IF(), Constant())
    whole = quantised(found)
    assert whole.node("conv1") is found.node("conv1")
    assert whole.node("relu1") is found.node("relu1")
    assert floating_nodes(found) == {"conv1"}
    assert floating_nodes(network("conv")) == set()
    assert floating_nodes(network("flattened", IF(), Constant())) == {
        "conv1",
        "flat1",
        "flat0",
        "dense",
        "scale",
        "sum",
    }


def test_whole_inputs_round_the_first_layer_too():
    found = network("conv", IF(), Constant(step=1 / 127))
    whole = quantised(found)
    assert floating_nodes(found) == set()
    assert all(node.weight.dtype == torch.int8 for node in whole.synapses)
    assert torch.equal(whole.node("relu1").threshold, whole.node("relu1").threshold.round())


def test_a_shortcut_from_the_input_needs_whole_inputs():
    """Currents and spikes are added in one unit, which values that are not whole do not have."""
    nodes = [
        ONE,
        RELU,
        Synapses("two", "relu", weights(4, 4, seed=5)),
        Synapses("past", INPUT, weights(4, 4, seed=7)),
        Add("sum", ("past", "two")),
        Neurons("more", "sum", levels(4, seed=6)),
        dataclasses.replace(OUT, source="more"),
    ]
    with pytest.raises(UsageError, match=r"more: constant currents and spikes are added here.*encode=constant:step="):
        quantised(chain(nodes, (4,), encode=Constant()))
    whole, x = quantised(chain(nodes, (4,), encode=Constant(step=1 / 127))), torch.rand(5, 4) - 0.5
    kept, reference = SpikeRecorder(), SpikeRecorder()
    whole.run(x, 9, precision="int8", observers=[kept])
    whole.run(x, 9, precision="float64", path="steps", observers=[reference])
    assert all(np.array_equal(kept.trains[name], train) for name, train in reference.trains.items())


def test_a_unit_without_weights_and_a_tiny_threshold():
    weight = _drawn(7, 20, seed=1)
    weight[2] = 0
    found = _dense(one={"weight": weight}, relu={"threshold": torch.full((7,), 1e-4)})
    whole = quantised(found)
    assert not whole.node("one").weight[2].any()
    assert float(whole.node("relu").threshold.min()) == 1


def test_the_scale_has_a_name_of_its_own():
    """Layers may well be called scores."""
    found = _dense()
    renamed = chain([*found.nodes[:2], dataclasses.replace(found.node("two"), name="scores")], (20,))
    assert quantised(renamed).classes == 3


def _refused(nodes, shape=(4,), **options):
    return chain(nodes, shape, **options)


ONE = Synapses("one", INPUT, weights(4, 4, seed=1))
RELU = Neurons("relu", "one", levels(4, seed=2))
OUT = Synapses("out", "relu", weights(2, 4, seed=3))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            _refused([Neurons("n", INPUT, levels(4, seed=1)), Synapses("o", "n", weights(2, 4, seed=3))]),
            "n: input leads",
        ),
        (_refused([ONE, Flatten("f", "one"), Neurons("relu", "f", levels(4, seed=2)), OUT]), "relu: f leads into it"),
        (_refused([ONE, RELU, OUT, Flatten("end", "out")]), "end: int8 needs a layer of weights at the end"),
        (
            _refused([ONE, RELU, OUT, Scale("end", "out", torch.ones(2))]),
            "end: int8 needs a layer of weights at the end",
        ),
        (
            _refused([ONE, Scale("s", "one", torch.ones(4)), dataclasses.replace(RELU, source="s"), OUT]),
            "one: its values reach other weights before any neuron",
        ),
        (
            _refused([ONE, RELU, Scale("s", "relu", torch.ones(4)), dataclasses.replace(OUT, source="s")]),
            "s: its values reach other weights before any neuron",
        ),
        (
            _refused(
                [
                    ONE,
                    RELU,
                    Synapses("two", "relu", weights(4, 4, seed=5)),
                    Add("sum", ("one", "two")),
                    Neurons("more", "sum", levels(4, seed=6)),
                    dataclasses.replace(OUT, source="more"),
                ]
            ),
            "one: several nodes read its values",
        ),
        (
            _refused(
                [
                    ONE,
                    RELU,
                    Synapses("two", "relu", weights(4, 4, seed=5)),
                    Add("sum", ("one", "two")),
                    Neurons("more", "sum", levels(4, seed=6)),
                    dataclasses.replace(OUT, source="more"),
                ],
                encode=Constant(),
            ),
            "more: constant currents and spikes are added here",
        ),
    ],
)
def test_networks_that_8_bits_cannot_hold(found, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        quantised(found)


def test_an_average_without_weights_behind_it():
    pool = [
        Synapses("conv", INPUT, weights(2, 2, 1, 1, seed=1)),
        Neurons("relu", "conv", levels(2, seed=2)),
        Pool("mean", "relu", (2, 2), (2, 2)),
        Neurons("again", "mean", levels(2, seed=3)),
        Flatten("flat", "again"),
        Synapses("out", "flat", weights(2, 8, seed=4)),
    ]
    with pytest.raises(UsageError, match="again: it reads an average without weights"):
        quantised(chain(pool, (2, 4, 4)))


def test_runs_of_what_is_not_quantised_are_refused():
    found = network("mlp")
    with pytest.raises(UsageError, match=r"one: int8 runs need weights of 8 bits: convert with precision='int8'"):
        found.run(inputs(found), 3, precision="int8")
    check_quantised(quantised(found))
    large = quantised(found).replaced([dataclasses.replace(found.node("two"), weight=torch.full((100, 17), 128.0))])
    with pytest.raises(UsageError, match="two: int8 runs need weights of 8 bits"):
        check_quantised(large)
    mean = quantised(network("pools"))
    mean = mean.replaced([dataclasses.replace(mean.node("mean"), average=True)])
    with pytest.raises(UsageError, match="mean: int8 runs need sums in place of averages"):
        check_quantised(mean)


@pytest.mark.parametrize("kind", KINDS)
def test_the_network_itself_stays(kind):
    found = network(kind)
    before = [node.weight.clone() for node in found.synapses]
    try:
        quantised(found)
    except UsageError:
        assert kind not in CAN
    assert all(torch.equal(old, node.weight) for old, node in zip(before, found.synapses, strict=True))
