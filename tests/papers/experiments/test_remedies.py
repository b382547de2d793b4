from __future__ import annotations

from weightsmith.papers.experiments.remedies import EXPERIMENT


def planted(gains, epochs):
    def row(seed, base, arm, images, rate):
        return {
            "tested": 0.8 + gains.get((arm, images), 0.0) + 0.001 * seed * (arm != "kept"),
            "validated": 0.9,
            "epochs_to": epochs.get(base, 10) + seed + (seed == 1 and base == "other classes") + (rate == 0.1),
        }

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    gains = {("drop", 100): 0.05, ("replace", 1_000): 0.05, ("add", 1_000): 0.05}
    found = verdicts(EXPERIMENT, planted(gains, {"other classes": 3}))
    assert found == {"remedies": "holds", "faster": "holds"}
    half = verdicts(EXPERIMENT, planted(gains | {("add", 1_000): -0.05}, {"other classes": 20}))
    assert half == {"remedies": "in part", "faster": "does not hold"}
    elsewhere = verdicts(EXPERIMENT, planted({("drop", 1_000): 0.05}, {}))
    assert elsewhere["remedies"] != "holds"
