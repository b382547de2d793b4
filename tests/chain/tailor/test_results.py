from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from torch import nn

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import Relaxation
from weightsmith.chain.tailor.configurations import Configuration, Conversion, PruningStep
from weightsmith.chain.tailor.judging import judgement
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.results import Alone, Tailored, TailorRecord, Verdict
from weightsmith.chain.tailor.rows import RowsUsed
from weightsmith.core.records import Origin
from weightsmith.core.statistics import wilson

LIMITS = Limits(accuracy=0.8, energy=20.0)


def candidate(number, way, correct, energy, steps=None):
    return Candidate(number, way, steps, 100, correct, energy, energy / 100, 10, 0.5, 5, "cutting")


def record(verdict=Verdict.MET, right=85, **changes):
    cut, conversion = PruningStep("groups", "macs", 0.3), Conversion("constant", "percentile", 8)
    both = candidate(3, Configuration(cut, conversion), 85, 10.0, 4)
    whole = np.arange(100) < 90
    judged = judgement(3, np.arange(100) < right, whole, energy=11.0, params=10, limits=LIMITS)
    made = TailorRecord(
        settings={"accuracy": 0.8},
        network="mlp:8",
        limits=LIMITS,
        energy=100.0,
        macs=20,
        parameters=20,
        train=RowsUsed("train", 50, 50, "a"),
        selection=RowsUsed("test", 100, 200, "b"),
        judging=RowsUsed("test", 100, 200, "c"),
        candidates=(
            candidate(0, Configuration(), 90, 100.0),
            candidate(1, Configuration(cut), 84, 30.0),
            candidate(2, Configuration(None, conversion), 70, 25.0, 2),
            both,
        ),
        chosen=3,
        verdict=verdict,
        judged=judged,
        whole=wilson(90, 100),
        alone=(Alone("reduced", 1, {"energy": 0.5}, None), Alone("spiking", 2, {"accuracy": 0.125}, None)),
        unreachable=(),
        relaxations=(Relaxation("energy", 20.0, 30.0, 1),),
        refused={"a way": "a reason"},
        untried=("plans: not begun",),
        notes=(),
        result="d",
        origin=Origin(seed=0),
    )
    return dataclasses.replace(made, **changes)


def test_the_record_survives_json():
    assert TailorRecord.from_json(record().to_json()) == record()


@pytest.mark.parametrize("verdict", Verdict)
def test_only_two_verdicts_mean_that_the_limits_are_met(verdict):
    assert record(verdict).met == (verdict in (Verdict.MET, Verdict.BY_ESTIMATE))
    assert Tailored(record(verdict), nn.Identity()).met == record(verdict).met


def test_the_best_and_the_front():
    assert record().best.number == 3
    assert [each.number for each in record().front] == [0, 3]  # the others are beaten by both


def test_together_means_that_neither_alone_does_it():
    assert record().only_together
    kept = (Alone("reduced", 1, {}, None), record().alone[1])
    assert not record(alone=kept).only_together
    assert not record(chosen=1).only_together
    assert not record(Verdict.NOT_CONFIRMED).only_together


def test_nothing_tried_is_not_kept_to():
    assert not Alone("spiking", None, {}, None).met


def test_one_line():
    text = str(Tailored(record(), nn.Identity()))
    assert text.startswith(
        "met: reduced and spiking (groups, macs:0.3, uniform; spiking, constant, percentile, 4 steps)"
    )
    assert "accuracy 90.00% → 85.00% (interval reaches below the limit), 11.0% of the energy, 50.0% of" in text
