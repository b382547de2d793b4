from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.chain.tailor import runner as workbench
from weightsmith.chain.tailor.configurations import Configuration, Conversion, PruningStep
from weightsmith.chain.tailor.rows import divided
from weightsmith.chain.tailor.runner import CandidateRunner, Conditions
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.journal import Journal, read_journal
from weightsmith.networks.card import weights_digest
from weightsmith.spiking.energy.cost import Prices
from weightsmith.spiking.files import spiking_digest

CONDITIONS = Conditions(
    neuron=ws.IF(), precision="float32", prices=Prices(), rows=500, seed=0, batch=256, threads=1
)  # fmt: skip
CUT, CONVERSION = PruningStep("groups", "params", 0.4), Conversion("constant", "percentile", 8)


@pytest.fixture(scope="module")
def digits():
    return ws.data.load("digits")


@pytest.fixture(scope="module")
def network(digits):
    return ws.train("mlp:24", digits, optimiser="adam", schedule=0.01, epochs=4, seed=0).network


@pytest.fixture(scope="module")
def rows(digits):
    return divided(digits, test_rows=None, tune_rows=None, seed=0)


@pytest.fixture
def runner(network, rows, tmp_path):
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        yield CandidateRunner(network, rows, CONDITIONS, tmp_path / "reductions", journal)


def test_the_whole_network_costs_its_macs(runner, network, rows):
    (found,) = runner.go(Configuration(), "whole")
    assert found.macs == runner.macs == 64 * 24 + 24 * 10
    assert found.energy == runner.energy == pytest.approx(4.6 * found.macs)
    assert (found.energy_share, found.params_share, found.steps) == (1.0, 1.0, None)
    assert found.correct == ws.evaluate(network, rows.choosing).correct
    assert found.images == rows.selection.rows == 180


def test_a_cut_is_the_reduction_that_the_verb_gives(runner, network, rows):
    (found,) = runner.go(Configuration(CUT), "cutting")
    own = ws.reduce(network, rows.choosing, by="groups", target="params:0.4", rows=500, latency=False)
    assert (found.parameters, found.macs) == (own.record.reduced.parameters, own.record.reduced.macs)
    assert found.correct / found.images == own.record.measured.reduced.value
    assert weights_digest(runner.made(found.way)) == own.record.result
    assert found.energy == pytest.approx(4.6 * found.macs)


def test_one_run_gives_a_candidate_for_every_step_worth_having(runner, network, rows):
    found = runner.go(Configuration(None, CONVERSION), "converting")
    own = ws.spike(network, rows.choosing, steps=8, watch=0)
    assert [each.correct for each in found] == [own.record.decisions.correct[each.steps - 1] for each in found]
    assert [each.energy for each in found] == pytest.approx([own.record.cost.curve[each.steps - 1] for each in found])
    assert max(each.correct for each in found) == own.record.decisions.correct.max()
    assert spiking_digest(runner.made(found[0].way)) == own.record.result
    assert [each.number for each in found] == list(range(len(found)))


def test_a_cut_that_is_converted_costs_what_its_spikes_cost(runner):
    whole, both = runner.go(Configuration(None, CONVERSION), "a"), runner.go(Configuration(CUT, CONVERSION), "b")
    assert both[0].parameters < whole[0].parameters
    assert both[-1].energy < whole[-1].energy
    assert runner.of(Configuration(CUT, CONVERSION)) == both


def test_a_plan_by_alpha_comes_from_grades(runner, network, rows, monkeypatch):
    asked = []
    real = workbench.keep_by_alpha
    monkeypatch.setattr(
        workbench, "keep_by_alpha", lambda *given, **more: asked.append(given[1]) or real(*given, **more)
    )
    assert runner.go(Configuration(dataclasses.replace(CUT, plan="alpha")), "plans")
    assert asked == [0.4]


def test_a_plan_by_alpha_of_layers_without_alpha_is_refused(digits, rows, tmp_path):
    tiny = ws.train("mlp:4", digits, epochs=1, seed=0).network
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        runner = CandidateRunner(tiny, rows, CONDITIONS, tmp_path / "r", journal)
        grades = ws.grade(tiny, evidence="none")
        found = runner.go(Configuration(dataclasses.replace(CUT, keep=0.6, plan="alpha")), "plans")
    scored = [layer for layer in grades.layers if layer.alpha is not None]
    assert bool(found) == bool(scored)
    if not scored:
        assert "no layer has an α" in runner.refusals[0].reason


