from __future__ import annotations

from weightsmith.papers.experiments.clipping import EXPERIMENT


def test_the_best_threshold_is_chosen_on_validation_rows_and_the_example_is_exact(verdicts):
    def planted(seed, clip, threshold):
        good = (clip, threshold) in {("value", 0.01), ("norm", 0.1)}
        accuracy = 0.1 if clip == "none" else 0.8 + 0.02 * (clip == "norm") * (1 + seed / 10) if good else 0.5
        # The test accuracy of a threshold that does not validate best must not matter.
        return {
            "best_validation_accuracy": accuracy,
            "test_accuracy": accuracy + 0.001 * seed if good or clip == "none" else 0.99,
            "failed": 0,
        }

    assert verdicts(EXPERIMENT, planted) == {"example": "holds", "remedy": "holds", "both": "holds"}

    def alike(seed, clip, threshold):
        return {"best_validation_accuracy": 0.8, "test_accuracy": 0.8 + 0.01 * ((seed * len(clip)) % 3), "failed": 0}

    assert verdicts(EXPERIMENT, alike)["both"] == "cannot say"
