from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.spiking.networks import NEURONS, SIGNED

from weightsmith.core.errors import UsageError
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import Card
from weightsmith.spiking.conversion.quantise import quantised
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.network import SpikingNetwork
from weightsmith.spiking.neurons import Graded
from weightsmith.spiking.portable import _module as template
from weightsmith.spiking.portable.export import export_torch


def _network(neuron, encode, *, gate=False):
    draw = torch.Generator().manual_seed(0)

    def weights(*shape):
        return torch.randint(-32, 33, shape, generator=draw) / 64

    start = 0.0 if isinstance(neuron, Graded) else 0.5
    nodes = (
        Synapses("conv.1", INPUT, weights(4, 2, 3, 3), weights(4), padding=(1, 1)),
        Neurons("n.1", "conv.1", torch.tensor([0.5, 1.0, 1.5, 2.0]), start),
        Synapses("conv.2", "n.1", weights(4, 2, 3, 3), weights(4), stride=(1, 1), padding=(1, 1), groups=2),
        Scale("s", "n.1", torch.tensor([0.5, 0.25, 1.0, 1.0])),
        Add("sum", ("conv.2", "s")),
        Neurons("n.2", "sum", torch.ones(4), start),
        Gate("pool", "n.2", (2, 2), (2, 2)) if gate else Pool("pool", "n.2", (2, 2), (2, 2)),
        Flatten("flat", "pool"),
        Synapses("out", "flat", weights(3, 36), weights(3)),
    )
    card = Card(normalisation=Normalisation.parse("0.5,0.25/0.5,0.25"), input_shape=(2, 6, 6))
    return SpikingNetwork(nodes, (2, 6, 6), neuron, encode, card)


_CASES = pytest.mark.parametrize(
    ("neuron", "encode"),
    [
        *((neuron, Constant()) for neuron in (*NEURONS, SIGNED, Graded(3), Graded(6))),
        (SIGNED, Constant(step=0.125)),
        *((neuron, Poisson(0.25)) for neuron in (NEURONS[0], NEURONS[-1], SIGNED)),
    ],
    ids=str,
)


@_CASES
def test_the_module_of_a_network_in_8_bits_gives_every_spike_too(tmp_path, neuron, encode):
    found = quantised(_network(neuron, encode))
    assert any(node.weight.dtype == torch.int8 for node in found.synapses)
    written = export_torch(found, tmp_path / "net.py", steps=6)
    assert written.differ == 0
    assert all(each.ours == each.theirs > 0 for each in written.populations)


@_CASES
def test_the_module_gives_every_spike_of_the_engine(tmp_path, neuron, encode):
    found = export_torch(_network(neuron, encode), tmp_path / "net.py", steps=6)
    assert found.differ == 0
    assert found.scores < 1e-12
    assert all(each.ours == each.theirs > 0 for each in found.populations)
    assert [each.name for each in found.populations] == ["n.1", "n.2"]


@pytest.mark.parametrize("neuron", [NEURONS[0], SIGNED], ids=str)
def test_max_pooling_of_values_travels(tmp_path, neuron):
    whole = _network(neuron, Constant())
    gate = Gate("max", "conv.1", (2, 2), (1, 1), (1, 1))
    first = dataclasses.replace(whole.nodes[1], source="max")
    crop = Pool("crop", "n.1", (2, 2), (1, 1))
    rest = [dataclasses.replace(node, source="crop") if node.source == "n.1" else node for node in whole.nodes[2:4]]
    nodes = (whole.nodes[0], gate, first, crop, *rest, *whole.nodes[4:])
    found = export_torch(dataclasses.replace(whole, nodes=nodes), tmp_path / "net.py", steps=6)
    assert found.differ == 0
    assert all(each.ours == each.theirs > 0 for each in found.populations)


@pytest.mark.parametrize("neuron", [NEURONS[0], SIGNED], ids=str)
def test_max_pooling_travels(tmp_path, neuron):
    assert export_torch(_network(neuron, Constant(), gate=True), tmp_path / "net.py", steps=6).differ == 0


def test_a_threshold_that_is_another_is_seen(tmp_path, monkeypatch):
    """The comparison can fail: the file is run as it was written."""
    text, other = Path(template.__file__).read_text(encoding="utf-8"), tmp_path / "module.py"
    other.write_text(text.replace("membrane > threshold", "membrane > 1.01 * threshold"), encoding="utf-8")
    monkeypatch.setattr(template, "__file__", str(other))
    found = export_torch(_network(SIGNED, Constant()), tmp_path / "net.py", steps=6)
    assert found.differ > 0


def test_the_file_is_short_and_needs_nothing_of_this_package(tmp_path):
    network = _network(SIGNED, Constant())
    export_torch(network, tmp_path / "net.py", steps=2)
    text = (tmp_path / "net.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert "import weightsmith" not in text
    assert "from weightsmith" not in text
    torch.save(torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(1)), tmp_path / "x.pt")
    script = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import net\n"
        "network = net.SpikingModule(sys.argv[1] + '/net.safetensors').double()\n"
        "print(network(torch.load(sys.argv[1] + '/x.pt', weights_only=True), 4)[0].argmax(1).tolist())\n"
        "assert not any(name.startswith('weightsmith') for name in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    expected = network.run(torch.load(tmp_path / "x.pt", weights_only=True), 4, precision="float64").answers[:, -1]
    assert done.stdout.strip() == str(expected.tolist())


def test_other_endings_and_no_steps_are_refused(tmp_path):
    network = _network(SIGNED, Constant())
    with pytest.raises(UsageError, match=r"ends in \.py"):
        export_torch(network, tmp_path / "net.pt")
    with pytest.raises(UsageError, match="at least 1"):
        export_torch(network, tmp_path / "net.py", steps=0)
