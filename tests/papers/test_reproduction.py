from __future__ import annotations

import dataclasses
import time

import pytest

from weightsmith.core.errors import DataMissing, UnknownName, UsageError
from weightsmith.papers import reproduction
from weightsmith.papers.reproduction import EXPERIMENTS, Reproduction, experiment, reproduce, section


def test_a_run_writes_its_page_table_record_and_figure_and_goes_on_where_it_stopped(tmp_path):
    made = reproduce("membrane", quick=True, out=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"membrane.{ending}" for ending in ("md", "csv", "json", "svg", "journal.jsonl")
    }
    page = (tmp_path / "membrane.md").read_text()
    for finding in made.findings:
        assert finding.verdict.value in page
        assert finding.ours in page
    assert "a quick run" in page
    assert "![What was measured](membrane.svg)" in page
    assert Reproduction.from_json((tmp_path / "membrane.json").read_text()) == made
    seen = []
    again = reproduce("membrane", quick=True, out=tmp_path, on_row=seen.append)
    assert len(seen) == len(made.table.rows)
    assert again.table == made.table
    assert again.findings == made.findings


def test_workers_give_the_same_table(tmp_path):
    assert reproduce("membrane", quick=True, workers=2).table == reproduce("membrane", quick=True).table


def test_names_seeds_and_missing_data_are_refused_with_a_way_out(tmp_path, monkeypatch):
    with pytest.raises(UnknownName, match="batch-norm"):
        reproduce("batch-nrm")
    with pytest.raises(UsageError, match="seed"):
        reproduce("membrane", quick=True, seeds=())
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataMissing, match="--quick"):
        reproduce("activations")


def test_an_experiment_that_forgets_a_claim_is_refused(monkeypatch):
    whole = experiment("membrane")
    cut = dataclasses.replace(whole, judge=lambda table: whole.judge(table)[:-1])
    monkeypatch.setattr(reproduction, "experiment", lambda name: cut)
    with pytest.raises(UsageError, match="but its claims are mean, variance, l4"):
        reproduce("membrane", quick=True)


def test_every_experiment_states_what_it_tests():
    for name in EXPERIMENTS:
        chosen = experiment(name)
        assert chosen.name.replace("-", "_") == name
        assert len({claim.name for claim in chosen.claims}) == len(chosen.claims)
        assert all(claim.text.endswith(".") and claim.rule and claim.where for claim in chosen.claims)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_quick_runs_take_seconds_and_judge_every_claim(name):
    started = time.process_time()
    made = reproduce(name, quick=True)
    assert section(made)["Verdicts"].rows
    assert time.process_time() - started < 60  # CPU seconds, a generous multiple of the 10 that are stated
