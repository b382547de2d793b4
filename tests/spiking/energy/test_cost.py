from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.operations import count_operations
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.energy.cost import Prices, SpikeCost, UnitCounts, estimate, spike_cost
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import IF, LIF, Graded
from weightsmith.spiking.simulation.exits import Margin
from weightsmith.spiking.simulation.reference import Stepper
from weightsmith.spiking.simulation.sources import source_of


def drawn(*shape, seed):
    weight = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    weight[weight.abs() < 0.2] = 0
    return weight


def conv_net(encode=None, neuron=None, pooling=Pool):
    """Two convolutions with a shortcut, pooling, and a dense layer with a bias."""
    return SpikingNetwork(
        (
            Synapses("conv1", INPUT, drawn(4, 2, 3, 3, seed=0), padding=(1, 1)),
            Neurons("relu1", "conv1", torch.full((4,), 1.2), layer="conv1"),
            Synapses("conv2", "relu1", drawn(4, 2, 3, 3, seed=1), padding=(1, 1), groups=2),
            Synapses("same", "relu1", 0.5 * torch.eye(4)[:, :, None, None]),
            Scale("scaled", "relu1", torch.tensor([0.1, 0.0, 0.2, 0.3])),
            Add("sum", ("conv2", "same", "scaled")),
            Neurons("relu2", "sum", torch.full((4,), 1.0), layer="conv2"),
            pooling("pool", "relu2", (2, 2), (2, 2)),
            Flatten("flat", "pool"),
            Synapses("out", "flat", drawn(3, 36, seed=2), torch.tensor([0.1, 0.0, -0.1])),
        ),
        (2, 6, 6),
        neuron or IF(),
        encode or Poisson(),
    )


