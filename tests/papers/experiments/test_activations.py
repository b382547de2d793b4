from __future__ import annotations

from weightsmith.papers.experiments.activations import EXPERIMENT
from weightsmith.papers.experiments.trained import ACTIVATIONS


def test_the_slides_order_holds_where_it_is_planted_and_not_where_it_is_turned(verdicts):
    def ordered(sign):
        def planted(seed, activation, depth):
            place = ACTIVATIONS.index(activation)
            seconds = 1.0 if activation == "relu" else 1.2
            accuracy = 0.8 - sign * 0.03 * place + 0.001 * ((seed * (place + 1)) % 4)
            return {"test_accuracy": accuracy, "train_accuracy": 0.9, "cpu_seconds": seconds}

        return planted

    assert set(verdicts(EXPERIMENT, ordered(1)).values()) == {"holds"}
    turned = verdicts(EXPERIMENT, ordered(-1))
    assert (turned["order"], turned["selu"], turned["saturating"]) == ("does not hold",) * 3
