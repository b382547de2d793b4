from __future__ import annotations

import pytest
import torch

import weightsmith as ws
from weightsmith.chain.tailor import cutting
from weightsmith.chain.tailor.configurations import PruningStep
from weightsmith.chain.tailor.cutting import Cutter
from weightsmith.chain.tailor.rows import divided


@pytest.fixture(scope="module")
def data():
    return divided(ws.data.load("digits"), rows=300, test_rows=20, seed=0).choosing


def test_sensitivities_are_measured_once_for_all_targets(digits_mlp, data, monkeypatch):
    calls = []
    real = cutting.sensitivities
    monkeypatch.setattr(cutting, "sensitivities", lambda context: calls.append(len(context.x)) or real(context))
    network = ws.load(digits_mlp)
    cutter = Cutter(network, data, seed=0, batch=64, threads=1)
    assert calls == []
    sizes = []
    for keep in (0.7, 0.4):
        made = cutter.cut(PruningStep("error", "params", keep, "error"))
        sizes.append(sum(value.numel() for value in made.parameters()))
    whole = sum(value.numel() for value in network.parameters())
    assert len(calls) == 1
    assert sizes[0] <= 0.7 * whole
    assert sizes[1] <= 0.4 * whole
    assert sizes[1] > 0.3 * whole


def test_it_is_what_reduce_makes_of_the_same_rows(digits_mlp, data):
    network = ws.load(digits_mlp)
    ours = Cutter(network, data, seed=0, batch=256, threads=1).cut(PruningStep("error", "macs", 0.5, "error"))
    theirs = ws.reduce(network, data, by="error", target="macs:0.5", random=0, latency=False).network
    x = data.test.x
    assert torch.equal(ours(x).argmax(1), theirs(x).argmax(1))
    assert torch.allclose(ours(x), theirs(x), rtol=1e-4, atol=1e-3)
