from __future__ import annotations

import dataclasses
import math

import pytest

from weightsmith.chain.tailor.candidates import Candidate
from weightsmith.chain.tailor.choosing import Preference
from weightsmith.chain.tailor.configurations import Configuration, Conversion, PruningStep
from weightsmith.chain.tailor.limits import Limits
from weightsmith.chain.tailor.proposing import Menu, Proposer

ENERGY, MACS, PARAMETERS, IMAGES = 1000.0, 1000, 500, 1000
MENU = Menu(
    energy=0.2,
    params=None,
    recover="fine-tune:2",
    spiking=True,
    steps=32,
    encodings=("constant", "poisson"),
    balance="percentile",
)
LIMITS = Limits(accuracy=0.9, energy=0.2 * ENERGY)


class World:
    """A make-believe chain: what every way gives is a formula, so that the search can be watched without a network.

    Accuracy 0.95 · (1 − e^{−12·keep}), training adds 0.02; spiking takes e^{−steps/3} away. A step costs 2 % of the
    network's energy.
    """

    def __init__(self, menu=MENU, limits=LIMITS, margin=0.0):
        self.found: list[Candidate] = []
        self.proposer = Proposer(menu, Preference(limits, margin), self.found)
        self.stages: dict[str, list[Configuration]] = {}

    def run(self):
        tried = set()
        for stage, propose in self.proposer.stages():
            self.stages[stage] = [way for way in dict.fromkeys(propose()) if way.key not in tried]
            for way in self.stages[stage]:
                tried.add(way.key)
                self.go(way, stage)
        return self

    def go(self, way, stage):
        keep = 1.0 if way.cut is None else way.cut.keep
        right = 0.95 * (1 - math.exp(-12 * keep)) + (0.02 if way.cut is not None and way.cut.recover else 0.0)
        if way.conversion is None:
            self.add(way, stage, right, ENERGY * keep)
            return
        for step in range(1, way.conversion.steps + 1):
            self.add(way, stage, right - math.exp(-step / 3), ENERGY * keep * (0.01 + 0.02 * step), steps=step)

    def add(self, way, stage, right, energy, *, steps=None):
        keep = 1.0 if way.cut is None else way.cut.keep
        correct = max(0, round(right * IMAGES))
        size = round(PARAMETERS * keep)
        self.found.append(
            Candidate(
                number=len(self.found),
                way=way,
                steps=steps,
                images=IMAGES,
                correct=correct,
                energy=energy,
                energy_share=energy / ENERGY,
                parameters=size,
                params_share=keep,
                macs=round(MACS * keep),
                stage=stage,
            )
        )

    def keeps(self, stage):
        return [way.cut.keep for way in self.stages[stage]]


@pytest.fixture(scope="module")
def world():
    return World().run()


def test_stages_go_from_coarse_to_fine(world):
    assert list(world.stages) == [
        "whole", "cutting", "converting", "converting cuts", "tuning", "converting the tuned", "plans", "refining",
        "refining again", "thresholds", "refining at last",
    ]  # fmt: skip
    assert world.stages["whole"] == [Configuration()]
    assert all(way.kind == "reduced" and way.cut.recover is None for way in world.stages["cutting"])


def test_the_limit_is_the_first_size_that_is_tried(world):
    assert world.keeps("cutting")[0] == 0.2
    assert {0.5, 0.25, 0.1} <= set(world.keeps("cutting"))


def test_the_whole_network_is_converted_with_each_kind_of_input(world):
    assert [way.conversion.encode for way in world.stages["converting"]] == ["constant", "poisson"]
    assert all(way.cut is None and way.conversion.steps == 32 for way in world.stages["converting"])


def test_only_cuts_that_are_accurate_enough_and_not_beaten_are_converted(world):
    plain = {
        found.way.cut.keep: found.share for found in world.found if found.kind == "reduced" and found.stage == "cutting"
    }
    converted = world.keeps("converting cuts")
    assert converted == sorted((keep for keep, share in plain.items() if share >= 0.9 - 0.03), reverse=True)
    assert 0.1 not in converted


def test_a_smaller_network_is_run_for_no_more_steps_than_its_energy_is_of_use(world):
    for way in world.stages["converting cuts"]:
        most = 1.5 * LIMITS.energy / (ENERGY * way.cut.keep)  # in units of the whole network's energy
        needed = (most - 0.01) / 0.02
        assert needed - 1 <= way.conversion.steps <= needed + 2 or way.conversion.steps == 32


def test_cuts_that_lost_nothing_are_not_trained(world):
    whole = world.found[0].share
    plain = {found.way.cut.keep: found.share for found in world.found if found.stage == "cutting"}
    assert world.keeps("tuning") == sorted(keep for keep, share in plain.items() if share < whole - 0.005)
    assert all(way.cut.recover == "fine-tune:2" for way in world.stages["tuning"])