def rows(images, seed=4):
    return torch.rand(images, 2, 6, 6, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def by_steps(network, x, steps, seed):
    """Accumulates of each layer per step, by putting every node's spikes through weights of 0 and 1."""
    stepper, source = Stepper(network), source_of(network, x, seed, 0)
    state = stepper.begin(len(x))
    names = ("conv1", "conv2", "same", "relu2", "out")
    found = {name: np.zeros(steps, int) for name in names}
    pool = network.node("pool")
    for step in range(steps):
        values, _ = stepper.step(state, source.step(slice(None), step))
        one, two = values["relu1"], values["relu2"]
        # Four spikes in a window are four events; of a gate one leaves.
        windows = values["pool"] if isinstance(pool, Gate) else functional.avg_pool2d(two, 2) * 4
        for name, spikes, options in (
            ("conv1", source.step(slice(None), step).abs(), {"padding": 1}),
            ("conv2", one, {"padding": 1, "groups": 2}),
            ("same", one, {}),
        ):
            pattern = (network.node(name).weight != 0).float()
            found[name][step] = int(functional.conv2d(spikes, pattern, **options).sum())
        found["relu2"][step] = int(one[:, [0, 2, 3]].sum())
        found["out"][step] = int(functional.linear(windows.flatten(1), (network.node("out").weight != 0).float()).sum())
    return found


def by_hand(node, size):
    """Connections of a 3×3 convolution of padding 1: every weight that is not 0 at every place inside the image."""
    found = 0
    for _, _, row, column in (node.weight != 0).nonzero().tolist():
        inside = [1 for y in range(size) for x in range(size) if 0 <= y + row - 1 < size and 0 <= x + column - 1 < size]
        found += len(inside)
    return found


def watched(network, x, steps, **options):
    counts = UnitCounts(network)
    responses = network.run(x, steps, observers=[counts], **options)
    return responses, counts


@pytest.mark.parametrize("pooling", [Pool, Gate])
def test_accumulates_are_those_of_every_single_spike(pooling):
    network, x = conv_net(pooling=pooling), rows(9)
    responses, counts = watched(network, x, 12, seed=3)
    cost = spike_cost(network, responses, counts)
    expected = by_steps(network, x, 12, 3)
    assert cost.basis == "counted"
    assert [layer.name for layer in cost.layers] == ["conv1", "conv2", "same", "relu2", "out"]
    for layer in cost.layers:
        assert expected[layer.name].sum() > 100
        assert np.allclose(layer.accumulates, expected[layer.name].cumsum() / 9, rtol=1e-14)
    spikes = {layer.name: layer.spikes * 9 for layer in cost.layers}
    assert spikes["conv1"] == pytest.approx(responses.inputs_per_step.sum())
    assert spikes["conv2"] == spikes["same"] == spikes["relu2"] == pytest.approx(responses.spikes()["relu1"])
    assert spikes["out"] == pytest.approx(counts.units("pool" if pooling is Gate else "relu2").sum())


def test_energy_by_hand():
    network, x = conv_net(), rows(9)
    responses, counts = watched(network, x, 12, seed=3)
    cost = spike_cost(network, responses, counts)
    events = sum(by_steps(network, x, 12, 3).values())
    macs = sum(by_hand(network.node(name), 6) for name in ("conv1", "conv2"))  # the identity multiplies nothing
    macs += int((network.node("out").weight != 0).sum())
    biases, updates, draws = 2, 144 + 144, 2 * 36
    assert cost.macs == macs
    assert cost.dense == 36 * 4 * 2 * 9 + 36 * 4 * 2 * 9 + 3 * 36
    assert [layer.constants for layer in cost.layers] == [0, 0, 0, 0, biases]
    assert cost.accumulates[-1] == pytest.approx(events.sum() / 9 + 12 * biases)
    assert cost.draws == draws
    per_step = 0.9 * (biases + updates) + 0.79 * draws
    assert cost.energy == pytest.approx(0.9 * events.sum() / 9 + 12 * per_step)
    assert cost.network_energy == pytest.approx(4.6 * macs)
    assert cost.ratio == pytest.approx(cost.energy / cost.network_energy)
    assert np.allclose(cost.curve, 0.9 * events.cumsum() / 9 + per_step * np.arange(1, 13))
    assert sum(cost.layer_energy().values()) == pytest.approx(0.9 * (events.sum() / 9 + 12 * biases))
    assert cost.updates.tolist() == [(144 + 144) * t for t in range(1, 13)]


def test_neurons_cost_unless_they_are_left_out():
    responses, counts = watched(conv_net(), rows(2), 5)
    without = spike_cost(counts.network, responses, counts, Prices(2.0, 10.0, neurons=False))
    counting = spike_cost(counts.network, responses, counts, Prices(2.0, 10.0, neurons=True))
    assert counting.energy - without.energy == pytest.approx(5 * 288 * 2.0)
    leaky = conv_net(neuron=LIF(0.9))
    responses, counts = watched(leaky, rows(2), 5)
    without = spike_cost(leaky, responses, counts, Prices(2.0, 10.0, neurons=False))
    counting = spike_cost(leaky, responses, counts, Prices(2.0, 10.0, neurons=True))
    assert [population.leaking for population in counting.neurons] == [144, 144]
    assert counting.energy - without.energy == pytest.approx(5 * 288 * 10.0)


def test_leaks_of_single_units_are_counted():
    network = conv_net()
    own = torch.ones(4, 6, 6)
    own[1, 2, 3] = 0.9
    nodes = [
        Neurons("relu1", "conv1", torch.ones(4), leak=torch.tensor([1.0, 0.9, 0.8, 1.0])),
        Neurons("relu2", "sum", torch.ones(4), leak=own),
    ]
    changed = network.replaced(nodes)
    responses, counts = watched(changed, rows(2), 3)
    assert [item.leaking for item in spike_cost(changed, responses, counts).neurons] == [72, 1]


def test_a_constant_input_is_multiplied_once_and_added_at_every_step():
    network, x = conv_net(encode=Constant()), rows(4)
    responses, counts = watched(network, x, 7)
    cost = spike_cost(network, responses, counts)
    first = cost.layers[0]
    macs = by_hand(network.node("conv1"), 6)
    assert (first.multiplies_once, first.multiplies_per_step, first.constants) == (macs, 0, 144)
    assert (first.spikes, first.accumulates.tolist()) == (0.0, [0.0] * 7)
    assert cost.basis == "counted"
    assert cost.layer_energy()["conv1"] == pytest.approx(4.6 * macs + 0.9 * 144 * 7)
    assert np.diff(cost.curve).min() >= 0.9 * (144 + 2)  # every step pays for currents


def test_weights_behind_weights_multiply_at_every_step():
    network = SpikingNetwork(
        (
            Synapses("one", INPUT, torch.ones(5, 4)),
            Neurons("relu", "one", torch.ones(5)),
            Synapses("two", "relu", torch.ones(6, 5), torch.ones(6)),
            Synapses("three", "two", torch.ones(3, 6)),
        ),
        (4,),
        IF(),
        Poisson(),
    )
    responses, counts = watched(network, torch.full((3, 4), 0.5), 8)
    two, three = spike_cost(network, responses, counts).layers[1:]
    assert (two.multiplies_per_step, three.multiplies_per_step, three.spikes) == (0, 18, 0.0)
    assert two.constants == 0  # no neurons there: it becomes a constant of the layer behind
    assert spike_cost(network, responses, counts).layer_energy()["three"] == pytest.approx(4.6 * 18 * 8)


def test_macs_are_those_counted_on_the_network():
    module = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 3),
    )
    network = SpikingNetwork(
        (
            Synapses("0", INPUT, module[0].weight.detach(), stride=(2, 2), padding=(1, 1), groups=2),
            Neurons("1", "0", torch.ones(4)),
            Flatten("2", "1"),
            Synapses("3", "2", module[3].weight.detach()),
        ),
        (2, 6, 6),
        IF(),
        Poisson(),
    )
    responses, _ = watched(network, rows(1), 2)
    example, layers = torch.zeros(1, 2, 6, 6), estimate(network, responses).layers
    assert {layer.name: layer.dense for layer in layers} == count_operations(module, example).layers
    assert {layer.name: layer.macs for layer in layers} == count_operations(module, example, zeros=False).layers
    assert layers[0].macs < layers[0].dense


