from __future__ import annotations

import numpy as np

from weightsmith.papers.experiments.future_work import EXPERIMENT, _fold, _to_goal


def planted(gain, units):
    def row(seed, features, hidden, method):
        better = gain if method in ("fine-tune", "rewind", "iterate") else 0.0
        return {"units": units(hidden), "accuracy": 0.3 + better + 0.001 * (seed % 3) * (method != "cut")}

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    found = verdicts(EXPERIMENT, planted(0.05, lambda hidden: 25 + hidden // 100), seeds=range(10))
    assert set(found.values()) == {"holds"}
    against = verdicts(EXPERIMENT, planted(-0.05, lambda hidden: hidden // 2), seeds=range(10))
    assert set(against.values()) == {"does not hold"}


def test_the_goal_is_one_size_whatever_the_mask_began_with():
    masks = np.array([[True] * 25 + [False] * 15, [True] * 40, [True] * 20 + [False] * 20])
    assert _to_goal(np.array([50.0, 60.0, 50.0]), masks).tolist() == [50.0, 45.0, 45.0]


def test_a_fold_is_scaled_by_its_training_rows_and_tests_the_others():
    fold = _fold("generated", None, 3)
    train, test = fold.split("train"), fold.split("test")
    assert len(train) + len(test) == 674
    assert np.allclose(train.x.mean(0), 0, atol=1e-5)
    assert not np.allclose(test.x.mean(0), 0, atol=1e-5)
