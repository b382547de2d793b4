from __future__ import annotations

from weightsmith.papers.experiments.schedules import EXPERIMENT


def test_a_schedule_is_compared_at_the_rate_that_validates_best(verdicts):
    def planted(gain):
        def measured(seed, schedule, rate):
            best = {"constant": 0.1, "power": 0.2, "exponential": 0.2, "performance": 0.05}[schedule]
            accuracy = 0.85 + gain * (schedule != "constant") * (1 + 0.1 * seed) - 0.1 * (rate != best)
            return {"best_validation_accuracy": accuracy, "test_accuracy": accuracy, "cpu_seconds": 1.0}

        return measured

    assert verdicts(EXPERIMENT, planted(0.02)) == dict.fromkeys(("schedules", "power", "exponential"), "holds")
    assert verdicts(EXPERIMENT, planted(-0.02))["schedules"] == "does not hold"
    assert verdicts(EXPERIMENT, planted(0.0))["schedules"] == "cannot say"
