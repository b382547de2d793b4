from __future__ import annotations

import pytest

from weightsmith.papers.experiments.cifar10 import EXPERIMENT


def planted(sides):
    def row(seed, task, change, rate):
        moved = 0.0 if change == "none" else 0.05 * sides[task] + 0.001 * seed
        return {"test_accuracy": 0.5 + moved, "best_validation_accuracy": 0.5 + rate, "gap": 0.2 - moved}

    return row


@pytest.mark.parametrize(
    ("sides", "verdict"), [((1, 1), "holds"), ((-1, -1), "holds"), ((1, -1), "does not hold"), ((1, 0), "cannot say")]
)
def test_a_change_holds_where_it_goes_to_the_same_side_on_both(verdicts, sides, verdict):
    found = verdicts(EXPERIMENT, planted(dict(zip(("fashion-mnist", "cifar10"), sides, strict=True))), seeds=(-1, 0, 1))
    assert set(found.values()) == {verdict}


def test_a_run_that_diverged_counts_as_chance(verdicts):
    """Without a change all runs on one of the two diverge, which any change is better than."""

    def row(seed, task, change, rate):
        diverged = (task, change) == ("fashion-mnist", "none")
        accuracy = None if diverged else 0.5 + 0.05 * (change != "none") + 0.001 * seed * len(change)
        return {"test_accuracy": accuracy, "best_validation_accuracy": accuracy, "gap": 0.2}

    found = verdicts(EXPERIMENT, row, seeds=(-1, 0, 1))
    assert (found["batch-norm"], found["schedules"]) == ("holds", "holds")
    assert found["activations"] == "holds"  # ReLU, which is no change, loses to the other one on both


def test_a_run_that_diverged_has_no_gap_between_training_and_test(verdicts):
    """Dropout diverges on one of the two and makes the gap of 0.05 smaller on the other."""

    def row(seed, task, change, rate):
        gap = (0.01 if change == "dropout" else 0.05) + 0.001 * seed * len(change)
        diverged = (task, change) == ("fashion-mnist", "dropout")
        return {"test_accuracy": 0.5, "best_validation_accuracy": 0.5, "gap": None if diverged else gap}

    assert verdicts(EXPERIMENT, row, seeds=(-1, 0, 1))["dropout"] == "holds"
