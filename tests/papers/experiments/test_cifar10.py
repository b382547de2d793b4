from __future__ import annotations

import pytest

from weightsmith.papers.experiments.cifar10 import EXPERIMENT


def planted(sides):
    def row(seed, task, change, rate):
        moved = 0.0 if change == "none" else 0.05 * sides[task] + 0.001 * seed
        return {"test_accuracy": 0.5 + moved, "best_validation_accuracy": 0.5 + rate, "gap": 0.2 - moved}

    return row


@pytest.mark.parametrize(
    ("sides", "verdict"), [((1, 1), "holds"), ((-1, -1), "holds"), ((1, -1), "does not hold"), ((1, 0), "cannot say")]
)
def test_a_change_holds_where_it_goes_to_the_same_side_on_both(verdicts, sides, verdict):
    found = verdicts(EXPERIMENT, planted(dict(zip(("fashion-mnist", "cifar10"), sides, strict=True))), seeds=(-1, 0, 1))
    assert set(found.values()) == {verdict}
