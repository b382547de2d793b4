from __future__ import annotations

from weightsmith.papers.experiments.stopping import EXPERIMENT


def test_verdicts_follow_what_is_planted(verdicts):
    def as_claimed(seed, depth, width, regularised):
        accuracy = (
            0.8
            + 0.03 * regularised
            + 0.001 * seed * depth * (1 + regularised)
            - 0.02 * (width > 100 and not regularised)
        )
        return {"epochs_run": 20 if regularised else 50, "test_accuracy": accuracy, "train_accuracy": 0.9}

    assert set(verdicts(EXPERIMENT, as_claimed).values()) == {"holds"}

    def larger_is_better(seed, depth, width, regularised):
        return {
            "epochs_run": 50,
            "test_accuracy": 0.6 + width / 1500 + 0.001 * seed * regularised,
            "train_accuracy": 0.9,
        }

    found = verdicts(EXPERIMENT, larger_is_better)
    assert (found["sizes"], found["epochs"]) == ("does not hold", "does not hold")
