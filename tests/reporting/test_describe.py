from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.chain.reading.results import KINDS
from weightsmith.reporting.describe import _SECTIONS, describe


def test_every_kind_of_result_that_a_report_knows_is_described():
    named = {kind for kind in KINDS if kind.__name__ in _SECTIONS or hasattr(kind, "described_by")}
    assert {kind.__name__ for kind in set(KINDS) - named} <= {"TailorRecord"}


def test_a_result_and_its_record_have_one_description():
    run = ws.train("mlp:4", "digits", epochs=1)
    by_result, by_record = describe(run, "mine"), describe(run.record, "mine")
    assert (by_result.title, by_result.lead, by_result.chips) == (by_record.title, by_record.lead, by_record.chips)
    assert by_result.title == "Training: mine"


def test_what_is_no_result_is_refused_by_name():
    with pytest.raises(ws.UsageError, match="a int has no description"):
        describe(3)
