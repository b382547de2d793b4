from __future__ import annotations

from weightsmith.papers.experiments.links import EXPERIMENT


def planted(difference):
    def row(seed, data, link, first):
        change = difference(data, link)
        return {"without": 90.0, "with_it": 90.0 + change + 0.01 * (seed + first)}

    return row


def test_every_link_that_helps_on_both_data_sets_holds(verdicts):
    found = verdicts(EXPERIMENT, planted(lambda data, link: -5 if "accumulates" in link else 2), seeds=range(5))
    assert set(found.values()) == {"holds"}


def test_a_link_that_helps_on_one_only_is_in_part_and_one_that_harms_does_not_hold(verdicts):
    found = verdicts(
        EXPERIMENT, planted(lambda data, link: -2 if "alpha" in link or data == "digits" else 2), seeds=range(5)
    )
    assert found["alpha"] == "does not hold"
    assert {found[name] for name in ("norm", "rewind", "penalty", "lossless")} == {"in part"}


def test_a_loss_of_up_to_a_point_counts_as_none(verdicts):
    found = verdicts(EXPERIMENT, planted(lambda data, link: -0.5), seeds=range(5))
    assert found["lossless"] == "holds"
    assert found["norm"] == "does not hold"
