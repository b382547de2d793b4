from __future__ import annotations

from weightsmith.papers.experiments.group_lasso import EXPERIMENT, measure


def test_verdicts_follow_what_is_planted(verdicts):
    def world(grown, change):
        def planted(seed, layer, **_):
            after = 2.0 if layer < grown else 0.5
            gone = layer >= 20
            row = {"before_lambda_max": 1.0, "before_norm": 1.0, "before_alpha": 3.0 + 0.01 * layer}
            return {
                **row,
                "after_lambda_max": None if gone else after,
                "after_norm": None if gone else after,
                "after_alpha": None if gone else 3.0 + change + 0.02 * layer,
            }

        return planted

    assert verdicts(EXPERIMENT, world(5, 0.5), seeds=(0,)) == {
        "grows": "holds",
        "alpha-steady": "does not hold",
        "alpha-smaller": "holds",
    }
    found = verdicts(EXPERIMENT, world(1, -1.0), seeds=(0,))
    assert (found["grows"], found["alpha-smaller"]) == ("does not hold", "does not hold")


def test_a_layer_beyond_the_last_has_no_values():
    row = measure(seed=0, before="mlp:64", after="mlp:64", layer=5)
    assert set(row.values()) == {None}
