"""Distillation from the original network."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

import weightsmith as ws
from weightsmith.data.tensors import Data
from weightsmith.networks.evaluation import scores
from weightsmith.reducing.budget import divergence
from weightsmith.reducing.recovery.distilling import distilled, watched_layers
from weightsmith.reducing.recovery.recover import Distill
from weightsmith.reducing.surgery.removal import plain_cut
from weightsmith.reducing.surgery.sites import Sites, find_sites

QUICK = {"latency": False, "random": 0}


@pytest.fixture(scope="module")
def digits() -> Data:
    return ws.data.load("digits").with_validation(0.2, 0)


@pytest.fixture(scope="module")
def whole(digits: Data) -> torch.nn.Module:
    return ws.train("mlp:40,20", digits, optimiser="adam", schedule=0.01, epochs=8).network.eval()


def _half(network: torch.nn.Module) -> tuple[Sites, dict[str, tuple[int, ...]], torch.nn.Module]:
    found = find_sites(network, torch.zeros(2, 1, 8, 8))
    kept = {site.name: tuple(range(0, site.units, 2)) for site in found.sites}
    return found, kept, plain_cut(network, found.sites, kept).eval()


def test_outputs_come_nearer_to_the_original_on_rows_not_seen(digits: Data, whole: torch.nn.Module) -> None:
    found, kept, cut = _half(whole)
    before = copy.deepcopy(cut.state_dict())
    small = distilled(whole, cut, digits, Distill(1000, epochs=3), watched_layers(found.sites, kept))
    expected = scores(whole, digits.test.x)
    assert divergence(expected, scores(small.network, digits.test.x)) < 0.8 * divergence(
        expected, scores(cut, digits.test.x)
    )
    assert small.after < small.before
    assert all(torch.equal(value, before[name]) for name, value in cut.state_dict().items())  # the cut one is as it was


def test_labels_are_not_read_unless_wanted(digits: Data, whole: torch.nn.Module) -> None:
    found, kept, cut = _half(whole)
    layers = watched_layers(found.sites, kept)
    wrong = dataclasses.replace(digits, train=dataclasses.replace(digits.train, y=digits.train.y.flip(0)))
    runs = [distilled(whole, cut, data, Distill(200), layers).network for data in (digits, wrong)]
    assert all(torch.equal(a, b) for a, b in zip(runs[0].parameters(), runs[1].parameters(), strict=True))
    runs = [distilled(whole, cut, data, Distill(200, labels=1.0), layers).network for data in (digits, wrong)]
    assert not all(torch.equal(a, b) for a, b in zip(runs[0].parameters(), runs[1].parameters(), strict=True))


def test_a_rate_that_ruins_it_leaves_the_cut(digits: Data, whole: torch.nn.Module) -> None:
    found, kept, cut = _half(whole)
    layers = watched_layers(found.sites, kept)
    small = distilled(whole, cut, digits, Distill(200, rate=0.9), layers)
    assert small.rate is None
    assert small.network is cut
    assert small.after == small.before


def test_the_layers_watched_know_what_is_left_of_a_residual_stream() -> None:
    network = ws.networks.build("resnet:8,widths=[4,8,16],shortcut=conv", input_shape=(3, 8, 8), classes=3).eval()
    sites = find_sites(network, torch.zeros(2, 3, 8, 8)).sites
    stream = next(site for site in sites if len(site.writers) > 1)
    kept = {site.name: tuple(range(site.units)) for site in sites} | {stream.name: (0, 2, 3)}
    layers = watched_layers(sites, kept)
    cut = [layer for layer, left in layers.items() if left is not None]
    assert cut
    assert set(cut) <= set(stream.layers)
    assert all(layers[layer].tolist() == [0, 2, 3] for layer in cut)


def test_reduce_distils_without_labels_and_says_so(digits: Data, whole: torch.nn.Module) -> None:
    small = ws.reduce(
        whole,
        digits,
        by="random",
        target="params:0.4",
        refit="none",
        recover="distill:1000,rate=0.01,epochs=8",
        **QUICK,
    )
    (found,) = small.record.recovery
    assert found.improved
    assert found.recovered.value > found.cut.value
    assert any(note.startswith("distillation: rate") for note in small.record.notes)


def test_python_hears_of_a_recovery_that_was_thrown_away(digits: Data, whole: torch.nn.Module) -> None:
    with pytest.warns(ws.TrainingWarning, match=r"stays as it was cut.*try distill"):
        small = ws.reduce(whole, digits, by="magnitude", target="params:0.6", recover="fine-tune:1,rate=5", **QUICK)
    assert not small.record.recovery[0].improved
