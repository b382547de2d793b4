"""Preparing: every step does what it does alone, in the one order that is right."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.spiking.adjust import L4
from weightsmith.spiking.balance import Percentile
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.mismatch import with_mismatch
from weightsmith.spiking.neurons import IF, LIF, Mismatch
from weightsmith.spiking.preparing import Recipe, calibration_rows, checked_precision, encoding_of, prepare
from weightsmith.spiking.quantise import quantised
from weightsmith.spiking.subject import Subject, read_subject


@functools.cache
def subject() -> Subject:
    """A dense network for inputs at 0.5/0.5, which Poisson spikes can carry."""
    digits = ws.data.load("digits")
    run = ws.train("mlp:24", digits, optimiser="adam", schedule=0.01, epochs=2, normalise="0.5/0.5", seed=1)
    return read_subject(run, digits, images=30, seed=0)


def recipe(**changes: Any) -> Recipe:
    return dataclasses.replace(Recipe(IF(), Constant(), Percentile(), None, None, "float32", 8, 0), **changes)


def thresholds(prepared: Any) -> torch.Tensor:
    return prepared.network.populations[0].threshold


def test_thresholds_are_those_of_the_balance() -> None:
    plain = prepare(subject(), recipe())
    assert plain.adjustment is None
    assert plain.notes == plain.balance.notes
    assert set(plain.balance.thresholds) == {node.name for node in plain.network.populations}
    scaled = prepare(subject(), recipe(balance=Percentile(factor=2.0)))
    assert torch.allclose(thresholds(scaled), 2 * thresholds(plain))


def test_the_adjustment_changes_the_first_weights_alone() -> None:
    plain, changed = (prepare(subject(), recipe(encode=Poisson(), adjust=rule)) for rule in (None, L4(0.5, images=16)))
    same = [
        torch.equal(one.weight, other.weight)
        for one, other in zip(plain.network.synapses, changed.network.synapses, strict=True)
    ]
    assert same == [False, True]
    assert changed.adjustment is not None


def test_rounding_comes_after_balance_and_adjustment() -> None:
    options = {"encode": Poisson(), "adjust": L4(1.0, images=16)}
    whole, rounded = (prepare(subject(), recipe(**options, precision=name)) for name in ("float32", "int8"))
    expected = quantised(whole.network)
    for one, other in zip(rounded.network.synapses, expected.synapses, strict=True):
        assert torch.equal(one.weight, other.weight)
    assert torch.equal(thresholds(rounded), expected.populations[0].threshold)


def test_devices_differ_by_the_seed() -> None:
    spread = Mismatch(0.2, 0.1)
    plain = prepare(subject(), recipe(neuron=LIF(0.9), seed=4))
    varied = prepare(subject(), recipe(neuron=LIF(0.9), seed=4, mismatch=spread))
    expected = with_mismatch(plain.network, spread, 4).populations[0]
    assert expected.leak is not None
    assert torch.equal(thresholds(varied), expected.threshold)
    assert torch.equal(varied.network.populations[0].leak, expected.leak)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"adjust": L4(1.0, images=8)}, "a constant current has no variance to adjust for"),
        ({"mismatch": Mismatch(0.1, leak=0.1)}, "neurons that do not leak have no leak to differ in"),
        (
            {"precision": "int8", "encode": Poisson(), "balance": Percentile(factor=1e-6)},
            "of 24 channels are less than one unit",
        ),
    ],
)
def test_what_the_user_should_know_is_noted(changes: dict[str, Any], note: str) -> None:
    prepared = prepare(subject(), recipe(**changes))
    (told,) = prepared.notes[len(prepared.balance.notes) :]
    assert note in told


def test_the_network_is_the_child_of_the_one_that_came_in() -> None:
    lineage = prepare(subject(), recipe(neuron=LIF(0.9))).network.card.lineage
    assert (lineage.operation, lineage.parent) == ("spike lif:0.9, constant", subject().inputs["network"])


def test_progress_is_that_of_the_balance() -> None:
    told: list[tuple[int, int]] = []
    prepare(subject(), recipe(), lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == told[-1][1]


def test_a_recipe_as_records_keep_it() -> None:
    written = recipe(neuron=LIF(0.9, reset="hard"), adjust=L4(2.0), precision="int8").written()
    assert written == {
        "neuron": "lif:0.9,reset=hard",
        "encode": "constant",
        "balance": str(Percentile()),
        "adjust": str(L4(2.0)),
        "mismatch": None,
        "precision": "int8",
        "steps": 8,
        "seed": 0,
    }


def test_calibration_rows() -> None:
    rows = calibration_rows(100, 30, 5)
    assert torch.equal(rows, rows.unique())
    assert (len(rows), int(rows.min()) >= 0, int(rows.max()) < 100) == (30, True, True)
    assert torch.equal(rows, calibration_rows(100, 30, 5))
    assert not torch.equal(rows, calibration_rows(100, 30, 6))
    assert torch.equal(calibration_rows(20, 30, 5), torch.arange(20))


def test_precisions() -> None:
    assert [checked_precision(name) for name in ("float32", "float64", "int8")] == ["float32", "float64", "int8"]
    with pytest.raises(UsageError, match="precision must be float32, float64 or int8, not 'bf16'"):
        checked_precision("bf16")


def test_a_learning_rate_is_no_encoding() -> None:
    assert encoding_of("poisson:0.5") == Poisson(0.5)
    assert encoding_of(ws.ConstantInput()) == Constant()
    with pytest.raises(UsageError, match=r"is a learning rate; the encoding is ws.ConstantInput\(\), or 'constant'"):
        encoding_of(ws.Constant(0.1))
