from __future__ import annotations

import pytest
import torch

from weightsmith.networks.layers.forms import Form
from weightsmith.networks.layers.pending import Findings, PendingLayer, buffer, layer_name


@pytest.mark.parametrize(
    ("tensor", "layer"),
    [("a.b.weight", "a.b"), ("rnn.weight_hh_l0", "rnn.weight_hh_l0"), ("weight", "weight"), ("a.weights", "a.weights")],
)
def test_layer_name(tensor, layer):
    assert layer_name(tensor) == layer


def test_a_tie_names_the_same_part():
    plan = PendingLayer("a.in_proj_weight.k", Form("Linear"), (2, 2), "float32", 4, lambda: torch.ones(2, 2), part=".k")
    plan.tie("b.in_proj_weight")
    assert plan.tied_with == ["b.in_proj_weight.k"]


def test_what_is_left_counts_unless_said_otherwise():
    findings = Findings()
    findings.leave("a", (3, 2), "reason")
    findings.leave("b", (3, 2), "reason", 0)
    assert [item.parameters for item in findings.left_out] == [6, 0]
    assert buffer("c", (3,)).parameters == 0
