from __future__ import annotations

import numpy as np
import pytest

import weightsmith as ws
from weightsmith.chain.links import keep_by_alpha, live_alpha, live_redundancy, rates_by_alpha, watchers
from weightsmith.core.errors import UnknownName


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def run(digits):
    return ws.train("mlp:30,20", digits, optimiser="adam", schedule=0.01, epochs=3, seed=0)


def test_live_alpha_is_what_grading_says_of_the_weights_after_each_epoch(digits):
    run = ws.train("mlp:30", digits, schedule=0.05, epochs=2, keep=(1, 2), hooks=live_alpha(), seed=0)
    for row in run.history.rows:
        grades = ws.grade(run.checkpoint(row.epoch), evidence="none")
        alphas = {f"alpha/{layer.name}": layer.alpha for layer in grades.layers if layer.alpha is not None}
        assert {**row.extra} == {"alpha": pytest.approx(np.mean(list(alphas.values()))), **alphas}


def test_watching_does_not_change_training(digits):
    plain = ws.train("mlp:30", digits, schedule=0.05, epochs=2, seed=0)
    hooks = [live_alpha(), live_redundancy(digits)]
    assert (
        ws.train("mlp:30", digits, schedule=0.05, epochs=2, hooks=hooks, seed=0).record.network == plain.record.network
    )


def test_live_redundancy_counts_what_angles_would_merge(digits):
    run = ws.train("mlp:30", digits, schedule=0.05, epochs=1, hooks=live_redundancy(digits, angle=40, rows=300), seed=0)
    (site,) = ws.angles(run.network, digits, angle=40, rows=300).record.sites
    assert run.history.rows[0].extra == {"redundant/dense1": 1 - site.left / site.units}
    assert site.left < site.units


def test_keep_ratios_by_alpha_are_those_of_the_grades(run):
    plan = keep_by_alpha(run.network, 0.5)
    assert plan == ws.alpha_plan(ws.grade(run.network, evidence="none"), keep=0.5)


def test_watchers_are_called_by_name_and_each_once(digits):
    assert len(watchers(["alpha", "angles", "alpha"], digits)) == 2
    with pytest.raises(UnknownName, match="did you mean 'alpha'"):
        watchers(["alfa"], digits)


def test_layers_with_a_larger_alpha_get_a_larger_rate_and_a_resumed_run_keeps_them(tmp_path):
    digits = ws.data.load("digits")
    options = {"schedule": 0.05, "epochs": 3, "optimiser": "momentum", "diagnose": False}
    run = ws.train("mlp:48,40,32", digits, hooks=[live_alpha(), rates_by_alpha()], out=tmp_path / "a", **options)
    first = run.history.rows[0].extra
    alphas = {name.removeprefix("alpha/"): value for name, value in first.items() if name.startswith("alpha/")}
    rates = {name.removeprefix("rate/"): value for name, value in first.items() if name.startswith("rate/")}
    assert set(rates) == set(alphas)
    assert (min(rates.values()), max(rates.values())) == pytest.approx((0.5, 1.5))
    assert sorted(rates, key=rates.get) == sorted(alphas, key=alphas.get)

    def interrupt(end):
        if end.row.epoch == 2:
            raise KeyboardInterrupt

    hooks = [live_alpha(), rates_by_alpha()]
    with pytest.raises(KeyboardInterrupt):
        ws.train("mlp:48,40,32", digits, hooks=[*hooks, interrupt], out=tmp_path / "b", **options)
    again = ws.train("mlp:48,40,32", digits, hooks=hooks, out=tmp_path / "b", **options)
    assert again.record.network == run.record.network
    plain = ws.train("mlp:48,40,32", digits, **options)
    assert plain.record.network != run.record.network
    assert plain.history.rows[0].train_loss == run.history.rows[0].train_loss  # they hold from the second epoch on
