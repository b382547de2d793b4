"""How a target is shared out: which plan is taken when, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.reducing.networks import inputs, network

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.reducing.reduce import reduce

QUICK: dict[str, Any] = {"latency": False, "random": 0}


def test_plans_decide_how_much_of_each_layer(digits: Data) -> None:
    run = ws.train("mlp:40,40", digits, epochs=2, schedule=0.05)
    sizes = {"dense1": 2600, "dense2": 1640, "output": 410}
    plan = LayerPlan({"dense1": 0.9, "dense2": 0.3, "output": 1.0}, sizes, "by hand", 0.6)
    small = reduce(run, digits, by="magnitude", plan=plan, **QUICK)
    assert [site.after for site in small.sites] == [36, 12]
    scaled = reduce(run, digits, by="magnitude", plan=plan, target="params:0.4", **QUICK)
    first, second = (site.after for site in scaled.sites)
    assert first / second == pytest.approx(3, rel=0.15)
    by_norm = reduce(run, digits, by="magnitude", plan="norm", target="params:0.5", **QUICK)
    by_alpha = reduce(
        run, digits, by="magnitude", plan=ws.alpha_plan(ws.grade(run.network), 0.5), target="params:0.5", **QUICK
    )
    sizes_found = [item.record.reduced.parameters / item.record.whole.parameters for item in (by_norm, by_alpha)]
    assert all(0.45 < share <= 0.5 for share in sizes_found)
    assert by_norm.record.settings["plan"].startswith("root mean square")
    assert by_alpha.record.settings["plan"].startswith("alpha")


def _data(kind: str) -> Data:
    x = inputs(kind, 60)
    y = torch.arange(60) % 5
    return Data(kind, train=Split(x, y), test=Split(x, y))


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({}, "error"),
        ({"refit": "none"}, "uniform"),
        ({"plan": "uniform"}, "uniform"),
        ({"refit": "none", "plan": "error"}, "error"),
        ({"layers": "dense1"}, "uniform"),  # one site: there is nothing to share out
    ],
)
def test_the_plan_that_is_taken(given: dict[str, Any], taken: str) -> None:
    record = reduce(network("mlp"), _data("mlp"), by="magnitude", target="params:0.7", **given, **QUICK).record
    assert record.settings["plan"] == taken
    assert (record.budget is not None) == (taken == "error")
    assert record.reduced.parameters <= 0.7 * record.whole.parameters


@pytest.mark.parametrize("plan", ["error", "uniform", "norm"])
def test_a_plan_in_words_needs_a_target(plan: str) -> None:
    with pytest.raises(UsageError, match="needs a target"):
        reduce(network("mlp"), _data("mlp"), by="angles:45", plan=plan, **QUICK)


def test_rounds_share_out_each_target() -> None:
    options: dict[str, Any] = {"by": "error", "target": "params:0.5", "recover": "iterate:2,epochs=1"}
    record = reduce(network("vgg with bias"), _data("vgg with bias"), **options, **QUICK).record
    assert record.settings["plan"] == "error"
    assert record.reduced.parameters <= 0.5 * record.whole.parameters
