from __future__ import annotations

from weightsmith.papers.experiments.pruning import EXPERIMENT


def test_verdicts_follow_what_is_planted(verdicts):
    def as_the_paper_says(seed, hidden):
        noise = 0.001 * seed
        return {
            "accuracy": 0.22,
            "a15_units": hidden * 0.995,
            "a15_accuracy": 0.22,
            "a15_random": 0.2,
            "a45_units": min(hidden, 28),
            "a45_accuracy": 0.21 - noise,
            "a45_random": 0.2,
            "g0_units": hidden * 0.55,
            "g0_accuracy": 0.24 - noise,
            "g0_random": 0.2 + noise,
            "g50_units": hidden * 0.35,
            "g50_accuracy": 0.23 - noise,
            "g50_random": 0.15 + noise,
        }

    assert set(verdicts(EXPERIMENT, as_the_paper_says).values()) == {"holds"}

    def proportional(seed, hidden):
        row = as_the_paper_says(seed, hidden)
        return {**row, "a45_units": hidden * 0.6, "g50_accuracy": 0.2 + 0.001 * seed, "g50_random": 0.21}

    found = verdicts(EXPERIMENT, proportional)
    assert (found["same-size"], found["seventy-two"], found["gains-fifty"], found["search"]) == (
        "in part",
        "does not hold",
        "does not hold",
        "does not hold",
    )
