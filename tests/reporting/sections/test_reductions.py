from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith import networks
from weightsmith.core.statistics import holm, mcnemar
from weightsmith.reporting.sections.reductions import methods_section


@pytest.fixture(scope="module")
def reductions():
    run = ws.train("mlp:24", "digits", optimiser="adam", schedule=0.02, epochs=2)
    methods = ("angles:60", "magnitude", "random")
    return [ws.reduce(run, "digits", by=by, target="params:0.5", random=2, latency=False) for by in methods]


def test_several_methods_are_told_apart_and_corrected_together(reductions):
    section = methods_section(reductions, "runs/small", least_accuracy=100.0, kept=False)
    rows = section["Reductions"].to_rows()
    assert [row["reduction"] for row in rows] == ["1 angles:60.0", "2 magnitude", "3 random"]
    assert [row["p"] for row in rows] == holm([each.record.measured.cost.p for each in reductions])
    assert [row["just cut"] for row in rows] == [each.record.measured.cut.value for each in reductions]
    left = [{row["method"]: row["parameters"]} for row in section["Sizes"].to_rows()[1:]]
    assert left == [{row["reduction"]: e.record.reduced.parameters} for row, e in zip(rows, reductions, strict=True)]
    assert all(line.startswith(("angles:60.0: ", "magnitude: ", "random: ")) for line in section.look_at)
    assert section.try_next[-1] == "--out FOLDER: the smaller network was not kept"


def test_the_answer_names_the_methods_by_accuracy(reductions):
    lead = methods_section(reductions, "x").lead
    best = sorted((each.record for each in reductions), key=lambda record: -record.measured.reduced.value)
    places = [lead.index(f"{record.settings['by']} is right on") for record in best]
    assert places == sorted(places)
    assert lead.startswith("On 360 rows (test) the network is right on ")


def test_units_stand_side_by_side_and_refusals_are_told(reductions):
    first, *others = reductions
    (site,) = first.record.sites
    refused = dataclasses.replace(site, refused="the output differs")
    odd = dataclasses.replace(first, record=dataclasses.replace(first.record, sites=(refused,)))
    rows = methods_section([odd, *others], "x")["Layers"].rows
    assert rows[0][0] == "dense1"
    assert [cell.text for cell in rows[0][2:]] == ["refused", *(str(each.record.sites[0].after) for each in others)]


def test_notes_name_those_they_hold_for(reductions):
    first, second, third = reductions
    noted = [
        dataclasses.replace(each, record=dataclasses.replace(each.record, notes=("few rows",)))
        for each in (first, third)
    ]
    section = methods_section([noted[0], second, noted[1]], "x")
    assert "1, 3: few rows" in section.to_dict()["notes"]


def test_methods_are_paired_with_each_other_on_the_same_rows(reductions):
    data = ws.data.load("digits")
    rows = methods_section(reductions, "x")["Reductions against each other"].to_rows()
    right = [(networks.scores(each.network, data.test.x).argmax(dim=1) == data.test.y).numpy() for each in reductions]
    expected = [mcnemar(right[one], right[other]) for one, other in ((0, 1), (0, 2), (1, 2))]
    assert [row["difference"] for row in rows] == [each.difference for each in expected]
    assert [row["p"] for row in rows] == holm([each.p for each in expected])


def test_other_rows_and_older_records_are_not_paired(reductions):
    first, second, _ = (each.record.measured for each in reductions)
    assert first.against(dataclasses.replace(second, rows="other")) is None
    assert first.against(dataclasses.replace(second, wrong=None)) is None
    assert first.against(dataclasses.replace(second, wrong=(first.images,))) is None
    assert first.against(first).difference == 0
