from __future__ import annotations

from weightsmith.papers.experiments.gradients import EXPERIMENT, measure


def test_verdicts_follow_what_is_planted(verdicts):
    def as_claimed(seed, activation, depth, weights, batch_norm):
        ratio = 0.0 if batch_norm else {"sigmoid": -0.6 * depth}.get(activation, 0.0) + depth * (weights - 1) / 2
        return {
            "log_ratio": ratio + 0.01 * seed * depth * weights * len(activation) * (2 - batch_norm),
            "per_layer": 1.0,
            "health": "healthy",
        }

    assert set(verdicts(EXPERIMENT, as_claimed).values()) == {"holds"}
    flat = verdicts(EXPERIMENT, lambda seed, depth, **_: {"log_ratio": 0.1 * (seed * depth % 7), "per_layer": 1.0})
    assert "holds" not in flat.values()


def test_sigmoids_vanish_and_weights_three_times_as_large_explode():
    shared = {"seed": 0, "data": "digits", "path": None, "depth": 20, "batch_norm": False}
    assert measure(activation="sigmoid", weights=1.0, **shared)["log_ratio"] < -8
    assert measure(activation="relu", weights=3.0, **shared)["log_ratio"] > 5
