from __future__ import annotations

import html
import io
import json
import math
import re
from typing import Any

import pytest
from rich.console import Console

import weightsmith as ws
from weightsmith.chain.reading.results import KINDS
from weightsmith.core.sweep import grid
from weightsmith.networks.contents import inspect
from weightsmith.reporting._words import number_text
from weightsmith.reporting.describe import _SECTIONS, describe
from weightsmith.reporting.page import fragment
from weightsmith.reporting.parts import Facts, Section, Shown, Table
from weightsmith.reporting.terminal import show
from weightsmith.spiking.contents import inspect_spiking
from weightsmith.spiking.evaluating import evaluate_spiking
from weightsmith.training.sweep import train_sweep


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


# One description, rendered four ways: every word and number of it is the same in all of them.


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, Any]:
    folder, data = tmp_path_factory.mktemp("results"), ws.data.load("digits")
    run = ws.train("mlp:12,bias=false", data, epochs=2, optimiser="adam", schedule=0.01)
    file = ws.save(run.network, folder / "net.safetensors")
    how = {"steps": 4, "test_rows": 30, "watch": 0, "neuron": "if", "balance": "percentile:half=false"}
    spiking = ws.spike(run.network, data, **how).network
    methods = ["angles:60", "angles:80"]
    recipe = {"data": "digits", "report": False, "train": {"network": "mlp:8", "epochs": 1}, "grade": {}}
    return {
        "training": run,
        "evaluation": ws.evaluate(run.network, data),
        "spiking evaluation": evaluate_spiking(spiking, data, steps=4, test_rows=30),
        "grades": ws.grade(run.network, evidence="none"),
        "diff": ws.diff(ws.networks.mlp(64, 12, 10), run.network, data, test_rows=50, evidence="none", latency=False),
        "transfer": ws.transfer(run.network, data, epochs=1, rate=0.05, unfreeze=1),
        "sweep": train_sweep("digits", grid(rate=[0.1, 0.01]), network="mlp:4", epochs=1, seeds=(0, 1)),
        "study": ws.reduction_study("digits", hidden=[6], methods=methods, epochs=1, folds=2, repeats=1, random=2),
        "chain": ws.pipeline(recipe, folder / "chain"),
        "contents": inspect(file),
        "spiking contents": inspect_spiking(ws.save_spiking(spiking, folder / "snn.safetensors")),
    }


KINDS_SHOWN = (
    *("training", "evaluation", "spiking evaluation", "grades", "diff", "transfer", "sweep", "study", "chain"),
    *("contents", "spiking contents"),
)


def told(section: Section) -> list[str]:
    """Everything that a terminal shows of a description, in plain words."""
    words = [section.title, section.lead, *(text for chip in section.chips for text in chip)]
    for part in section.parts:
        match part:
            case Table(detail=False):
                rows = [part.rows[place] for place in part.brief] if part.brief else part.rows
                cells = (cell.text if isinstance(cell, Shown) else number_text(cell) for row in rows for cell in row)
                words += [part.caption, *(column.head for column in part.columns), *cells]
            case Facts(detail=False):
                words += [text for pair in part.pairs for text in pair]
    return [*words, *section.look_at, *section.try_next]


@pytest.mark.parametrize("kind", KINDS_SHOWN)
def test_terminal_page_notebook_and_json_say_the_same(results, kind):
    result = results[kind]
    section = describe(result)
    console = Console(file=io.StringIO(), width=4000, force_terminal=False)
    show(section, console)
    terminal = spaced(console.file.getvalue())
    page, notebook = without_tags(fragment(section)), without_tags(result._repr_html_())
    words = [spaced(text) for text in told(section) if text]
    assert [text for text in words if text not in terminal] == []
    assert [text for text in words if text not in page] == []
    assert notebook == page
    values = section.to_dict()
    assert (values["answer"], values["look_at"], values["try_next"]) == (
        section.lead,
        list(section.look_at),
        list(section.try_next),
    )
    tables = [part for part in section if isinstance(part, Table)]
    assert [table["rows"] for table in values["tables"]] == [finite(part.to_rows()) for part in tables]
    json.dumps(values, allow_nan=False)


def finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: None if isinstance(cell, float) and not math.isfinite(cell) else cell for key, cell in row.items()}
        for row in rows
    ]


def without_tags(page: str) -> str:
    return spaced(html.unescape(re.sub(r"<[^>]*>", " ", page.replace("<wbr>", ""))))


def spaced(text: str) -> str:
    """With single spaces, as lines are broken anywhere."""
    return " ".join(text.replace("\u00a0", " ").split())
