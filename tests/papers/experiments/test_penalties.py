from __future__ import annotations

from weightsmith.papers.experiments.penalties import EXPERIMENT


def planted(gain, decades):
    def row(seed, penalty, strength):
        moved = 0.001 * seed * (penalty != "none")
        accuracy = 0.8 + (gain if penalty == "stable-rank" and strength == 0.01 else 0.0) + moved
        larger = decades if penalty == "group-lasso" else 0.0
        return {"validated": accuracy, "tested": accuracy, "log_lambda_max": 1 + larger + moved, "alpha": 3 + moved}

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    assert verdicts(EXPERIMENT, planted(0.05, 0.3)) == {"stable-rank": "holds", "group-lambda": "holds"}
    found = verdicts(EXPERIMENT, planted(-0.05, -0.3))
    assert found["group-lambda"] == "does not hold"
    assert verdicts(EXPERIMENT, planted(-0.002, 0.0))["group-lambda"] == "cannot say"
