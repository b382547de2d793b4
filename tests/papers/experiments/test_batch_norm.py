from __future__ import annotations

from weightsmith.papers.experiments.batch_norm import EXPERIMENT


def test_verdicts_follow_what_is_planted(verdicts):
    def as_claimed(seed, batch_norm, initialiser, rate):
        lost = 0.0 if batch_norm else 0.2 * (initialiser != "he-normal") + 0.3 * (rate > 0.3)
        noise = 0.003 * seed * (1 + batch_norm) * (1 + (initialiser == "torch-default"))
        train = 0.9 + 0.08 * (not batch_norm)
        return {"test_accuracy": 0.85 - lost - noise, "train_accuracy": train, "cpu_seconds": 1.0 + batch_norm}

    assert set(verdicts(EXPERIMENT, as_claimed).values()) == {"holds"}

    def without_effect(seed, rate, batch_norm, **_):
        return {"test_accuracy": 0.85 - 0.01 * ((7 * seed + batch_norm) % 3), "train_accuracy": 0.9, "cpu_seconds": 1.0}

    assert "holds" not in verdicts(EXPERIMENT, without_effect).values()
