from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from torch import nn

import weightsmith as ws
from weightsmith.chain.tailor.results import Alone, Moment, Tailored, TailorRecord, Verdict
from weightsmith.reporting.describe import describe

OLD = json.loads((Path(__file__).parent / "old_record.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found(digits_mlp):
    return ws.tailor(digits_mlp, "digits", params="50%", accuracy=-20, rows=200)


def test_the_record_survives_json(found):
    assert TailorRecord.from_json(found.record.to_json()) == found.record


@pytest.mark.parametrize("verdict", Verdict)
def test_an_estimate_suffices_only_where_no_margin_is_asked_for(found, verdict):
    strict = dataclasses.replace(found.record, verdict=verdict)
    assert strict.met == (verdict is Verdict.MET)
    lenient = dataclasses.replace(strict, settings={**strict.settings, "margin": None})
    assert lenient.met == (verdict in (Verdict.MET, Verdict.BY_ESTIMATE))
    assert Tailored(strict, nn.Identity()).met == strict.met


def test_a_record_of_an_earlier_version_is_still_read_and_described():
    old = TailorRecord.from_dict(OLD)
    assert old.labelled
    assert old.margin is None
    assert old.met
    assert old.best.kind == "reduced and spiking"
    assert "4 steps" in str(old.best)
    section = describe(old, "old")
    assert "83.6 %" in section.lead
    assert section["Networks"].to_rows()[1]["energy"] == pytest.approx(old.judged.energy / old.energy)


def test_nothing_tried_is_not_within_the_limits():
    assert not Alone("spiking", None, {}, None).met


def test_one_line(found):
    text = str(found)
    assert text.startswith(found.record.verdict.value)
    assert "cut to 50 % of the parameters" in text
    assert "of the float32 energy" in text
    assert all(isinstance(each, Moment) for each in found.timeline)
