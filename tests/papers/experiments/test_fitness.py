from __future__ import annotations

from weightsmith.papers.experiments.fitness import EXPERIMENT


def test_verdicts_follow_what_is_planted(verdicts):
    def as_the_paper_says(seed, per, penalty):
        units = 45 if per == "units" else 60 - penalty / 3
        return {"units": units, "gain": 5.0, "late": 0.0, "settled": 20}

    assert set(verdicts(EXPERIMENT, as_the_paper_says).values()) == {"holds"}

    def by_algebra(seed, per, penalty):
        share = penalty if per == "share" else 100 * penalty
        return {"units": 60 - min(share, 100) / 3, "gain": 5.0, "late": 0.1, "settled": 49}

    found = verdicts(EXPERIMENT, by_algebra)
    assert found == {"no-effect": "does not hold", "grows": "holds", "fifty": "does not hold"}
