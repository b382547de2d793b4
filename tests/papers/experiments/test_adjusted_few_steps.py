from __future__ import annotations

from weightsmith.papers.experiments.adjusted_few_steps import EXPERIMENT


def planted(gain):
    def row(seed, steps):
        noise = 0.0005 * (seed % 3)
        return {
            "network": 0.86,
            "plain": 0.80,
            "adjusted": 0.80 + gain + noise,
            "calibrated": 0.82,
            "factor": 1.0,
            "adjusted_factor": 1.0,
            "smoothing": 1.0,
        }

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    assert set(verdicts(EXPERIMENT, planted(0.02)).values()) == {"holds"}
    assert set(verdicts(EXPERIMENT, planted(-0.02)).values()) == {"does not hold"}
    assert verdicts(EXPERIMENT, planted(0.005)) == {"beside": "holds", "instead": "does not hold"}
