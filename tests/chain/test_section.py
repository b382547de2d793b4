from __future__ import annotations

import json

import pytest

import weightsmith as ws
from weightsmith.chain.section import as_dict, lines_of
from weightsmith.reporting.describe import describe

RECIPE = {
    "data": "digits",
    "train": {"network": "mlp:16", "epochs": 2},
    "reduce": {"by": "magnitude", "target": "params:0.5", "test_rows": 100, "random": 0},
    "report": False,
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return ws.pipeline(RECIPE, tmp_path_factory.mktemp("chain"))


def test_every_stage_has_a_row_with_its_result(chain):
    section = describe(chain, "mine")
    rows = section["Stages"].to_rows()
    lines = lines_of(chain)
    assert [row["stage"] for row in rows] == [line.stage for line in lines] == ["train", "reduce"]
    assert [row["accuracy"] for row in rows] == [line.accuracy.value for line in lines]
    assert rows[1]["parameters"] == lines[1].parameters
    assert section.title == "Chain: mine"


def test_a_cut_is_told_with_what_its_interval_excludes(chain):
    (prose,) = [part.text for part in describe(chain).parts if hasattr(part, "text")]
    assert prose.startswith("reduce keeps ")
    assert "of the parameters: " in prose
    assert "points" in prose.partition(": ")[2]


def test_the_record_alone_has_the_recipe_and_the_files(chain):
    section = describe(chain.record, "mine")
    assert dict(section["Recipe"].pairs)["data"] == "digits"
    assert len(section["Stages and their files"].rows) == 2


def test_json_holds_the_same_stages(chain):
    found = json.loads(json.dumps(as_dict(chain)))
    assert [stage["stage"] for stage in found["stages"]] == ["train", "reduce"]
    assert found["stages"][1]["accuracy"]["method"] == "Wilson"
    assert found["page"] is None
