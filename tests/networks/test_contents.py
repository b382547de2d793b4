from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.core.errors import UnknownName
from weightsmith.networks.contents import Contents, inspect


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    network = ws.networks.mlp(6, 5, 3, batch_norm="after")
    return ws.save(network, tmp_path_factory.mktemp("n") / "net.safetensors")


def test_every_parameter_is_in_a_layer_or_left_out(file):
    found = inspect(file)
    assert found.in_layers + sum(item.parameters for item in found.left_out) == found.parameters
    assert found.parameters == sum(value.numel() for value in ws.load(file).parameters())
    assert found.network == "mlp:5,batch_norm=after,input_shape=[6],classes=3"
    assert Contents.from_json(found.to_json()) == found


def test_a_pattern_names_layers(file):
    assert [layer.name for layer in inspect(file, layers="out*").layers] == ["output"]
    with pytest.raises(UnknownName):
        inspect(file, layers="conv*")
