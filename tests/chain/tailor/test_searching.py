"""What is proposed, with a runner that invents what each way costs: no network is made."""

from __future__ import annotations

import pytest

from weightsmith.chain.tailor.choosing import Preference
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.searching import Search

from .test_candidates import candidate


class Invented:
    """Ways cost what they should, but for a fifth of the network that no cut makes cheaper for spikes."""

    def __init__(self, *, refuse=(), faithful=0.02, base=0.2, least=0.0):
        self.candidates, self.spent, self.refuse, self.faithful, self.base = [], 0.0, refuse, faithful, base
        self.told, self._least = [], least

    def least(self, measure, multiple):
        return self._least

    def find(self, config):
        return next((each for each in self.candidates if each.way == config), None)

    def knows(self, config):
        return self.find(config) is not None or str(config) in self.told

    def go(self, config, stage):
        self.told.append(str(config))
        self.spent += 1.0
        neuron = None if config.conversion is None else config.conversion.neuron
        if neuron in self.refuse:
            return
        keep = 1.0 if config.cut is None else config.cut.keep
        share = keep * (0.05 if config.numbers == "int8" else 1.0)
        if config.conversion is not None:
            share = 0.15 * config.conversion.steps / 2 * (self.base + (1 - self.base) * keep)
        self.candidates.append(
            candidate(
                len(self.candidates), self.faithful * (1 - keep), 100 * share, round(200 * keep), way=config,
                steps=None if config.conversion is None else config.conversion.steps, macs=round(300 * keep),
                bytes=round(800 * keep * (0.253 if config.numbers == "int8" else 1)), time=keep**0.5,
                correct=round(50 * (1 - self.faithful * (1 - keep))),
            )
        )  # fmt: skip


def tried(limits, *, spiking=False, budget=None, **more):
    runner = Invented(**more)
    left = Search(runner, Preference(limits, spiking)).run(budget)
    return runner, left


def test_a_limit_on_parameters_needs_one_cut():
    runner, left = tried(Limits(params=150, points=0.02))
    assert runner.told == ["whole", "int8", "cut to 75 % of the parameters"]
    assert left == ()


def test_a_quarter_of_the_bytes_is_int8_of_a_little_less():
    runner, _ = tried(Limits(bytes=200))
    small = [each for each in runner.candidates if each.kind == "reduced, int8"]
    assert len(small) == 1
    assert small[0].bytes <= 200
    assert small[0].way.cut.keep > 0.95
    assert any(each.kind == "reduced" for each in runner.candidates)  # the rival without int8


def test_a_limit_on_the_energy_tries_int8_cuts_and_spikes():
    runner, _ = tried(Limits(energy=20.0))
    kinds = {each.kind for each in runner.candidates}
    assert {"whole", "int8", "reduced", "spiking"} <= kinds
    assert next(each for each in runner.candidates if each.kind == "reduced").way.cut.measure == "macs"
    assert "graded:5, 2 steps" in runner.told


def test_spikes_that_cost_too_much_are_cut_until_they_fit():
    runner, _ = tried(Limits(energy=10.0), spiking=True)
    both = [each for each in runner.candidates if each.kind == "reduced and spiking"]
    assert 1 < len(both) <= 3
    assert both[-1].energy * 1.03 <= 10.0
    assert not any(each.kind == "reduced, int8" for each in runner.candidates)


def test_where_graded_neurons_are_refused_signed_ones_are_tried():
    runner, _ = tried(Limits(energy=99.0), spiking=True, refuse=("graded:5",))
    assert "if:signed=true, 4 steps" in runner.told
    assert runner.told.count("graded:5, 3 steps") == 0


def test_an_accuracy_alone_goes_down_a_ladder_until_the_answers_differ():
    runner, _ = tried(Limits(points=0.1), faithful=0.2)
    sizes = [each.way.cut.keep for each in runner.candidates if each.kind == "reduced, int8"]
    assert sizes == [0.85, 0.7, 0.55, 0.4]  # 0.2 · 0.6 = 0.12 of the answers differ, more than 0.1


def test_a_limit_on_the_time_cuts_in_multiples_and_measures():
    runner, _ = tried(Limits(time=0.5))
    cuts = [each for each in runner.candidates if each.kind == "reduced"]
    assert {each.way.cut.multiple for each in cuts} == {8}
    assert cuts[-1].time <= 0.5
    assert len(cuts) <= 3


def test_no_cut_goes_below_the_smallest_possible_one():
    runner, _ = tried(Limits(params=5), least=0.03123)
    cuts = [each.way.cut.keep for each in runner.candidates if each.kind == "reduced"]
    assert cuts == [0.0313]


def test_a_cut_that_differs_by_more_than_is_allowed_is_distilled():
    near, far = (tried(Limits(params=100, points=0.1), faithful=faithful)[0] for faithful in (0.1, 0.5))
    assert near.told[-1] == "cut to 50 % of the parameters"
    assert far.told[-2:] == ["cut to 50 % of the parameters", "cut to 50 % of the parameters, distilled"]
    assert not any("distilled" in told for told in tried(Limits(params=1), faithful=0.5, least=0.1)[0].told)  # missed


def test_two_limits_are_met_by_the_tighter_cut():
    runner, _ = tried(Limits(params=150, macs=90))
    cuts = [each for each in runner.candidates if each.kind == "reduced"]
    assert [(each.way.cut.measure, each.way.cut.keep) for each in cuts] == [("macs", 0.3)]


def test_a_budget_ends_the_search_and_names_what_is_left():
    runner, left = tried(Limits(params=100), budget=2.0)
    assert len(runner.told) == 2
    assert left == ("cut to 50 % of the parameters",)


def test_an_interruption_keeps_what_there_is():
    class Stopped(Invented):
        def go(self, config, stage):
            if len(self.candidates) == 2:
                raise KeyboardInterrupt
            super().go(config, stage)

    runner = Stopped()
    search = Search(runner, Preference(Limits(params=100)))
    assert "the same call resumes" in search.run(None)[0]
    assert len(runner.candidates) == 2
    with pytest.raises(KeyboardInterrupt):
        Search(_at_once(), Preference(Limits(params=100))).run(None)


def _at_once():
    runner = Invented()
    runner.go = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    return runner


def test_progress_tells_the_best_so_far():
    told = []
    Search(Invented(), Preference(Limits(energy=20.0)), lambda stage, done, total: told.append(stage)).run(None)
    assert told[0] == "whole: whole"
    assert told[2].startswith("cutting: cut to 20 % of the operations (best so far: int8)")
