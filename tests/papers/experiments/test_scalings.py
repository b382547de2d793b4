from __future__ import annotations

import numpy as np

from weightsmith.papers.experiments.scalings import EXPERIMENT, measure, overlapping_table


def planted(gain, units=28):
    def row(seed, features, scaling, method):
        noise = 0.001 * (seed % 3)
        change = {"whole": 0.0, "angles:45": -gain, "genetic:0": gain, "svm": -gain}.get(method, 0.0)
        return {
            "units": units,
            "accuracy": 0.2 + change + noise * (method not in ("whole", "genetic:50")),
            "train": 0.3,
            "random": 0.2,
        }

    return row


def test_what_the_paper_reports_holds_where_it_is_planted(verdicts):
    found = verdicts(EXPERIMENT, planted(0.015), seeds=range(20))
    assert set(found.values()) == {"holds"}
    against = verdicts(EXPERIMENT, planted(-0.05, units=60), seeds=range(20))
    assert against == {
        "flat": "holds",
        "seventy-two": "does not hold",
        "raises": "does not hold",
        "penalty": "does not hold",
        "svm": "does not hold",
    }


def test_the_table_has_the_paper_s_shape():
    rows, labels = overlapping_table()
    assert rows.shape == (674, 10)
    assert np.bincount(labels).tolist() == [100, 75, 99, 100, 100, 100, 100]


def test_the_machine_sees_the_rows_of_the_fold_only():
    found = [
        measure(seed=seed, features="generated", scaling="zscore", method="svm", epochs=1, repeats=1)["accuracy"]
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]
    assert 0.1 < min(found) < max(found) < 0.5
