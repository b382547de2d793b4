from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UnknownName
from weightsmith.core.seeds import torch_stream
from weightsmith.networks.models.initialisers import INITIALISERS, initialise, variance

FACTORS = {  # variance times fan-in, for fan-in 784 and fan-out 300
    "glorot": 2 * 784 / 1084,
    "he": 2.0,
    "lecun": 1.0,
    "torch": 1 / 3,
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_standard_deviations_of_a_dense_layer(name):
    layer = initialise(nn.Linear(784, 300), name, torch_stream(0))
    expected = math.sqrt(FACTORS[name.partition("-")[0]] / 784)
    # The sample deviation of 235,200 draws is within 0.6 % of the true one (four standard errors).
    assert layer.weight.std().item() == pytest.approx(expected, rel=0.006)
    assert abs(layer.weight.mean().item()) < 4 * expected / math.sqrt(784 * 300)
    uniform = not name.endswith("normal")
    assert (layer.weight.abs().max().item() <= math.sqrt(3) * expected * (1 + 1e-6)) == uniform
    assert (layer.bias == 0).all() or name == "torch-default"


@pytest.mark.parametrize(("kind", "shape"), [(nn.Conv1d, 3), (nn.Conv2d, 9), (nn.Conv3d, 27)])
def test_fans_of_convolutions_count_the_kernel(kind, shape):
    layer = initialise(kind(32, 64, 3), "he-normal", torch_stream(0))
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (32 * shape)), rel=0.03)


def test_glorot_counts_the_kernel_on_both_sides():
    layer = initialise(nn.Conv2d(32, 64, 3), "glorot-uniform", torch_stream(0))
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (9 * (32 + 64))), rel=0.03)


def test_buffers_nobody_would_set_are_refused():
    module = nn.Module()
    module.register_buffer("table", torch.ones(3))
    with pytest.raises(UnknownName, match="layer kind to initialise"):
        initialise(nn.Sequential(module), "he-normal", torch_stream(0))


def test_torch_default_is_what_torch_does():
    ours = initialise(nn.Linear(784, 300), "torch-default", torch_stream(0))
    theirs = nn.Linear(784, 300)
    assert ours.weight.std().item() == pytest.approx(theirs.weight.std().item(), rel=0.01)
    assert ours.bias.abs().max().item() == pytest.approx(1 / 28, rel=0.05)
    assert variance("glorot-uniform", 784, 300) ** 0.5 / variance("torch-default", 784, 300) ** 0.5 == pytest.approx(
        2.08, abs=0.01
    )


def test_the_same_stream_gives_the_same_weights_and_global_state_is_left_alone():
    layers = [nn.Linear(5, 5) for _ in range(2)]
    before = torch.random.get_rng_state()
    for name in INITIALISERS:
        first, second = (initialise(layer, name, torch_stream(1)).weight.clone() for layer in layers)
        assert torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())


def test_unknown_names_and_layers_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'he-normal'"):
        initialise(nn.Linear(1, 1), "he-norma", torch_stream(0))
    with pytest.raises(UnknownName, match="'1'.*LSTM"):
        initialise(nn.Sequential(nn.ReLU(), nn.LSTM(2, 2)), "he-normal", torch_stream(0))


@pytest.mark.parametrize("name", [name for name in INITIALISERS if name != "torch-default"])
def test_deviations_are_those_of_keras(reference, name):
    theirs = reference("keras_layers")["initialisers"]["dense_784_300"]
    keras_name = {"lecun": "Lecun"}.get(name.split("-")[0], name.split("-")[0].title()) + name.split("-")[1].title()
    # Keras cuts its normal draws and rescales them to the same deviation; both are samples of 235,200 draws.
    assert variance(name, 784, 300) ** 0.5 == pytest.approx(theirs[keras_name]["std"], rel=0.006)


def test_the_torch_default_is_that_of_torch(reference):
    theirs = reference("torch_layers")["initialisers"]["linear_784_300"]
    assert variance("torch-default", 784, 300) ** 0.5 == pytest.approx(theirs["weight"]["std"], rel=0.006)
