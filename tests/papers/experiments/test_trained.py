from __future__ import annotations

import numpy as np

from weightsmith.core.records import Origin
from weightsmith.core.sweep import SweepTable
from weightsmith.papers.experiments.trained import means, rows_of, train_row, training_data, values

ROWS = tuple(
    {"rate": rate, "seed": seed, "accuracy": accuracy}
    for rate, seed, accuracy in ((0.1, 0, 0.8), (0.1, 1, None), (1.0, 0, 0.6))
)
TABLE = SweepTable("f", ("rate",), ("rate", "seed", "accuracy"), ROWS, Origin())


def test_a_failed_run_counts_as_what_is_asked():
    assert values(TABLE, "accuracy", 0.1, rate=0.1).tolist() == [0.8, 0.1]
    assert means(TABLE, "accuracy", "rate") == {0.1: np.mean([0.8, 0.1]), 1.0: 0.6}
    assert [row["seed"] for row in rows_of(TABLE, rate=0.1)] == [0, 1]


def test_rows_are_the_first_ones_and_a_run_is_a_row():
    data = training_data("digits", rows=100)
    assert len(data.train) == 100
    assert data.train.y.tolist() == training_data("digits").train.y[:100].tolist()
    row = train_row(data, 0, network="mlp:8", schedule="constant:0.1", epochs=1, batch=20)
    assert row["cpu_seconds"] > 0
    assert 0 <= row["test_accuracy"] <= 1
