from __future__ import annotations

import numpy as np
import pytest

from weightsmith.core.statistics import rank_correlation
from weightsmith.papers.experiments.cut_cost import EXPERIMENT, _tau


def planted(sign, refitted):
    def row(seed, network, layer):
        cost = (layer * 7 % 10) / 100
        measured = {"alpha": 4 - sign * cost, "angle": 60 + sign * cost, "norm": sign * cost}
        return {"name": f"conv{layer}", "units": 16, "cost": cost, "refitted_cost": refitted(cost, layer), **measured}

    return row


def test_measures_that_order_the_costs_hold_and_those_that_turn_them_do_not(verdicts):
    right = verdicts(EXPERIMENT, planted(1, lambda cost, layer: cost / 10), seeds=(0,))
    assert set(right.values()) == {"holds"}
    wrong = verdicts(EXPERIMENT, planted(-1, lambda cost, layer: cost / 10), seeds=(0,))
    assert set(wrong.values()) == {"does not hold"}


def test_costs_without_any_order_give_no_verdict_and_layers_without_alpha_are_left_out(verdicts):
    assert verdicts(EXPERIMENT, planted(1, lambda cost, layer: 0.0), seeds=(0,))["norm"] == "in part"

    def without(seed, network, layer):
        found = planted(1, lambda cost, layer: cost)(seed, network, layer)
        return {**found, "alpha": None if layer > 1 else found["alpha"]}

    assert verdicts(EXPERIMENT, without, seeds=(0,))["alpha"] == "cannot say"


def test_tau_is_that_of_the_house():
    random = np.random.default_rng(0)
    x, y = random.integers(5, size=12).astype(float), random.normal(size=12)
    assert _tau(x, y) == pytest.approx(rank_correlation(x, y).value)
