"""Figure 5: the threshold a sweeping neuron needs follows its variance for this input, not its L4 norm alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.papers.theory.threshold import ThresholdSweep, threshold_sweep
from weightsmith.spiking.theory.firing import count_spikes, poisson_train


@pytest.fixture(scope="module")
def found():
    return threshold_sweep(points=9, duration=20_000.0, repeats=4)


def at(found, degrees):
    return int(np.flatnonzero(np.isclose(found.angles, degrees))[0])


def test_the_sweep_begins_and_ends_at_the_static_threshold(found):
    assert found.needed[0] == pytest.approx(2.0, abs=2e-3)
    assert abs(found.needed[-1] - 2.0) < 5 * found.error[-1] + 0.01
    assert_allclose(found.by_norms[[0, -1]], 2.0, rtol=1e-14)
    assert_allclose(found.by_l4[[0, -1]], 2.0, rtol=1e-12)
    assert_allclose(found.by_moments[[0, -1]], 2.0, rtol=1e-12)


def test_one_l4_norm_needs_two_thresholds(found):
    early, late = at(found, 22.5), at(found, 67.5)
    assert found.l4_norms[early] == pytest.approx(found.l4_norms[late], rel=1e-12)
    gap = found.needed[early] - found.needed[late]
    assert gap > 0.08
    assert gap > 5 * math.hypot(found.error[early], found.error[late])


def test_the_variance_of_the_input_predicts_better_than_the_norm(found):
    of_moments, of_norm = (np.abs(found.needed - values) for values in (found.by_moments, found.by_l4))
    assert of_moments.max() < 0.04
    assert of_norm[at(found, 67.5)] > 0.07
    assert (of_moments**2).mean() < 0.2 * (of_norm**2).mean()


def test_predictions_in_closed_form(found):
    theta = np.radians(found.angles)
    # The mean of both neurons is cos(θ/2); λ·w∘w is cos²θ·cos(θ/2) + sin²θ·sin(θ/2) against cos(θ/2).
    mean = np.cos(theta / 2)
    ratio = np.sqrt(np.cos(theta) ** 2 + np.sin(theta) ** 2 * np.tan(theta / 2))
    norm = (np.cos(theta) ** 4 + np.sin(theta) ** 4) ** 0.25
    assert_allclose(found.means, mean, rtol=1e-12)
    assert_allclose(found.by_moments, mean + ratio * (2 - mean), rtol=1e-12)
    assert_allclose(found.by_l4, mean + norm * (2 - mean), rtol=1e-12)
    assert_allclose(found.by_norms, 1 + norm, rtol=1e-12)
    assert_allclose(np.linalg.norm(found.inputs, axis=1), 1.0, rtol=1e-14)


def test_the_static_neuron_fires_at_the_rate_of_a_run_of_its_own(found):
    index = at(found, 45.0)
    train = poisson_train(found.inputs[index], 50_000.0, seed=99)
    spikes = int(count_spikes(train, [[1.0, 0.0]], 1.0, 2.0).sum())
    assert found.rates[index] * 50_000 == pytest.approx(spikes, abs=6 * math.sqrt(2 * spikes))


def test_a_soft_reset_shows_the_same_loop():
    soft = threshold_sweep(points=5, duration=10_000.0, repeats=2, reset="soft")
    assert soft.needed[1] - soft.needed[3] > 0.05
    assert ThresholdSweep.from_json(soft.to_json()) == soft


def test_same_seed_same_record():
    small = {"points": 3, "duration": 200.0, "repeats": 2}
    assert threshold_sweep(**small) == threshold_sweep(**small)
    assert threshold_sweep(**small) != threshold_sweep(**small, seed=1)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"length": 0.0}, OptionError, "length of the input must be > 0 and finite, not 0.0"),
        ({"repeats": 1}, OptionError, "repeats and points must be ≥ 2, not 1 and 37"),
        ({"points": 1}, OptionError, "repeats and points must be ≥ 2, not 4 and 1"),
        ({"reset": "soft-ish"}, UnknownName, "unknown reset 'soft-ish'"),
        ({"threshold": -1.0}, OptionError, "thresholds must be > 0, not -1"),
        ({"tau": math.inf}, OptionError, "no steady state: give a time, or a finite tau"),
    ],
)
def test_bad_input_is_named(options, kind, message):
    with pytest.raises(kind) as caught:
        threshold_sweep(**options)
    assert message in str(caught.value)
