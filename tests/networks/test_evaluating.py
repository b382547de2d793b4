from __future__ import annotations

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.statistics import wilson


@pytest.fixture(scope="module")
def network():
    return ws.networks.mlp(64, 16, 10, seed=1)


def test_some_rows_of_the_split_are_drawn_by_the_seed(network):
    found = ws.evaluate(network, "digits", test_rows=50, seed=4)
    assert (found.images, found.origin.seed, found.accuracy) == (50, 4, wilson(found.correct, 50))
    assert ws.evaluate(network, "digits", test_rows=50, seed=4) == found
    other = ws.evaluate(network, "digits", test_rows=50, seed=5)
    assert other.origin.inputs["data"] != found.origin.inputs["data"]
    assert ws.evaluate(network, "digits").origin.seed is None  # nothing was drawn


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch": 0}, "batch must be a whole number ≥ 1, not 0"),
        ({"test_rows": 0}, "test_rows must be a whole number ≥ 1, not 0"),
        ({"threads": 0}, "threads must be a whole number ≥ 1, not 0"),
        ({"seed": -1}, "seed must be a whole number ≥ 0, not -1"),
    ],
)
def test_options_have_their_range(network, wrong, message):
    with pytest.raises(OptionError, match=message):
        ws.evaluate(network, "digits", **wrong)


def test_what_is_no_network_is_named():
    with pytest.raises(UsageError, match="evaluate takes a module, a result that holds one, or a file, not Tensor"):
        ws.evaluate(torch.ones(2), "digits")
