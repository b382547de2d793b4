from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.networks.contents import inspect
from weightsmith.reporting.describe import describe
from weightsmith.spiking.contents import inspect_spiking


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def test_layers_and_what_is_left_out_by_its_reason(folder):
    network = ws.networks.mlp(4, 3, 2, batch_norm="after")
    section = describe(inspect(ws.save(network, folder / "n.safetensors")), "n")
    assert section.lead == "2 layers with 18 of 29 parameters (62.07 %)."
    assert [row["layer"] for row in section["Layers"].to_rows()] == ["dense1", "output"]
    left = section["Not in layers"].to_rows()
    assert sum(row["parameters"] for row in left) == 11
    assert dict(section.chips)["network"].startswith("mlp:3")


def test_the_nodes_of_a_spiking_network(folder):
    network = ws.networks.mlp(64, 8, 10, bias=False, seed=0)
    spiking = ws.spike(network, "digits", steps=2, test_rows=4, watch=0, neuron="if", balance="percentile").network
    found = inspect_spiking(ws.save_spiking(spiking, folder / "s.safetensors"))
    section = describe(found, "s")
    assert section.lead == f"{found.neurons} neurons, {found.parameters} weights and biases."
    rows = section["Nodes"].to_rows()
    assert [row["node"] for row in rows] == [node.name for node in spiking.nodes]
    assert any(row["thresholds"] for row in rows)
