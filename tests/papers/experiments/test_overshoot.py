from __future__ import annotations

import numpy as np
import pytest

from weightsmith.papers.experiments.overshoot import EXPERIMENT, simulated


def planted(change):
    def row(seed, reset):
        found = {"overshoot": 0.2, "adjusted_overshoot": 0.2 + change + 0.001 * seed, "rate": 0.1, "adjusted_rate": 0.1}
        return {**found, "noise": 0.3, "adjusted_noise": 0.3 + change + 0.001 * seed}

    return row


def test_less_holds_and_more_does_not(verdicts):
    assert set(verdicts(EXPERIMENT, planted(-0.05)).values()) == {"holds"}
    assert set(verdicts(EXPERIMENT, planted(0.05)).values()) == {"does not hold"}
    assert set(verdicts(EXPERIMENT, planted(-0.001)).values()) == {"cannot say"}


def test_a_constant_current_fires_and_overshoots_as_by_hand():
    """Currents of 0.4 against a threshold of 1: soft reset 2 spikes in 5 steps, 0.2 and 0 above; hard: one in 3."""
    weights, inputs = np.array([[0.4]]), np.array([[1.0]])
    soft, hard = (
        simulated(weights, inputs, threshold=1 - 1e-9, reset=reset, draws=2, steps=5, random=np.random.default_rng(0))
        for reset in ("soft", "hard")
    )
    assert (soft.rate, hard.rate) == pytest.approx((0.4, 0.2))
    assert (soft.overshoot, hard.overshoot) == pytest.approx((0.1, 0.2), abs=1e-6)
    assert soft.noise == 0
