from __future__ import annotations

import dataclasses

from weightsmith.core.records import write_record
from weightsmith.papers.claims import Verdict
from weightsmith.papers.index import NOT_RUN, index_section, not_run, write_index
from weightsmith.papers.reproduction import EXPERIMENTS, experiment, reproduce


def rows_of(section):
    return [row for part in section.parts if hasattr(part, "to_rows") for row in part.to_rows()]


def test_every_claim_has_a_row_and_what_was_not_run_says_so(tmp_path):
    rows = rows_of(index_section(tmp_path))
    claims = [claim for name in EXPERIMENTS for claim in experiment(name).claims]
    claims += [claim for several in NOT_RUN.values() for claim in several]
    assert len(rows) == len(claims)
    waiting = [row for row in rows if "--zoo" in row["what we found"]]
    assert {row["verdict"] for row in waiting} == {"cannot say"}
    assert len(waiting) == len(experiment("heavy-tails").claims)
    assert {row["verdict"] for row in rows if row not in waiting} == {"not run"}


def test_a_quick_run_gives_no_verdict_and_pages_are_linked(tmp_path):
    made = reproduce("membrane", quick=True, out=tmp_path)
    verdicts = {row["verdict"] for row in rows_of(index_section(tmp_path)) if "--zoo" not in row["what we found"]}
    assert verdicts == {"not run"}
    write_record(tmp_path / "membrane.json", dataclasses.replace(made, quick=False))
    page = write_index(tmp_path).read_text()
    assert "[page](membrane.md)" in page
    assert "standard errors on average" in page
    assert "<html" in (tmp_path / "reproduction.html").read_text()


def test_a_claim_that_older_results_do_not_judge_is_not_run(tmp_path):
    made = reproduce("membrane", quick=True)
    write_record(tmp_path / "membrane.json", dataclasses.replace(made, quick=False, findings=made.findings[1:]))
    (row,) = (row for row in rows_of(index_section(tmp_path)) if "reproduce membrane" in row["what we found"])
    assert row["verdict"] == "not run"


def test_harder_data_are_compared_once_both_results_are_there(tmp_path):
    made = {name: reproduce(name, quick=True) for name in ("resnet-leaks", "vgg-leaks")}
    for number, (name, one) in enumerate(made.items()):
        rows = [
            {**row, "gain": 0.01 * place + number * 0.001 * (2 + place % 2)} for place, row in enumerate(one.table.rows)
        ]
        table = dataclasses.replace(one.table, rows=tuple(rows))
        write_record(tmp_path / f"{name}.json", dataclasses.replace(one, quick=False, table=table))
        (row,) = (row for row in rows_of(index_section(tmp_path)) if "larger on harder data" in row["claim"])
        assert row["verdict"] == ("holds" if number else "not run")
    assert row["ours (95 %)"] == "+0.25 points (+0.21 to +0.29)"  # 0.2 and 0.3 by turns, ± 2.26 · 0.0527 / √10
    assert row["n"] == len(one.table.rows)


def test_what_was_not_run_says_what_it_needs():
    for claims in NOT_RUN.values():
        for claim in claims:
            found = not_run(claim)
            assert (found.verdict, found.found) == (Verdict.NOT_RUN, claim.rule)
