"""Figure 3: the border between two neurons is not at the angular midpoint, and eqs. 1 and 2 say where."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.papers.theory.dominance import Dominance, dominance
from weightsmith.spiking.theory.potential import exceeds, shot_noise

LENGTHS = (0.5, 1.0, 3.0)


@pytest.fixture(scope="module", params=["hard", "soft"])
def found(request):
    return dominance(reset=request.param, lengths=LENGTHS, points=19, duration=20_000.0)


def test_the_neuron_with_the_larger_l4_norm_wins_inputs_closer_to_the_other(found):
    assert found.midpoint == 22.5
    low, middle, high = found.border
    assert low > middle > high
    assert middle > 22.5 + 5  # mean 1, threshold 2
    # At 30° A is nearer, and B fires more all the same, by many standard errors.
    index = int(np.flatnonzero(found.angles == 30.0)[0])
    assert found.lead[0, index] > 5
    assert found.winner[0, index] == 1
    assert found.rates_b[0, index] > found.rates_a[0, index]


def test_above_the_threshold_a_hard_reset_turns_it_round_and_a_soft_one_does_not(found):
    assert found.border[2] < 22.5 if found.reset == "hard" else found.border[2] > 22.5
    assert abs(found.border[2] - 22.5) < 4.0


def test_the_predicted_border_is_where_both_are_equally_often_above_the_threshold(found):
    for length, angle in zip(found.lengths, found.predicted, strict=True):
        rates = length * np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
        moments = shot_noise([[math.sqrt(0.5)] * 2, [1.0, 0.0]], rates, 1.0)
        a, b = exceeds(2.0, *moments)
        assert a == pytest.approx(b, rel=1e-4)
    assert found.predicted[0] == pytest.approx(found.border[0], abs=6)
    assert found.predicted[1] == pytest.approx(found.border[1], abs=6)


def test_winners_follow_the_leads(found):
    assert found.winner.shape == (3, 19)
    assert set(found.winner.ravel()) <= {-1, 0, 1}
    assert (found.winner[found.lead > 2] == 1).all()
    assert (found.winner[found.lead < -2] == -1).all()
    assert (found.winner[np.abs(found.lead) < 2] == 0).all()
    assert np.array_equal(np.sign(found.lead), np.sign(found.rates_b - found.rates_a))


def test_mirrored_neurons_meet_at_45_degrees():
    mirrored = dominance(angle_a=75.0, angle_b=15.0, lengths=[1.0], points=37, duration=10_000.0)
    assert mirrored.midpoint == 45.0
    assert mirrored.predicted[0] == pytest.approx(45.0, abs=0.02)
    assert mirrored.border[0] == pytest.approx(45.0, abs=2.0)


def test_an_axis_input_never_reaches_the_other_axis_neuron():
    crossed = dominance(angle_a=90.0, angle_b=0.0, lengths=[2.0], points=3, duration=500.0)
    assert crossed.rates_b[0, 2] == 0.0
    assert crossed.rates_a[0, 0] == 0.0
    assert crossed.winner[0].tolist()[::2] == [1, -1]


def test_too_few_spikes_have_no_border():
    silent = dominance(lengths=[0.01], points=5, duration=20.0)
    assert silent.border == (None,)
    assert (silent.winner == 0).all()
    assert Dominance.from_json(silent.to_json()) == silent


def test_same_seed_same_record():
    small = {"lengths": [1.0], "points": 5, "duration": 100.0}
    assert dominance(**small) == dominance(**small)
    assert dominance(**small) != dominance(**small, seed=1)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"angle_b": 50.0}, OptionError, "angle_b < angle_a ≤ 90 degrees, not 50.0 and 45.0"),
        ({"angle_a": 91.0}, OptionError, "angle_a ≤ 90 degrees"),
        ({"reset": "none"}, UnknownName, "unknown reset 'none'"),
        ({"lengths": [0.0, 1.0]}, OptionError, "lengths of inputs must be > 0, not 0"),
        ({"lengths": [2.0, 1.0]}, UsageError, "ascending order"),
        ({"points": 2}, OptionError, "points must be ≥ 3, not 2"),
        ({"threshold": 0.0}, OptionError, "thresholds must be > 0, not 0"),
        ({"tau": 0.0}, OptionError, "tau must be > 0, not 0.0"),
        ({"tau": math.inf}, OptionError, "no steady state: give a time, or a finite tau"),
        ({"duration": -1.0}, OptionError, "duration must be > 0 and finite, not -1.0"),
    ],
)
def test_bad_input_is_named(options, kind, message):
    with pytest.raises(kind) as caught:
        dominance(**options)
    assert message in str(caught.value)
