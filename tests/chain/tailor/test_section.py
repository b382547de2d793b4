from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith.chain.tailor.results import Verdict
from weightsmith.chain.tailor.section import short_section, tailored_networks
from weightsmith.reporting.describe import describe


@pytest.fixture(scope="module")
def found(digits_mlp):
    return ws.tailor(digits_mlp, "digits", params="50%", accuracy=-20, rows=200)


def test_the_answer_says_what_is_left_what_was_kept_and_what_int8_costs(found):
    section = describe(found, "net")
    record = found.record
    assert "cut to 50 % of the parameters" in section.lead
    assert f"of {record.judging.rows} rows (test), that of the original" in section.lead
    assert "in int8 costs 5.0 % of that energy" in section.lead
    assert section.look_at == ()
    assert {"accuracy", "parameters", "energy", "CPU time"} <= dict(section.chips).keys()


def test_the_networks_stand_side_by_side(found):
    rows = describe(found, "net")["Networks"].to_rows()
    assert [row["network"] for row in rows] == ["original", "cut to 50 % of the parameters (taken)", "int8"]
    assert rows[1]["accuracy"] == found.record.judged.accuracy.value
    assert rows[2]["accuracy"] is None
    assert rows[2]["energy"] == pytest.approx(0.05)
    assert rows[2]["limits"].startswith("misses params by")


def test_the_original_network_is_judged_by_the_same_limits(digits_mlp):
    found = ws.tailor(digits_mlp, "digits", accuracy=99.9, rows=100, test_rows=100)
    original, taken = describe(found, "net")["Networks"].to_rows()[:2]
    assert taken["network"] == "whole (taken)"
    assert original["limits"] == taken["limits"]
    assert original["limits"].startswith("misses accuracy by")
    assert original["accuracy"] == found.record.whole.value


def test_what_is_not_met_must_be_looked_at(found):
    for verdict in (Verdict.BY_ESTIMATE, Verdict.NOT_CONFIRMED, Verdict.NOT_MET):
        section = describe(dataclasses.replace(found.record, verdict=verdict), "net", kept=False)
        assert len(section.look_at) == 1
        assert "--out FOLDER" in section.try_next[-1]


def test_all_candidates_are_a_detail_that_a_terminal_leaves_out(found):
    table = describe(found, "net")["Candidates"]
    assert table.detail
    assert len(table.rows) == len(found.record.front)


def test_in_short_are_three_numbers_and_a_picture(found):
    section = short_section(found.record, "small")
    assert [name for name, _ in section.chips] == ["accuracy", "parameters", "energy per input"]
    assert f"of {found.record.judging.rows} rows" in section.chips[0][1]
    assert [part.title for part in section.parts] == ["Accuracy and costs"]
    assert "Result: cut to 50 % of the parameters" in section.lead


def test_an_overview_knows_both_networks(found):
    given, made = tailored_networks(found.record, "small")
    assert given.digest == found.record.origin.inputs["network"] == made.parent
    assert made.digest == found.record.result
    assert made.energy == found.record.judged.energy
