from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from weightsmith.core.statistics import Interval
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Status, Verdict, VerdictKind
from weightsmith.reporting.sections._grading_words import settings_words, verdict_words


@pytest.fixture(scope="module")
def layer():
    weights = {"fc.weight": torch.randn(30, 20, generator=torch.Generator().manual_seed(0))}
    return grade(weights, evidence="none").layers[0]


def told(layers, more=""):
    return [f"{verdict}: {meaning}" for verdict, meaning in verdict_words(layers, more)]


def judged(layer, kind, low=3.0, high=5.0, p=None):
    interval = None if low is None else Interval(4.0, low, high, 0.95, "test")
    goodness = None if p is None else Goodness(p, 100, p < 0.1)
    return dataclasses.replace(layer, verdict=Verdict(kind, "because"), interval=interval, goodness=goodness)


def test_only_verdicts_that_occur_are_explained_in_their_order(layer):
    kinds = (VerdictKind.WEAKLY_TRAINED, VerdictKind.WELL_TRAINED, VerdictKind.OVER_REGULARISED)
    layers = [judged(layer, kind) for kind in (*kinds, VerdictKind.NO_HEAVY_TAIL)]
    assert told(layers, "--why") == [
        "looks like noise: no eigenvalue is larger than those of random weights; α means nothing here",
        "over-regularised: the whole interval of α lies below 2: a few directions dominate",
        "well trained: the whole interval of α lies between 2 and 6",
        "weakly trained: the whole interval of α lies above 6: little beyond its random start",
    ]
    assert told([]) == []


def test_why_nothing_can_be_said_is_counted_by_reason(layer):
    doubtful = [(1.5, 3.0, None), (5.0, 9.0, 0.5), (3.0, 7.0, 0.02), (3.0, 4.0, 0.01), (1.0, 9.0, None)]
    layers = [judged(layer, VerdictKind.CANNOT_SAY, *each) for each in doubtful]
    layers.append(judged(layer, VerdictKind.CANNOT_SAY, None, None))
    layers.append(judged(layer, VerdictKind.WELL_TRAINED, p=0.01))
    assert told(layers, "--why tells for each")[0] == (
        "cannot say: the interval of α reaches into another class (3 layers) or a power law is rejected, as one in ten "
        "true ones would be (2) or α has no interval (1); --why tells for each"
    )
    assert told(layers[:1]) == ["cannot say: the interval of α reaches into another class (1 layer)"]
    assert told([judged(layer, VerdictKind.CANNOT_SAY)]) == ["cannot say: other evidence speaks against it (1 layer)"]


def test_layers_without_a_fit_are_counted_by_status(layer):
    verdict = Verdict(VerdictKind.CANNOT_BE_FITTED, "because")
    statuses = (Status.ZERO, Status.TOO_SMALL, Status.ZERO)
    layers = [dataclasses.replace(layer, fit=None, status=status, verdict=verdict) for status in statuses]
    assert told([*layers, layer]) == [
        "cannot be fitted: zero (2), too small (1)",
        "not judged: α alone is not enough; --evidence fast computes more",
    ]


def test_settings_name_the_factors_of_slices_as_a_range():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(12, 12, 3), nn.Conv2d(12, 12, 1))
    words = settings_words(grade(made, evidence="none", conv="slices"))
    assert words == (
        "conv slices · normalise none · evidence none · cut ks · gram float64 · "
        "eigenvalues of convolutions × 0.5 to 4.5"
    )
    assert "eigenvalues" not in settings_words(grade(made, evidence="none", normalise="seed"))