def test_the_estimate_is_marked_and_close():
    network, x = conv_net(), rows(60)
    responses, counts = watched(network, x, 12, seed=3)
    cost, guess = spike_cost(network, responses, counts), estimate(network, responses)
    assert {layer.basis for layer in guess.layers} == {"estimate"}
    assert guess.energy == pytest.approx(cost.energy, rel=0.1)
    assert guess.energy != cost.energy
    assert guess.layers[2].accumulates.tolist() == cost.layers[2].accumulates.tolist()  # every unit reaches one
    mean = float(counts.landings[0].reach[INPUT].mean())
    assert guess.layers[0].accumulates[-1] == pytest.approx(mean * responses.inputs_per_step.sum() / 60)


def test_an_early_exit_saves_what_is_not_run():
    network, x = conv_net(), rows(40)
    full, all_counts = watched(network, x, 50, seed=1)
    early, counts = watched(network, x, 50, seed=1, early=Margin(1.5, least=2))
    assert 2 <= early.ended.min() < 40
    cost = spike_cost(network, early, counts)
    assert cost.run[-1] == pytest.approx(early.ended.mean())
    first, same = cost.layers[0], cost.layers[2]
    assert cost.basis == "counted"
    assert first.spikes == pytest.approx(early.inputs_per_step.sum() / 40)
    assert same.accumulates[-1] == pytest.approx(early.spikes()["relu1"] / 40)  # one accumulate for each true spike
    assert cost.energy < spike_cost(network, full, all_counts).energy
    assert cost.layers[-1].constants * cost.run[-1] == pytest.approx(2 * early.ended.mean())


def test_counts_of_another_run_or_network_are_refused():
    network = conv_net()
    responses, counts = watched(network, rows(6), 9)
    other, _ = watched(network, rows(6, seed=9), 9)
    with pytest.raises(DataMismatch, match=r"not those of this run \(relu1 sent"):
        spike_cost(network, other, counts)
    network.run(rows(6), 9, observers=[counts])  # watched twice
    with pytest.raises(DataMismatch, match="use a new UnitCounts for each run"):
        spike_cost(network, responses, counts)
    with pytest.raises(UsageError, match="belong to another network"):
        spike_cost(conv_net(), responses, counts)
    with pytest.raises(DataMismatch, match="0 for 0 were counted"):
        spike_cost(network, responses, UnitCounts(network))


def test_records_come_back_exactly():
    network = conv_net()
    responses, counts = watched(network, rows(6), 9)
    cost = spike_cost(network, responses, counts, Prices(0.1, neurons=True))
    again = SpikeCost.from_json(cost.to_json())
    assert again == cost
    assert (again.energy, again.prices) == (cost.energy, Prices(0.1).of_run("float32"))
    assert np.array_equal(again.curve, cost.curve)


OLD = """{"images": 2, "steps": 2, "run": {"dtype": "<f8", "shape": [2], "base64": "AAAAAAAA8D8AAAAAAAAAQA=="},
"layers": [{"name": "out", "kind": "synapses", "macs": 40, "spikes": 3.0,
"accumulates": {"dtype": "<f8", "shape": [2], "base64": "AAAAAAAAJEAAAAAAAAA0QA=="}, "constants": 5,
"multiplies_once": 0, "multiplies_per_step": 0, "basis": "counted"}],
"neurons": [{"name": "relu", "layer": "dense", "units": 10, "leaking": 4}],
"prices": {"name": "picojoule", "accumulate": 0.9, "multiply": 4.6, "neurons": false}}"""


def test_an_older_record_says_what_it_said():
    """As version 0.1.0 wrote them: neurons left out, no draws, no memory, no rivals."""
    cost = SpikeCost.from_json(OLD)
    assert cost.curve.tolist() == pytest.approx([0.9 * (10 + 5), 0.9 * (20 + 10)])
    assert (cost.network_energy, cost.ratio) == (pytest.approx(184.0), pytest.approx(27 / 184))
    assert (cost.memory_energy, cost.rivals, cost.dense) == (None, (), 40)
    assert SpikeCost.from_json(cost.to_json()) == cost
    counting = SpikeCost.from_json(OLD.replace('"neurons": false', '"neurons": true'))
    assert counting.energy == pytest.approx(27 + 2 * (4 * 4.6 + 6 * 0.9))  # a leak was a multiplication


