from __future__ import annotations

import dataclasses

import pytest
import torch

import weightsmith as ws
from weightsmith.chain.tailor import cutting
from weightsmith.chain.tailor.configurations import PruningStep
from weightsmith.chain.tailor.cutting import Cutter
from weightsmith.chain.tailor.rows import divided
from weightsmith.data.tensors import Split
from weightsmith.reducing.budget import divergence


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


def test_a_distilled_cut_comes_nearer_without_a_label(digits_mlp, data):
    network = ws.load(digits_mlp)
    step = PruningStep("error", "params", 0.2, "error")
    taught = dataclasses.replace(step, recover="distill:epochs=6")
    wrong = dataclasses.replace(data, train=Split(data.train.x, data.train.y.flip(0)))
    makers = [Cutter(network, each, seed=0, batch=64, threads=1) for each in (data, wrong)]
    cut, distilled, without = makers[0].cut(step), makers[0].cut(taught), makers[1].cut(taught)
    x = ws.data.load("digits").test.x
    with torch.no_grad():
        before, after = (divergence(network(x), made(x)) for made in (cut, distilled))
    assert after < before
    assert torch.equal(distilled(x), without(x))


def test_the_smallest_cut_is_known_before_anything_is_measured(digits_mlp, data):
    network = ws.load(digits_mlp)
    cutter = Cutter(network, data, seed=0, batch=64, threads=1)
    made = cutter.cut(PruningStep("error", "params", cutter.least("params", 1) + 1e-5, "error"))
    left, whole = (sum(value.numel() for value in each.parameters()) for each in (made, network))
    assert left == pytest.approx(cutter.least("params", 1) * whole)
    assert cutter.least("params", 4) > cutter.least("params", 1)
