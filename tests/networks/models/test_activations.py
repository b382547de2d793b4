from __future__ import annotations

import math

import pytest
import torch

from weightsmith.networks.models.activations import Activation

CLOSED_FORMS = {
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)),
    "tanh": math.tanh,
    "relu": lambda z: max(z, 0.0),
    "leaky-relu": lambda z: z if z > 0 else 0.01 * z,
    "leaky-relu:0.3": lambda z: z if z > 0 else 0.3 * z,
    "elu": lambda z: z if z > 0 else math.exp(z) - 1,
    "elu:0.5": lambda z: z if z > 0 else 0.5 * (math.exp(z) - 1),
    "gelu": lambda z: z * 0.5 * (1 + math.erf(z / math.sqrt(2))),
    "swish": lambda z: z / (1 + math.exp(-z)),
    "selu": lambda z: 1.0507009873554805 * (z if z > 0 else 1.6732632423543772 * (math.exp(z) - 1)),
    "identity": lambda z: z,
}


@pytest.mark.parametrize("text", CLOSED_FORMS)
def test_closed_forms(text):
    grid = torch.linspace(-4, 4, 33, dtype=torch.float64)
    expected = torch.tensor([CLOSED_FORMS[text](z) for z in grid.tolist()], dtype=torch.float64)
    assert torch.allclose(Activation.parse(text).module()(grid), expected, atol=1e-12)


def test_every_activation_has_a_closed_form_here_and_brings_its_initialiser():
    assert {text.partition(":")[0] for text in CLOSED_FORMS} == set(Activation.members)
    fitting = {name: member.initialiser for name, member in Activation.members.items()}
    assert (fitting["relu"], fitting["tanh"], fitting["selu"]) == ("he-normal", "glorot-uniform", "lecun-normal")


@pytest.mark.parametrize(
    ("topic", "theirs", "text"),
    [
        ("keras_layers", "elu", "elu"),
        ("keras_layers", "selu", "selu"),
        ("keras_layers", "sigmoid", "sigmoid"),
        ("keras_layers", "LeakyReLU_layer", "leaky-relu:0.3"),
        ("keras_layers", "leaky_relu", "leaky-relu:0.2"),
        ("torch_layers", "leaky_relu", "leaky-relu"),
    ],
)
def test_each_librarys_meaning_can_be_named(reference, topic, theirs, text):
    vectors = reference(topic)["activations"]
    ours = Activation.parse(text).module()(torch.tensor(vectors["x"], dtype=torch.float64))
    assert ours.tolist() == pytest.approx(vectors[theirs], abs=1e-7)
