from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith.reporting.parts import Choice, Notes, Prose, Shown
from weightsmith.reporting.sections.transferring import transfer_section


@pytest.fixture(scope="module")
def record():
    base = ws.networks.mlp(64, 16, 10, seed=1)
    return ws.transfer(base, ws.data.load("digits"), epochs=1, rate=0.1, unfreeze=1).record


def test_stages_stand_beside_each_other_with_what_they_gained(record):
    section = transfer_section(record, "mine")
    table = section.parts[0]
    heads = [column.head for column in table.columns]
    rows = [dict(zip(heads, row, strict=True)) for row in table.rows]
    assert section.title == "Transfer: mine"
    assert [row["stage"] for row in rows] == [stage.name for stage in record.stages] == ["frozen", "top 1 unfrozen"]
    assert [row[""] for row in rows].index("← kept") == record.best
    assert rows[0]["gain"] is None
    assert rows[1]["gain"].value == record.stages[1].gain.difference
    assert rows[1]["p"].value == record.stages[1].gain.p  # the only one: Holm changes nothing
    assert isinstance(rows[0]["validation accuracy"], Shown)
    assert rows[0]["validation accuracy"].text.endswith("]")
    assert rows[1]["trained"].value == record.stages[1].training.trained > rows[0]["trained"].value


def test_the_best_stage_is_shown_first_with_its_training(record):
    (choice,) = [part for part in transfer_section(record, "mine").parts if isinstance(part, Choice)]
    assert choice.first == record.best
    assert [name for name, _ in choice.options] == ["1  frozen", "2  top 1 unfrozen"]
    assert all(isinstance(parts[0], Prose) and len(parts) > 2 for _, parts in choice.options)


def test_advice_and_digests_are_told(record):
    section = transfer_section(record, "mine")
    (notes,) = [part.lines for part in section.parts if isinstance(part, Notes)]
    assert notes == record.advice
    facts = dict(section.parts[-1].pairs)
    assert facts["SHA-256 of base"] == record.origin.inputs["base"]
    assert facts["SHA-256 of the network"] == record.network


def test_a_transfer_without_stages_says_so(record):
    empty = dataclasses.replace(record, stages=(), best=0, advice=())
    assert transfer_section(empty, "mine").lead == "No stage was trained."
    assert transfer_section(dataclasses.replace(record, best=9), "mine").lead.startswith("2 stages")
