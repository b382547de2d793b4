from __future__ import annotations

import inspect

import pytest

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.sweep import grid
from weightsmith.core.verbs import parameters
from weightsmith.training.loop import train
from weightsmith.training.sweep import NOT_VARIED, train_sweep
from weightsmith.training.sweeping import training_options


def test_every_option_of_train_is_varied_or_named_as_not():
    named = {name for name in parameters(train) if name not in NOT_VARIED}
    read = training_options({"network": "mlp:4", **dict.fromkeys(named)})
    assert named <= set(read)
    assert set(NOT_VARIED) <= set(inspect.signature(train).parameters)


def test_what_is_wrong_is_named_before_the_first_run():
    calls: list[object] = []
    with pytest.raises(UnknownName, match="did you mean 'norm'"):
        train_sweep("digits", grid(clip=["norm:1", "nrm:1"]), network="mlp:4", on_row=calls.append)
    with pytest.raises(OptionError, match="epochs must be a whole number ≥ 1, not 0"):
        train_sweep("digits", grid(epochs=[1, 0]), network="mlp:4", on_row=calls.append)
    assert calls == []


def test_seeds_may_be_text():
    found = train_sweep("digits", grid(rate=[0.1]), network="mlp:4", epochs=1, seeds="3-4")
    assert [row["seed"] for row in found.rows] == [3, 4]
