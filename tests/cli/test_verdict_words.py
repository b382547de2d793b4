from __future__ import annotations

import dataclasses

import pytest
import torch

from weightsmith.cli.grading_report import verdict_words
from weightsmith.core.statistics import Interval
from weightsmith.grading.fits.resampling import Goodness
from weightsmith.grading.grade import grade
from weightsmith.grading.results import Status, Verdict, VerdictKind


@pytest.fixture(scope="module")
def layer():
    weights = {"fc.weight": torch.randn(30, 20, generator=torch.Generator().manual_seed(0))}
    return grade(weights, evidence="none").layers[0]


def judged(layer, kind, low=3.0, high=5.0, p=None):
    interval = None if low is None else Interval(4.0, low, high, 0.95, "test")
    goodness = None if p is None else Goodness(p, 100, p < 0.1)
    return dataclasses.replace(layer, verdict=Verdict(kind, "because"), interval=interval, goodness=goodness)


def test_only_verdicts_that_occur_are_explained_in_their_order(layer):
    kinds = (VerdictKind.WEAKLY_TRAINED, VerdictKind.WELL_TRAINED, VerdictKind.OVER_REGULARISED)
    layers = [judged(layer, kind) for kind in (*kinds, VerdictKind.NO_HEAVY_TAIL)]
    assert verdict_words(layers, "--why") == [
        "no heavy tail: no eigenvalue lies beyond what noise reaches, whatever α is",
        "over-regularised: the whole interval of α lies below 2",
        "well trained: the whole interval of α lies between 2 and 6",
        "weakly trained: the whole interval of α lies above 6",
    ]
    assert verdict_words([]) == []


def test_why_nothing_can_be_said_is_counted_by_reason(layer):
    doubtful = [(1.5, 3.0, None), (5.0, 9.0, 0.5), (3.0, 7.0, 0.02), (3.0, 4.0, 0.01), (1.0, 9.0, None)]
    layers = [judged(layer, VerdictKind.CANNOT_SAY, *each) for each in doubtful]
    layers.append(judged(layer, VerdictKind.CANNOT_SAY, None, None))
    layers.append(judged(layer, VerdictKind.WELL_TRAINED, p=0.01))
    assert verdict_words(layers, "--why tells for each")[0] == (
        "cannot say: the interval of α reaches into another class (3 layers) or a power law is rejected, as one in ten "
        "true ones would be (2) or α has no interval (1); --why tells for each"
    )
    assert verdict_words(layers[:1]) == ["cannot say: the interval of α reaches into another class (1 layer)"]
    assert verdict_words([judged(layer, VerdictKind.CANNOT_SAY)]) == [
        "cannot say: other evidence speaks against it (1 layer)"
    ]


def test_layers_without_a_fit_are_counted_by_status(layer):
    verdict = Verdict(VerdictKind.CANNOT_BE_FITTED, "because")
    statuses = (Status.ZERO, Status.TOO_SMALL, Status.ZERO)
    layers = [dataclasses.replace(layer, fit=None, status=status, verdict=verdict) for status in statuses]
    assert verdict_words([*layers, layer]) == [
        "cannot be fitted: zero (2), too small (1)",
        "not judged: α alone says too little; --evidence fast asks for more",
    ]
