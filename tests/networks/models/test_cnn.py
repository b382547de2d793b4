from __future__ import annotations

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import OptionError
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.cnn import Cnn, cnn


def test_blocks_pool_while_there_is_something_to_pool():
    network = cnn(8, 16, 32, 8, input_shape=(1, 8, 8), batch_norm=True, dropout=0.1)
    kinds = [name for name, _ in network.named_children()]
    assert kinds[:4] == ["conv1", "norm1", "act1", "pool1"]
    assert "pool3" in kinds
    assert "pool4" not in kinds  # one pixel is left
    assert network.dense1.in_features == 8
    assert network(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_its_text_form_and_other_widths():
    spec = Architecture.parse("cnn:32,64").fitted((1, 28, 28), 10)
    assert isinstance(spec, Cnn)
    assert spec.widths == (32, 64)
    assert sum(value.numel() for value in spec.build(0).parameters()) == 421_642
    small = spec.resized({"conv2": 40, "dense1": 50})
    assert (small.widths, small.dense) == ((32, 40), (50,))
    with pytest.raises(OptionError, match="channels, height, width"):
        Cnn((8,), input_shape=(64,), classes=2)


def test_it_learns_is_cut_and_converts():
    digits = ws.data.load("digits")
    run = ws.train("cnn:8,16,dense=[32]", digits, epochs=4, seed=1)
    assert ws.evaluate(run.network, digits).accuracy.value > 0.8
    small = ws.reduce(run, digits, by="magnitude", target="params:0.6", latency=False, random=0)
    assert small.record.reduced.parameters < 0.62 * small.record.whole.parameters
    assert str(ws.spike_ready("cnn:8").architecture) == "cnn:8,bias=false,pool=avg"