def test_what_cannot_be_done_is_kept_with_its_reason(runner):
    way = Configuration(dataclasses.replace(CUT, keep=0.001))
    assert runner.go(way, "cutting") == []
    assert runner.refusals[0].way == way
    assert "one unit per layer" in runner.refusals[0].reason
    assert runner.knows(way)
    assert runner.candidates == []


def test_network_and_data_that_do_not_fit_are_an_error_at_once(rows, tmp_path):
    wrong = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        runner = CandidateRunner(wrong, rows, CONDITIONS, tmp_path / "r", journal)
        with pytest.raises(DataMismatch):
            runner.go(Configuration(), "whole")
        assert len(journal) == 0


def test_a_network_without_layers_that_are_counted_is_refused(rows, tmp_path):
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(10))

        def forward(self, x):
            return x.flatten(1)[:, :10] * self.scale

    with Journal(tmp_path / "j.jsonl", {}) as journal, pytest.raises(UsageError, match="nothing to take"):
        CandidateRunner(Bare(), rows, CONDITIONS, tmp_path / "r", journal)


def test_what_is_in_the_journal_is_read_and_not_done_again(network, rows, tmp_path, monkeypatch):
    ways = [
        Configuration(),
        Configuration(CUT),
        Configuration(CUT, CONVERSION),
        Configuration(dataclasses.replace(CUT, keep=0.001)),
    ]

    def gone():
        with Journal(tmp_path / "journal.jsonl", {}) as journal:
            runner = CandidateRunner(network, rows, CONDITIONS, tmp_path / "reductions", journal)
            for way in ways:
                runner.go(way, "stage")
            return runner.candidates, runner.refusals, runner.spent

    first = gone()
    for verb in ("reduce", "spike", "right_answers"):
        monkeypatch.setattr(workbench, verb, lambda *_, verb=verb, **__: pytest.fail(f"{verb} was called again"))
    assert gone() == first
    assert first[2] == pytest.approx(sum(read_journal(tmp_path / "journal.jsonl").seconds.values()))


def test_the_judging_rows_are_asked_once_for_each_candidate(runner, rows, monkeypatch):
    (plain,) = runner.go(Configuration(), "whole")
    spiking = runner.go(Configuration(None, CONVERSION), "converting")[-1]
    first = [runner.judged(found) for found in (plain, spiking)]
    assert all(len(found.right) == rows.judged.rows for found in first)
    assert int(first[0].right.sum()) == ws.evaluate(runner.network, rows.judging).correct
    for verb in ("answered", "right_answers"):
        monkeypatch.setattr(workbench, verb, lambda *_, **__: pytest.fail("asked again"))
    again = [runner.judged(found) for found in (plain, spiking)]
    assert all(np.array_equal(a.right, b.right) and a.energy == b.energy for a, b in zip(first, again, strict=True))
    assert runner.judged_before == 0


def test_candidates_that_were_judged_for_others_are_counted(network, rows, tmp_path):
    with Journal(tmp_path / "journal.jsonl", {}) as journal:
        first = CandidateRunner(network, rows, CONDITIONS, tmp_path / "r", journal)
        for found in (*first.go(Configuration(), "whole"), *first.go(Configuration(CUT), "cutting")):
            first.judged(found)
        second = CandidateRunner(network, rows, CONDITIONS, tmp_path / "r", journal)
        second.judged(second.go(Configuration(), "whole")[0])
        assert second.judged_before == 1


def test_a_finished_reduction_is_loaded_and_not_made_again(network, rows, tmp_path, monkeypatch):
    def runner(name):
        return CandidateRunner(
            network, rows, CONDITIONS, tmp_path / "reductions", stack.enter_context(Journal(tmp_path / name, {}))
        )

    with contextlib.ExitStack() as stack:
        (first,) = runner("first.jsonl").go(Configuration(CUT), "cutting")
        monkeypatch.setattr(workbench, "reduce", lambda *_, **__: pytest.fail("reduced again"))
        second = runner("second.jsonl")
        assert second.go(Configuration(CUT), "cutting") == [first]
        assert second.go(Configuration(CUT, CONVERSION), "converting")[0].macs == first.macs


def test_a_module_of_the_users_own_is_reduced_again_where_no_file_can_rebuild_it(digits, rows, tmp_path):
    torch.manual_seed(0)
    own = ws.train(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)), digits, epochs=1
    ).network
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        runner = CandidateRunner(own, rows, CONDITIONS, tmp_path / "r", journal)
        runner.go(Configuration(CUT), "cutting")
        runner.go(Configuration(), "whole")
        assert runner.made(Configuration(CUT))[1].out_features < 16
