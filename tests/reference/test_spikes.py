"""The simulators' spike trains against a neuron written out step by step."""

from __future__ import annotations

import math
from typing import Any

import pytest

LEAKS = {"if_hard": 1.0, "if_soft": 1.0, "lif_hard": 0.875, "lif_soft": 0.875}
PLAIN = ["norse", "sinabs", "snntorch", "spikingjelly"]


def _train(current: list[float], leak: float, soft: bool) -> tuple[str, float]:
    """v ← leak·v + I, a spike beyond 1, reset; and how near the membrane ever came to the threshold."""
    v, digits, margin = 0.0, "", math.inf
    for value in current:
        v = leak * v + value
        margin = min(margin, abs(v - 1))
        spike = v > 1
        digits += str(int(spike))
        if spike:
            v = v - 1 if soft else 0.0
    return digits, margin


@pytest.mark.parametrize("setting", LEAKS)
def test_trains_of_the_plain_neuron(reference: Any, setting: str) -> None:
    vectors = reference("spiking_neurons")
    assert (vectors["threshold"], vectors["leak"]) == (1.0, LEAKS["lif_soft"])
    expected, margin = _train(vectors["current"], LEAKS[setting], setting.endswith("soft"))
    # No float32 simulator can fall on the other side.
    assert margin > 1e-4
    trains = {name: train for name, train in vectors["trains"][setting].items() if name in PLAIN}
    assert len(trains) >= 2
    assert trains == dict.fromkeys(trains, expected)


def test_several_spikes_per_step(reference: Any) -> None:
    vectors = reference("spiking_neurons")
    v, digits = 0.0, ""
    for value in vectors["current"]:
        v += value
        count = max(math.trunc(v), 0)
        digits += str(count)
        v -= count
    assert vectors["trains"]["if_soft"]["sinabs_several_spikes_per_step"] == digits
    assert "2" in digits


@pytest.mark.parametrize("setting", ["if_soft", "lif_soft"])
def test_reset_at_the_next_step(reference: Any, setting: str) -> None:
    """v ← leak·v + I − (last step's spike): the subtracted amount is not leaked, as in the paper's code base."""
    vectors = reference("spiking_neurons")
    v, spike, digits = 0.0, False, ""
    for value in vectors["current"]:
        v = LEAKS[setting] * v + value - spike
        spike = v > 1
        digits += str(int(spike))
    trains = vectors["trains"][setting]
    assert trains["snntorch_reset_delay"] == digits
    # Without leak the two resets are the same neuron; with leak they are not.
    assert (digits == trains["spikingjelly"]) == (setting == "if_soft")


@pytest.mark.parametrize("setting", ["if_soft", "lif_soft"])
def test_second_subtraction_loses_spikes(reference: Any, setting: str) -> None:
    """Above the threshold after its reset, snnTorch subtracts once more before the next test."""
    vectors = reference("spiking_neurons")
    v, digits = 0.0, ""
    for value in vectors["current"]:
        again = v > 1
        v = LEAKS[setting] * v + value - again
        spike = v > 1
        v -= spike - again
        digits += str(int(spike))
    trains = vectors["trains"][setting]
    assert trains["snntorch_no_reset_delay"] == digits
    assert digits != trains["spikingjelly"]


def test_who_fires_at_the_threshold_itself(reference: Any) -> None:
    at_threshold = reference("spiking_neurons")["fires_at_threshold"]
    for setting, simulators in at_threshold.items():
        for name, fires in simulators.items():
            assert fires == name.startswith(("sinabs", "spikingjelly")), (setting, name)
