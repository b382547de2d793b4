from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith.core.statistics import Interval
from weightsmith.reporting.sections._reducing_findings import advice, concerns


@pytest.fixture(scope="module")
def reduction():
    """A finished reduction, to be changed by tests."""
    run = ws.train("mlp:24,activation=sigmoid", "digits", optimiser="adam", schedule=0.02, epochs=3)
    return ws.reduce(run, "digits", by="angles:60", latency=False, random=3)


def changed(reduction, **changes):
    return dataclasses.replace(reduction, record=dataclasses.replace(reduction.record, **changes))


def with_change(reduction, low, difference, high):
    interval = Interval(difference, low, high, 0.95, "Bonett-Price")
    cost = dataclasses.replace(reduction.record.measured.cost, difference=difference, interval=interval)
    return changed(reduction, measured=dataclasses.replace(reduction.record.measured, cost=cost))


def test_advice_follows_the_numbers(reduction):
    lost = with_change(reduction, -0.17, -0.12, -0.07)
    assert advice(lost.record, kept=True) == [
        "--recover fine-tune:5: −12.0 points, and nothing was trained after the cut"
    ]
    trained = changed(lost, settings={**lost.record.settings, "recover": "fine-tune:epochs=1"})
    assert "−12.0 points after recovery" in advice(trained.record, kept=True)[0]
    same = with_change(reduction, -0.014, -0.005, 0.004)
    assert advice(same.record, kept=True)[0].startswith(
        "a loss above 1.4 points is excluded at 95 %: an angle above 60°"
    )
    unknown = with_change(reduction, -0.31, -0.25, 0.01)  # a smaller target would be the wrong advice
    assert advice(unknown.record, kept=True)[0] == "more test rows: these 360 rows cannot exclude a loss of 31.0 points"
    few = changed(unknown, settings={**unknown.record.settings, "test_rows": 20})
    assert advice(few.record, kept=True)[0].startswith("--test-rows: these 360 rows cannot exclude")
    assert advice(same.record, kept=False)[-1] == "--out FOLDER: the smaller network was not kept"
    nothing = changed(reduction, reduced=reduction.record.whole)
    assert advice(nothing.record, kept=False)[0].startswith("nothing was removed: an angle above 60°")
    for by, words in (
        ("genetic:50", "penalty above 50"),
        ("pareto:2", "loss above 2"),
        ("magnitude", "--target params:0.5"),
    ):
        shown = advice(changed(same, settings={**same.record.settings, "by": by}).record, kept=True)
        assert words in shown[0]


def test_concerns_name_the_measure(reduction):
    record = reduction.record
    share = record.reduced.macs / record.whole.macs
    bold = dataclasses.replace(record, settings={**record.settings, "target": f"macs:{share / 2}"})
    assert f"{100 * share:.1f} % of the multiply–accumulates are left" in concerns(bold, None)[0]
    easy = dataclasses.replace(record, settings={**record.settings, "target": f"macs:{(1 + share) / 2}"})
    assert concerns(easy, None) == []
