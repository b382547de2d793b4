from __future__ import annotations

import pytest
import torch

import weightsmith as ws
from weightsmith.networks.editing.grafting import graft
from weightsmith.networks.held import held_network


@pytest.fixture(scope="module")
def run():
    return ws.train("mlp:12", "digits", epochs=2, schedule=0.05)


def test_a_module_with_a_part_called_network_is_itself():
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = torch.nn.Linear(2, 2)

    module = Wrapped()
    assert held_network(module) is module


def test_every_verb_takes_the_result_of_another(run, tmp_path):
    data = ws.data.load("digits")
    small = ws.reduce(run, data, by="magnitude", target="params:0.8", random=0)
    ws.networks.save(run.network, tmp_path / "net.safetensors")
    smoothed = ws.smooth(tmp_path / "net.safetensors", "count:8")
    for result in (run, small, smoothed):
        network = held_network(result)
        assert ws.evaluate(result, data).accuracy == ws.evaluate(network, data).accuracy
        assert ws.grade(result).origin.inputs == ws.grade(network).origin.inputs
        assert len(ws.distances(result, network).layers) == 2
    spiking = ws.spike(small, data, steps=4, test_rows=20)
    assert spiking.record.origin.inputs["network"] == small.record.result
    assert ws.reduce(small, data, by="magnitude", target="params:0.9", random=0).record.origin.inputs["network"]


def test_a_transfer_is_compared_with_its_parent_layer_by_layer(run):
    grafted = graft(run.network, (1, 8, 8), 2)
    parent = [layer.name for layer in ws.distances(grafted, run.network).layers]
    assert parent == ["base.dense1"]
    assert [layer.name for layer in ws.distances(run.network, grafted).layers] == ["dense1"]
    changed = held_network(grafted)
    with torch.no_grad():
        changed.get_submodule("base.dense1").weight += torch.eye(12, 64)
    assert "base.dense1" in [layer.name for layer in ws.grade(changed, base=run.network).layers]
    found = ws.diff(run.network, changed)
    assert [layer.name for layer in found.layers] == ["dense1"]
