from __future__ import annotations

import numpy as np

from weightsmith.papers.experiments.dropout import EXPERIMENT, _calibration


def test_verdicts_follow_what_is_planted(verdicts):
    def as_claimed(seed, place, rate):
        accuracy = {"none": 0.80, "last": 0.82, "last three": 0.84, "input too": 0.78, "bagging": 0.83}[
            place
        ] + 0.001 * seed * len(place)
        passes = None if place in ("none", "bagging") else 0.02 + 0.001 * seed
        return {
            "test_accuracy": accuracy,
            "train_accuracy": None if place == "bagging" else 0.99 - 0.3 * rate,
            "calibration": 0.1 + 0.002 * seed,
            "calibration_passes": passes,
            "accuracy_passes": None,
        }

    found = verdicts(EXPERIMENT, as_claimed)
    assert {found[name] for name in ("overfitting", "accuracy", "places", "passes")} == {"holds"}
    assert found["bagging"] != "holds"  # that two things act alike is never proved by a test of their difference


def test_the_calibration_error_is_zero_for_honest_and_large_for_boasting_probabilities():
    right = np.arange(1000) % 2
    half = np.tile([0.5 + 1e-9, 0.5], (1000, 1))
    assert _calibration(half, right) < 1e-6  # says 50 %, is right in 50 %
    sure = np.tile([1.0, 0.0], (1000, 1))
    assert abs(_calibration(sure, right) - 0.5) < 1e-9
