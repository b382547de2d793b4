from __future__ import annotations

from weightsmith.papers.experiments.exponents import EXPERIMENT, measure


def test_verdicts_follow_what_is_planted(verdicts):
    def world(share, ratio, correlation):
        def planted(seed, network, conv):
            inside = round(200 * share)
            counts = {"spectra": 200, "within_2_5": inside, "within_2_6": inside, "below_2": 200 - inside}
            return {**counts, "median": 3.0, "mean": 3.0, "ratio_median": ratio, "correlation": correlation}

        return planted

    assert verdicts(EXPERIMENT, world(0.97, 1.0, 0.8), seeds=(0,)) == {
        "range": "holds",
        "stable-rank": "holds",
        "two": "cannot say",
    }
    assert verdicts(EXPERIMENT, world(0.65, 0.2, -0.3), seeds=(0,)) == {
        "range": "in part",
        "stable-rank": "does not hold",
        "two": "cannot say",
    }
    assert verdicts(EXPERIMENT, world(0.3, 0.2, 0.8), seeds=(0,))["range"] == "does not hold"


def test_spectra_of_a_small_network_are_counted():
    row = measure(seed=0, network="mlp:64,64", conv="slices")
    assert row["spectra"] == 2  # the output has too few eigenvalues
    assert row["within_2_6"] + row["below_2"] <= row["spectra"]
