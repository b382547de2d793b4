from __future__ import annotations

import dataclasses

import pytest

from weightsmith.chain.tailor.candidates import Candidate, on_front
from weightsmith.chain.tailor.configurations import Configuration, Conversion
from weightsmith.chain.tailor.limits import Limits


def candidate(number=0, distance=0.1, energy=50.0, parameters=100, **more):
    values = {
        "way": Configuration(), "steps": None, "images": 50, "correct": 48, "energy_share": energy / 100,
        "params_share": parameters / 200, "macs": 300, "stage": "cutting", "bytes": 400, "divergence": distance,
    }  # fmt: skip
    return Candidate(number=number, energy=energy, parameters=parameters, **{**values, **more})


def test_the_front_holds_what_no_other_beats_in_all_three():
    near, small, beaten = candidate(0, 0.0, 100.0, 200), candidate(1, 0.2, 10.0, 50), candidate(2, 0.3, 10.0, 50)
    assert on_front([near, small, beaten]) == [near, small]
    assert on_front([]) == []


def test_limits_on_costs_are_missed_by_their_share():
    found = candidate(time=0.8)
    limits = Limits(params=80, macs=300, bytes=200, energy=25.0, time=0.4, accuracy=0.99)
    assert found.excess(limits) == {
        "params": pytest.approx(0.25), "bytes": pytest.approx(1.0), "energy": pytest.approx(1.0),
        "time": pytest.approx(1.0),
    }  # fmt: skip


def test_what_was_not_measured_misses_nothing():
    assert candidate(bytes=None, time=None).excess(Limits(bytes=1, time=0.1)) == {}


def test_a_candidate_of_an_old_record_is_ranked_by_its_wrong_answers():
    old = candidate(divergence=None)
    assert old.distance == pytest.approx(0.04)
    assert old.excess(Limits(accuracy=0.97)) == {"accuracy": pytest.approx(0.01)}
    assert candidate().excess(Limits(accuracy=0.97)) == {}


def test_steps_are_told_once():
    graded = Configuration(None, Conversion("constant", "percentile", 2, None, "graded:5", "weights"))
    assert str(candidate(way=graded, steps=2)) == "graded:5, 2 steps"
    old = Configuration(None, Conversion("constant", "percentile", 8))
    assert str(candidate(way=old, steps=1)) == "spiking, constant, percentile, 1 step"


def test_it_survives_json():
    found = candidate(time=0.5)
    assert Candidate.from_json(found.to_json()) == found
    assert dataclasses.replace(found, time=None) != found
