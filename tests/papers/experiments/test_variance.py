from __future__ import annotations

from weightsmith.papers.experiments.variance import EXPERIMENT, measure


def test_verdicts_follow_what_is_planted(verdicts):
    pairs = {1: (2.0, 1.0), 2: (0.1, 0.05), 3: (12.0, 3.0), 4: (0.0, 1.0), 5: (0.2, 0.01)}
    assert set(
        verdicts(EXPERIMENT, lambda seed, figure: dict(zip(("first", "second"), pairs[figure], strict=True))).values()
    ) == {"holds"}
    pairs = {1: (1.0, 1.0), 2: (0.05, 0.1), 3: (-2.0, -3.0), 4: (1.0, -1.0), 5: (0.02, 0.01)}
    assert (
        "holds"
        not in verdicts(
            EXPERIMENT, lambda seed, figure: dict(zip(("first", "second"), pairs[figure], strict=True))
        ).values()
    )


def test_figure_four_is_exact():
    row = measure(seed=0, figure=4, effort=0.05)
    assert row["first"] < 1e-9
    assert row["second"] > 0
