"""Weights stored in parts, against the modules that compute them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from weightsmith.networks.layers.effective import find_effective
from weightsmith.networks.layers.walk import walk
from weightsmith.networks.weights import Entry

CASES = {
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(6, 5)),
    "weight norm of all": lambda: parametrizations.weight_norm(nn.Linear(6, 5), dim=None),
    "weight norm along columns": lambda: parametrizations.weight_norm(nn.Conv2d(6, 5, 3), dim=1),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)),
    "spectral norm of a transposed one": lambda: parametrizations.spectral_norm(nn.ConvTranspose2d(3, 4, 3)),
    "older spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(7, 4)),
    "pruning": lambda: prune.l1_unstructured(nn.Linear(6, 5), "weight", 0.5),
}


@pytest.mark.parametrize("case", CASES)
def test_state_dict_gives_the_effective_weight(case):
    torch.manual_seed(0)
    module = CASES[case]().eval()
    if case == "older spectral norm":
        module(torch.ones(1, 7))  # that style computes its weight when it is called
    expected = module.weight.detach()
    found = walk(module.state_dict())
    (layer,) = found
    assert layer.name == "weight"
    assert layer.shape == expected.shape
    rebuilt = {2: lambda m: m[0], 4: lambda m: m.permute(1, 2, 0).reshape(m.shape[1], m.shape[2], 3, 3)}
    turned = expected.transpose(0, 1) if layer.kind.startswith("ConvTranspose") else expected
    torch.testing.assert_close(rebuilt[expected.ndim](layer.matrices), turned)
    assert "effective weight" in layer.notes[-1]
    assert found.parameters == sum(parameter.numel() for parameter in module.parameters())


def test_an_unknown_parametrisation_is_said_to_be_unknown():
    entries = {"a.parametrizations.weight.original": Entry("a.parametrizations.weight.original", (3, 2), "float32")}
    (found,) = find_effective(entries).values()
    assert found.name == "a.weight"
    assert "unknown" in found.note


@pytest.mark.parametrize(
    "shapes",
    [
        {"a_v": (3, 2)},  # no length
        {"a_v": (3, 2), "a_g": (2, 2)},  # a length that fits nothing
        {"a_v": (3,), "a_g": (1,)},  # no matrix
        {"a_orig": (3, 2), "a_mask": (2, 3)},
        {"a_orig": (3, 2), "a_u": (5,), "a_v": (2,)},
    ],
)
def test_parts_that_do_not_fit_are_not_joined(shapes):
    assert find_effective({name: Entry(name, shape, "float32") for name, shape in shapes.items()}) == {}