def test_other_methods_and_plans_are_tried_at_the_sizes_that_came_nearest(world):
    tried = [(way.kind, way.cut.by, way.cut.plan) for way in world.stages["plans"]]
    others = [("groups", "norm"), ("groups", "alpha"), ("magnitude", "uniform"), ("angles:90", "uniform")]
    assert tried == [(kind, *other) for kind in ("reduced and spiking", "reduced") for other in others]


def like(found, best):
    """Of the same kind, by the same method, plan and training."""
    cuts = (found.way.cut, best.way.cut)
    return found.kind == best.kind and len({dataclasses.replace(cut, keep=0.5) for cut in cuts}) == 1


def test_refining_halves_the_gap_to_the_neighbours_of_the_best():
    world = World()
    for stage, propose in world.proposer.stages():
        if stage == "refining":
            best = world.proposer.best("reduced and spiking")
            family = sorted({found.way.cut.keep for found in world.found if like(found, best)})
            ways = [way for way in propose() if way.kind == best.kind]
            break
        for way in dict.fromkeys(propose()):
            world.go(way, stage)
    position = family.index(best.way.cut.keep)
    below = family[position - 1] if position else best.way.cut.keep / 2
    above = family[position + 1] if position + 1 < len(family) else 1.0
    expected = [round((best.way.cut.keep * other) ** 0.5, 4) for other in (below, above)]
    assert [way.cut.keep for way in ways] == expected


def test_the_search_finds_nearly_the_least_energy_there_is(world):
    """Against a fine grid over all sizes and steps of the same make-believe chain."""
    best = world.proposer.best("reduced and spiking")
    energies = [
        keep / 1000 * (0.01 + 0.02 * step)
        for keep in range(50, 1000)
        for step in range(1, 33)
        if round(IMAGES * (0.95 * (1 - math.exp(-12 * keep / 1000)) + 0.02 - math.exp(-step / 3))) >= 900
    ]
    assert best.energy_share <= 1.1 * min(energies)
    assert not best.excess(LIMITS)


def test_thresholds_are_varied_for_the_best_and_l4_only_for_random_input(world):
    tried = [(way.kind, way.conversion) for way in world.stages["thresholds"]]
    for kind in ("reduced and spiking", "spiking"):
        own = [conversion for found, conversion in tried if found == kind]
        assert {conversion.balance for conversion in own} >= {"percentile:factor=0.7", "percentile:factor=1.4"}
        assert all(conversion.encode == "poisson" for conversion in own if conversion.adjust)


def test_l4_is_tried_where_the_input_is_random():
    world = World(dataclasses.replace(MENU, encodings=("poisson",))).run()
    assert any(way.conversion.adjust == "l4:1.0" for way in world.stages["thresholds"])


def test_nothing_spikes_if_the_menu_says_so():
    world = World(dataclasses.replace(MENU, spiking=False)).run()
    assert all(way.conversion is None for ways in world.stages.values() for way in ways)
    assert max(world.keeps("cutting")) == 0.2  # larger ones would be over the energy


def test_nothing_is_trained_if_the_menu_says_so():
    world = World(dataclasses.replace(MENU, recover=None)).run()
    assert "tuning" not in world.stages
    assert all(way.cut is None or way.cut.recover is None for ways in world.stages.values() for way in ways)


def test_a_network_that_cannot_be_converted_is_only_cut():
    world = World()
    tried = []
    for stage, propose in world.proposer.stages():
        for way in dict.fromkeys(propose()):
            tried.append(way)
            if way.conversion is None:  # all others are refused
                world.go(way, stage)
    assert {way.kind for way in tried if way.conversion is not None} == {"spiking"}
    assert len([way for way in tried if way.conversion is not None]) == 2


def test_a_limit_on_parameters_measures_cuts_by_them():
    menu = dataclasses.replace(MENU, energy=None, params=0.3, spiking=False)
    world = World(menu, Limits(accuracy=0.9, params=150)).run()
    assert {way.cut.measure for way in world.stages["cutting"]} == {"params"}
    assert world.keeps("cutting")[0] == 0.3
    assert max(world.keeps("cutting")) == 0.3


def test_a_limit_that_is_too_small_for_any_cut_still_leaves_something_to_compare():
    menu = dataclasses.replace(MENU, energy=None, params=0.001, spiking=False)
    assert menu.keeps() == [0.001, 0.1, 0.15]


def test_no_limit_at_the_top():
    assert dataclasses.replace(MENU, energy=1.0).keeps() == [0.5, 0.25, 0.1, 0.7, 0.35, 0.15]


def test_a_run_of_one_step_tells_nothing_of_the_cost_of_a_step():
    world = World(dataclasses.replace(MENU, steps=1)).run()
    assert {way.conversion.steps for way in world.stages["converting cuts"]} <= {1}
    assert Conversion("constant", "percentile", 1) in [way.conversion for way in world.stages["converting"]]
    assert PruningStep("groups", "macs", 0.2) in [way.cut for way in world.stages["cutting"]]
