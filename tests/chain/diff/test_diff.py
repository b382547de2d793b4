from __future__ import annotations

import copy

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import OptionError, UnknownName


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"test_rows": 0}, OptionError, "test_rows must be a whole number ≥ 1, not 0"),
        ({"batches": []}, OptionError, "batches needs at least 1"),
        ({"repeats": 1}, OptionError, "repeats must be a whole number ≥ 2, not 1"),
        ({"evidence": "some"}, UnknownName, "some"),
        ({"prices": "pounds"}, UnknownName, "pounds"),
        ({"normalise": "imagnet"}, UnknownName, "did you mean 'imagenet'"),
    ],
)
def test_options_are_checked_before_the_networks_are_opened(wrong, error, message):
    with pytest.raises(error, match=message):
        ws.diff("nowhere", "nowhere", **wrong)


def test_both_answer_the_rows_that_evaluate_draws():
    a = ws.networks.mlp(64, 8, 10, seed=0)
    b = copy.deepcopy(a)
    with torch.no_grad():
        b.dense1.weight.mul_(-1)
    found = ws.diff(a, b, "digits", test_rows=50, seed=3, evidence="none", latency=False).accuracy
    assert found.a == ws.evaluate(a, "digits", test_rows=50, seed=3).accuracy
    assert found.b == ws.evaluate(b, "digits", test_rows=50, seed=3).accuracy