def test_integer_runs_have_integer_prices_but_for_what_is_not_rounded():
    for encode, floating in ((Poisson(), False), (Constant(step=1 / 127), False), (Constant(), True)):
        network, x = conv_net(encode=encode), rows(4)
        responses, counts = watched(network, x, 6)
        cost = spike_cost(network, responses, counts, precision="int8")
        assert (cost.prices.ac, cost.prices.mac, cost.prices.numbers) == (0.1, 0.23, "int8")
        first, *others = cost.layers
        assert (first.floating, any(layer.floating for layer in others)) == (floating, False)
        assert bool(first.multiplies_once) == isinstance(encode, Constant)
        multiply, add = (4.6, 0.9) if floating else (0.23, 0.1)
        once = multiply * first.multiplies_once + add * (first.accumulates[-1] + 6 * first.constants)
        added = 0.1 * sum(layer.accumulates[-1] + 6 * layer.constants for layer in others)
        rest = 6 * (0.1 * 288 + 0.79 * cost.draws)
        assert cost.energy == pytest.approx(once + added + rest)
        assert cost.network_energy == pytest.approx(0.23 * cost.macs)
    own = spike_cost(network, responses, counts, Prices(2.0, 10.0), precision="int8")
    assert not any(layer.floating for layer in own.layers)  # prices that are given hold for all layers
    assert own.layer_energy()["conv1"] == pytest.approx(10 * first.multiplies_once + 2 * 6 * first.constants)


def test_the_same_operations_at_other_prices():
    network, x = conv_net(), rows(4)
    responses, counts = watched(network, x, 6)
    cost, whole = (spike_cost(network, responses, counts, precision=each) for each in ("float32", "int8"))
    assert cost.at(Prices(numbers="int8")).energy == pytest.approx(whole.energy)
    assert cost.at(Prices(1.0, 1.0, neurons=False, draw=0)).energy == pytest.approx(float(cost.accumulates[-1]))


def test_a_graded_event_is_a_shift_and_an_addition():
    network, x = conv_net(encode=Constant(), neuron=Graded(3)), rows(4)
    responses, counts = watched(network, x, 6)
    cost = spike_cost(network, responses, counts)
    first, *others = cost.layers
    assert [layer.event for layer in others] == ["graded"] * 4
    assert [layer.constants for layer in cost.layers] == [0] * 5
    assert (first.constants_once, others[-1].constants_once) == (144, 2)  # what never changes comes once
    events = sum(float(layer.accumulates[-1]) for layer in others)
    assert events > 100
    rest = {"float32": (0.9, 4.6), "int8": (0.1, 0.23)}
    for numbers, shift in (("float32", 0.03), ("int8", 0.057)):  # an addition to the exponent, or a real shift
        add, multiply = rest[numbers]
        added = add * (144 + 2 + 6 * 288) + multiply * first.multiplies_once
        assert cost.at(Prices(numbers=numbers)).energy == pytest.approx((shift + add) * events + added)
        doubling = {"float32": 0.03, "int8": 0.13}[numbers]
        sums = 6 * (144 + 3) * (2 * doubling + add)
        ordered = cost.at(Prices(numbers=numbers, shifts="sums"))
        assert cost.summing == 147
        assert ordered.energy == pytest.approx(add * events + added + sums)
        assert sum(ordered.layer_energy().values()) + ordered.neuron_energy[0] == pytest.approx(ordered.energy)
    assert cost.accumulates[-1] == pytest.approx(events + 146)
    assert (conv_net(neuron=IF(signed=True)).neuron.event, Graded(5).levels(2), IF().levels(2)) == ("signed", 33, 3)


def test_counts_have_the_names_of_neurobench():
    network, x = conv_net(encode=Constant()), rows(4)
    responses, counts = watched(network, x, 7)
    cost = spike_cost(network, responses, counts)
    spikes = sum(float(layer.accumulates[-1]) for layer in cost.layers)
    first = by_hand(network.node("conv1"), 6)
    assert cost.neurobench == {"Effective_ACs": spikes, "Effective_MACs": first, "Dense": 7 * cost.dense}


def test_a_network_that_multiplies_nothing_has_no_ratio():
    network = SpikingNetwork(
        (
            Synapses("copy", INPUT, torch.eye(3)),
            Neurons("relu", "copy", torch.full((3,), 0.5)),
            Scale("out", "relu", torch.ones(3)),
        ),
        (3,),
        IF(),
        Poisson(),
    )
    responses, counts = watched(network, torch.ones(2, 3), 4)
    cost = spike_cost(network, responses, counts)
    assert (cost.macs, cost.ratio) == (0, None)
    assert [(layer.name, layer.accumulates[-1]) for layer in cost.layers] == [("copy", 12.0), ("out", 12.0)]
