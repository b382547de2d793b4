from __future__ import annotations

from weightsmith.papers.experiments.adjustment import EXPERIMENT


def planted(gains, kept=0.0):
    def row(seed, variant):
        noise = 0.001 * seed
        return {
            "baseline": 0.7,
            "adjusted": 0.7 + gains[variant] + noise * (1 + len(variant) % 3),
            "kept": 0.7 + kept,
            "factor": 0.3,
            "adjusted_factor": 0.5,
            "smoothing": 1.0,
        }

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    as_claimed = {"first layer": 0.05, "all layers": 0.02, "first layer, by inputs": 0.05}
    assert set(verdicts(EXPERIMENT, planted(as_claimed)).values()) == {"holds"}
    against = {"first layer": -0.02, "all layers": 0.05, "first layer, by inputs": 0.05}
    assert set(verdicts(EXPERIMENT, planted(against, kept=0.01)).values()) == {"does not hold"}
