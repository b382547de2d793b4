from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.core.statistics import mcnemar
from weightsmith.spiking.choices import Candidate, Choice, Verdict, front_of, knee_of

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8)


@given(POINTS)
def test_the_front_is_what_nothing_beats(points):
    front = front_of(points)
    for number, (loss, energy) in enumerate(points):
        beaten = any(
            (other_loss <= loss and other_energy <= energy) and (other_loss, other_energy) != (loss, energy)
            for other_loss, other_energy in points
        )
        if number in front:
            assert not beaten
        elif not beaten:
            assert (loss, energy) in [points[each] for each in front]  # its equal is there
    assert all(points[a][1] < points[b][1] for a, b in itertools.pairwise(front))


def test_the_knee_is_where_more_energy_buys_little():
    assert knee_of([(10, 0.0), (4, 0.1), (1, 0.3), (0.9, 0.6), (0.8, 1.0)]) == 2
    assert knee_of([(3.0, 0.5)]) == 0
    assert knee_of([(3.0, 0.5), (4.0, 0.6)]) == 0
    with pytest.raises(UsageError, match="no candidate"):
        knee_of([])


def test_a_choice_comes_back_from_json():
    gain = mcnemar([True, False, True, True], [True, True, True, True])
    one = Candidate("if", "percentile", None, 8, gain, 0.5, None, front=True)
    two = Candidate("graded:5", "percentile", "weights", 2, gain, 0.2, "NIR has no …")
    choice = Choice("within 1 points", 4, (one, two), taken=1, exportable=0, met=False)
    assert Choice.from_json(choice.to_json()) == choice
    assert (choice.chosen.steps, choice.best_exportable.neuron, choice.chosen.loss) == (2, "if", 25.0)
    assert Choice("", 4, (two,), taken=0, exportable=None, met=True).best_exportable is None


@pytest.mark.parametrize(
    ("within", "limit", "held", "open_"),
    [
        (1.0, None, False, True),
        (9.0, None, True, False),
        (2.5, None, True, True),
        (None, 0.5, True, False),
        (9.0, 0.1, False, False),
    ],
)
def test_a_verdict_says_whether_the_wish_held_and_whether_that_is_sure(within, limit, held, open_):
    right = [True] * 100
    gain = mcnemar([*[False] * 2, *[True] * 98], right)
    found = Verdict.of(gain, 0.25, within, limit)
    assert found.loss == pytest.approx(2.0)
    assert found.low < 2.0 < found.high < 9
    assert (found.held, found.open) == (held, open_)
    assert f"on the 100 test rows the wish {'held' if held else 'did not hold'}" in str(found)
    assert ("does not settle" in str(found)) == open_
    assert Verdict.from_json(found.to_json()) == found


def test_a_verdict_has_real_minus_signs():
    told = str(Verdict.of(mcnemar([True] * 100, [False] + [True] * 99), 0.25, 1.0, None))
    assert "−1.0 points lost [−" in told
    assert "-" not in told
