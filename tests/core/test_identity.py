from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from weightsmith.core.errors import UsageError
from weightsmith.core.identity import check_identity, code_digest, identity_of


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


def documented(text, answer="a"):
    names = {}
    exec(f'def outer():\n    """{text}"""\n    def inner():\n        """{text}"""\n        return "{answer}"\n', names)
    return names["outer"]


def test_docstrings_do_not_count_and_other_texts_do():
    assert code_digest(documented("one")) == code_digest(documented("another"))
    assert identity_of(documented("one")) == identity_of(documented("another"))
    assert code_digest(documented("one", "a")) != code_digest(documented("one", "b"))
    assert code_digest(lambda: "a") != code_digest(lambda: "b")


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


FACTOR = 2


def reads_a_constant(x):
    return FACTOR * x


def calls_another(x):
    return reads_a_constant(x)


def test_slots_count():
    assert identity_of(Slotted(2)) == identity_of(Slotted(2)) != identity_of(Slotted(3))


@pytest.mark.parametrize("function", [reads_a_constant, calls_another])
def test_the_constants_a_function_reads_count_even_through_another_function(function, monkeypatch):
    before = identity_of(function)
    assert identity_of(function) == before
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert identity_of(function) != before


def test_what_is_deep_inside_counts():
    def nested(value):
        for _ in range(12):
            value = [value]
        return functools.partial(with_default, value)

    assert identity_of(nested(1)) != identity_of(nested(2))


def test_a_circle_ends():
    circle = Held(ONE)
    circle.self = circle
    assert identity_of(circle) == identity_of(circle)


def test_a_name_given_by_the_author_stands_for_the_content():
    def fitness(x):
        return x

    fitness.identity = "energy, version 3"
    assert identity_of(fitness).endswith("fitness energy, version 3")
    check_identity("fitness", fitness)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (functools.partial(with_default, torch.Generator()), "torch._C.Generator"),
        (functools.partial(with_default, iter([1])), "list_iterator"),
        (Held(object()), "object"),
    ],
    ids=["generator", "iterator", "object"],
)
def test_what_cannot_be_compared_is_refused_with_the_way_out(function, named):
    with pytest.raises(UsageError, match=rf"fitness uses a .*{named}.*fitness\.identity = "):
        check_identity("fitness", function)


@pytest.mark.parametrize(
    "function",
    [
        F.cross_entropy,
        nn.CrossEntropyLoss(weight=ONE),
        with_default,
        Slotted(2),
        lambda x: x.to(torch.float32),
        None,
        len,
    ],
)
def test_ordinary_callables_pass(function):
    check_identity("loss", function)


SETS = """
from weightsmith.core.identity import identity_of
WORDS = {"one", "two", "three", "four"}
def known(x):
    return x in {"alpha", "beta", "gamma", "delta"} or x in WORDS
print(identity_of(known))
"""


@pytest.mark.slow
def test_sets_are_the_same_in_a_process_with_other_hashes():
    found = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", SETS], capture_output=True, text=True, check=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1
