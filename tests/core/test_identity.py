from __future__ import annotations

import functools
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weightsmith.core.identity import code_digest, identity_of


def scaled(factor):
    return lambda x: factor * x


def with_default(x, factor=2):
    return factor * x


class Held:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, x):
        return x @ self.weights

    def method(self, x):
        return x


ONE, TWO = torch.tensor([1.0]), torch.tensor([2.0])


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: scaled(2), lambda: scaled(3)),
        (lambda: functools.partial(with_default, factor=2), lambda: functools.partial(with_default, factor=3)),
        (lambda: functools.partial(with_default, ONE), lambda: functools.partial(with_default, TWO)),
        (lambda: nn.CrossEntropyLoss(weight=ONE), lambda: nn.CrossEntropyLoss(weight=TWO)),
        (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), lambda: nn.CrossEntropyLoss(label_smoothing=0.2)),
        (lambda: Held(ONE), lambda: Held(TWO)),
        (lambda: Held(ONE).method, lambda: Held(TWO).method),
        (lambda: F.cross_entropy, lambda: F.nll_loss),
        (lambda: lambda x: x + 1, lambda: lambda x: x + 2),
    ],
    ids=["closure", "keywords", "arguments", "buffers", "attributes", "object", "method", "functions", "lambdas"],
)
def test_alike_if_made_alike_and_not_otherwise(make, other):
    assert identity_of(make()) == identity_of(make())
    assert identity_of(make()) != identity_of(other())


def test_default_values_count():
    before = identity_of(with_default)
    with_default.__defaults__, kept = (5,), with_default.__defaults__
    try:
        assert identity_of(with_default) != before
    finally:
        with_default.__defaults__ = kept


def test_the_name_is_readable():
    assert identity_of(F.cross_entropy).startswith("torch.nn.functional.cross_entropy ")
    assert identity_of(nn.CrossEntropyLoss()).startswith("torch.nn.modules.loss.CrossEntropyLoss ")


PROGRAM = """
import torch, functools
from torch import nn
from weightsmith.core.identity import identity_of
def scaled(factor):
    return lambda x: factor * x
print(identity_of(scaled(2)), identity_of(nn.CrossEntropyLoss(weight=torch.tensor([1.0]))))
"""


@pytest.mark.slow
def test_another_process_finds_the_same():
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True) for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout != ""


def test_code_without_a_callable_behind_it_has_no_digest():
    assert code_digest(len) is None
    assert code_digest(functools.partial(with_default, 1)) == code_digest(with_default)
