from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.core.errors import UnknownName
from weightsmith.spiking.contents import SpikingContents, inspect_spiking


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    network = ws.networks.mlp(64, 8, 10, bias=False, seed=0)
    spiking = ws.spike(network, "digits", steps=2, test_rows=4, watch=0, neuron="if", balance="percentile").network
    return spiking, ws.save_spiking(spiking, tmp_path_factory.mktemp("s") / "net.safetensors")


def test_nodes_with_their_weights_and_thresholds(made):
    spiking, file = made
    found = inspect_spiking(file)
    assert [node.name for node in found.nodes] == [node.name for node in spiking.nodes]
    assert found.parameters == 64 * 8 + 8 * 10 == sum(node.parameters for node in found.nodes)
    (population,) = spiking.populations
    (entry,) = [node for node in found.nodes if node.name == population.name]
    assert entry.thresholds == (float(population.threshold.min()), float(population.threshold.max()))
    assert found.neurons == 8
    assert found.network == str(spiking.card.architecture)
    assert found.network.startswith("mlp:8,bias=false")
    assert SpikingContents.from_json(found.to_json()) == found


def test_a_pattern_that_fits_nothing_is_named(made):
    with pytest.raises(UnknownName, match="unknown node 'conv"):
        inspect_spiking(made[1], layers="conv*")
