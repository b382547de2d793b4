from __future__ import annotations

import numpy as np

from weightsmith.papers.experiments import reuse
from weightsmith.papers.experiments.trained import training_data


def planted(lost, scratch=0.6):
    def row(seed, base, reuse):
        noise = 0.002 * seed * reuse * (1 + (base == "other classes"))
        return {"tested": scratch if base == "from scratch" else 0.8 - lost[base] * (reuse - 1) + noise}

    return row


def test_verdicts_follow_what_is_planted(verdicts):
    as_claimed = {"other classes": 0.0, "shuffled pixels": 0.1}
    assert set(verdicts(reuse.EXPERIMENT, planted(as_claimed)).values()) == {"holds"}
    against = {"other classes": 0.2, "shuffled pixels": 0.0}
    assert set(verdicts(reuse.EXPERIMENT, planted(against, 0.9)).values()) == {"does not hold"}


def test_classes_are_numbered_anew_and_pixels_rearranged_alike():
    data = training_data("digits")
    some = reuse.classes_of(data, range(5, 10))
    assert sorted(set(some.test.y.tolist())) == [0, 1, 2, 3, 4]
    order = np.random.default_rng(0).permutation(some.train.x[0].numel())
    other = reuse.classes_of(data, range(5, 10), order)
    assert np.array_equal(other.train.x.flatten(1)[:, np.argsort(order)], some.train.x.flatten(1))
