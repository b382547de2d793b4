from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.grading.grade import grade
from weightsmith.grading.plans import alpha_plan
from weightsmith.networks.layer_plan import LayerPlan, norm_plan


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(16, 16, 2), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3))
    made[1].weight.data.zero_()
    return made


@pytest.fixture(scope="module")
def grades(network):
    return grade(network, evidence="none")


def with_alphas(grades, alphas):
    """The same grades with the exponents set; None takes the fit away."""
    layers = [
        dataclasses.replace(layer, fit=None if alpha is None else dataclasses.replace(grades["0"].fit, alpha=alpha))
        for layer, alpha in zip(grades.layers, alphas, strict=True)
    ]
    return dataclasses.replace(grades, layers=tuple(layers))


def test_the_closed_form(grades):
    # α 2, 4, 6 → ratios 0.6, 0.5, 0.4 for 1024, 256 and 256 parameters; the last layer has no fit.
    plan = alpha_plan(with_alphas(grades, [2.0, 4.0, 6.0, None]), 0.5, spread=0.2)
    factor = 0.5 * 1536 / (0.6 * 1024 + 0.5 * 256 + 0.4 * 256)
    assert plan.values == pytest.approx({"0": 0.6 * factor, "1": 0.5 * factor, "2": 0.4 * factor, "3": 0.5})
    assert plan.parameters == {"0": 1024, "1": 256, "2": 256, "3": 48}
    assert plan.unscored == ("3",)
    assert plan.mean == pytest.approx(0.5, abs=1e-12)


def test_a_small_alpha_keeps_more_and_nothing_more_than_all(grades):
    plan = alpha_plan(with_alphas(grades, [3.0, 2.0, 9.0, 5.0]), 0.9, spread=0.8)
    assert 1.0 == plan.values["1"] >= plan.values["0"] >= plan.values["3"] > plan.values["2"]
    assert plan.mean == pytest.approx(0.9, abs=1e-12)


def test_layers_without_a_fit_are_named_and_keep_the_target(grades):
    plan = alpha_plan(grades, 0.3)
    assert plan.unscored == ("1", "3")  # zero, and too small
    assert plan.values["1"] == plan.values["3"] == 0.3


def test_slices_of_a_layer_count_with_their_mean(network):
    sliced = grade(network, evidence="none", conv="slices")
    found = [layer for layer in sliced.layers if layer.name == "0"]
    assert len(found) == 4
    alphas = iter([2.0, 3.0, 4.0, 7.0])  # mean 4
    layers = tuple(
        dataclasses.replace(layer, fit=dataclasses.replace(layer.fit, alpha=next(alphas) if layer.name == "0" else 5.0))
        if layer.fitted
        else layer
        for layer in sliced.layers
    )
    plan = alpha_plan(dataclasses.replace(sliced, layers=layers), 0.5, spread=0.2)
    factor = 0.5 * 1280 / (0.6 * 1024 + 0.4 * 256)
    assert plan.values["0"] == pytest.approx(0.6 * factor)
    assert plan.parameters["0"] == 1024


def test_all_plans_are_comparable_and_know_their_network(network, grades):
    plans = [alpha_plan(grades, 0.4), norm_plan(network, 0.4), LayerPlan.uniform(network, 0.4)]
    assert len({tuple(plan.values) for plan in plans}) == 1
    assert len({tuple(plan.parameters.items()) for plan in plans}) == 1
    assert len({plan.origin.inputs["network"] for plan in plans}) == 1
    assert [plan.mean for plan in plans] == pytest.approx([0.4] * 3, abs=1e-12)
    assert len({plan.source for plan in plans}) == 3
    for plan in plans:
        assert LayerPlan.from_json(plan.to_json()) == plan


def test_a_network_without_any_fit_gets_the_uniform_plan(grades):
    plan = alpha_plan(with_alphas(grades, [None] * 4), 0.5)
    assert set(plan.values.values()) == {0.5}
    assert plan.unscored == ("0", "1", "2", "3")


def test_the_source_names_the_rule_for_the_tail(network):
    assert alpha_plan(grade(network, evidence="none", cut="hill:0.5")).source == "alpha (hill), spread 0.3"


def test_options_out_of_range_are_named(grades):
    with pytest.raises(OptionError, match="keep must be > 0 and ≤ 1, not 2"):
        alpha_plan(grades, 2)
