"""How a target is shared out: which plan is taken when, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.reducing.networks import inputs, network

from weightsmith.core.errors import UsageError
from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.reduce import reduce

QUICK: dict[str, Any] = {"latency": False, "random": 0}


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
    with pytest.raises(UsageError, match="only with a target"):
        reduce(network("mlp"), _data("mlp"), by="angles:45", plan=plan, **QUICK)


def test_rounds_share_out_each_target() -> None:
    options: dict[str, Any] = {"by": "error", "target": "params:0.5", "recover": "iterate:2,epochs=1"}
    record = reduce(network("vgg with bias"), _data("vgg with bias"), **options, **QUICK).record
    assert record.settings["plan"] == "error"
    assert record.reduced.parameters <= 0.5 * record.whole.parameters
