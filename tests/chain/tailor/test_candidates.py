from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.chain.tailor.candidates import Candidate, on_front, stairs
from weightsmith.chain.tailor.configurations import Configuration, Conversion
from weightsmith.chain.tailor.limits import Limits


def candidate(number=0, correct=90, energy=10.0, parameters=100, *, way=None, steps=None):
    return Candidate(
        number=number,
        way=Configuration() if way is None else way,
        steps=steps,
        images=100,
        correct=correct,
        energy=energy,
        energy_share=energy / 100,
        parameters=parameters,
        params_share=parameters / 1000,
        macs=10,
        stage="whole",
    )


def beats(a, b):
    """The definition: no worse in all, better in one."""
    no_worse = a.correct >= b.correct and a.energy <= b.energy and a.parameters <= b.parameters
    return no_worse and (a.correct, a.energy, a.parameters) != (b.correct, b.energy, b.parameters)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6), st.integers(1, 4)), max_size=25))
def test_the_front_is_what_nothing_beats(values):
    found = [candidate(index, *each) for index, each in enumerate(values)]
    expected = [one for one in found if not any(beats(other, one) for other in found)]
    assert [one.number for one in on_front(found)] == [one.number for one in expected]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=40))
def test_stairs_are_the_steps_that_no_other_beats(steps):
    correct = np.array([right for right, _ in steps])
    energy = np.cumsum([more for _, more in steps]).astype(float)
    found = stairs(correct, energy)
    taken = [point.steps - 1 for point in found]
    for index in range(len(steps)):
        better = (correct >= correct[index]) & (energy <= energy[index])
        strictly = better & ((correct > correct[index]) | (energy < energy[index]))
        if index in taken:
            assert not strictly.any()
            assert (found[taken.index(index)].correct, found[taken.index(index)].energy) == (
                correct[index],
                energy[index],
            )
        else:  # beaten, or the same as one with fewer steps
            assert strictly.any() or any(
                (correct[t], energy[t]) == (correct[index], energy[index]) for t in taken if t < index
            )
    assert [point.correct for point in found] == sorted({point.correct for point in found})


def test_a_candidate_tells_its_accuracy_and_what_it_misses():
    found = candidate(correct=81, energy=30.0, parameters=200)
    assert found.share == 0.81
    assert found.error == pytest.approx(np.sqrt(0.81 * 0.19 / 100))
    assert found.accuracy.low < 0.81 < found.accuracy.high
    assert found.excess(Limits(accuracy=0.9, energy=20.0, params=200)) == {
        "accuracy": pytest.approx(0.09),
        "energy": pytest.approx(0.5),
    }
    assert Candidate.from_json(found.to_json()) == found


def test_a_spiking_candidate_says_after_how_many_steps():
    way = Configuration(None, Conversion("constant", "percentile", 16))
    assert str(candidate(way=way, steps=1)) == "spiking, constant, percentile, 1 step"
    assert str(candidate(way=way, steps=7)) == "spiking, constant, percentile, 7 steps"
    assert str(candidate()) == "whole"


def test_an_empty_front():
    assert on_front([]) == []
