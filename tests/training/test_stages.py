from __future__ import annotations

import numpy as np
import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.core.options import param
from weightsmith.core.statistics import mcnemar, wilson
from weightsmith.networks import mlp
from weightsmith.networks.editing.grafting import reused
from weightsmith.training.schedules import Constant, Schedule, Span
from weightsmith.training.stages import ByData, Drop, Remedy, Replace, ReusedPart, TransferRecipe, scaled


@pytest.fixture(scope="module")
def recipe():
    data = ws.data.load("digits").with_validation(0.2)
    base = mlp(64, 12, 11, 10, 10, batch_norm="after", seed=3)
    for number in (1, 2, 3):
        base.get_submodule(f"norm{number}").running_mean.fill_(0.1 * number)
    return TransferRecipe(base, data, {"hidden": (8,)}, 1, Constant(0.05), 0.1, (1, 1), 0, None, {"diagnose": False})


def state(network, layers):
    return {key: value for key, value in network.state_dict().items() if key.rpartition(".")[0] in layers}


def test_only_what_is_free_moves_statistics_included(recipe):
    grafted = recipe.graft(ReusedPart(3))
    first, second = recipe.stages(ReusedPart(3))
    blocks = reused(grafted)
    for tried, free in ((first, 0), (second, 1)):
        held = [layer for block in blocks[: 3 - free] for layer in block.layers]
        moved = [layer for block in blocks[3 - free :] for layer in block.layers]
        before, after = grafted.state_dict(), tried.network.state_dict()
        assert all(torch.equal(before[key], after[key]) for key in state(grafted, held))
        assert all(not torch.equal(before[key], after[key]) for key in state(grafted, moved))
        assert {name.rpartition(".")[0] for name in tried.stage.frozen} == set(held)
        assert tried.stage.training.settings["frozen"] == list(tried.stage.frozen)
    assert not torch.equal(first.network.head.dense1.weight, second.network.head.dense1.weight)
    assert [first.stage.name, second.stage.name] == ["frozen", "top 1 unfrozen"]


def test_the_rate_is_reduced_when_unfreezing(recipe):
    rates = [tried.stage.training.history.rows[-1].rate for tried in recipe.stages(ReusedPart(2))]
    assert rates == pytest.approx([0.05, 0.005])


def test_figures_are_those_of_an_evaluation(recipe):
    first, second = recipe.stages(ReusedPart(3))
    for tried in (first, second):
        found = ws.evaluate(tried.network, recipe.data, split="validation")
        assert tried.stage.accuracy == found.accuracy == wilson(int(tried.right.sum()), len(tried.right))
        assert found.accuracy.value == tried.stage.training.history.rows[-1].validation_accuracy
    assert first.stage.gain is None
    assert second.stage.gain == mcnemar(second.right, first.right)


def test_fresh_blocks_are_drawn_and_trained_from_the_start(recipe):
    grafted = recipe.graft(ReusedPart(3, 1))
    assert torch.equal(grafted.base.dense2.weight, recipe.base.dense2.weight)
    assert not torch.equal(grafted.base.dense3.weight, recipe.base.dense3.weight)
    assert np.isclose(float(grafted.base.dense3.weight.detach().std()), (2 / 11) ** 0.5, rtol=0.25)  # He
    assert grafted.base.norm3.running_mean.abs().max() == 0
    assert torch.equal(grafted.base.dense3.weight, recipe.graft(ReusedPart(3, 1)).base.dense3.weight)
    first, second = recipe.stages(ReusedPart(3, 1))
    assert not any("dense3" in name for name in first.stage.frozen)
    assert any("dense2" in name for name in first.stage.frozen)
    assert not any("dense2" in name for name in second.stage.frozen)
    assert (first.stage.name, first.stage.fresh) == ("frozen, 1 fresh", 1)


@pytest.mark.parametrize(
    "text",
    [
        "constant:0.2",
        "power:0.2,50",
        "exponential:0.2,50",
        "plateau:0.2,least=0.01",
        "piecewise:rates=[0.2,0.1],bounds=[20]",
        "cosine:0.2,least=0.05",
        "one-cycle:0.2",
        "warm-up:10,cosine:0.2",
    ],
)
def test_every_schedule_scales_to_a_multiple_of_itself(text):
    schedule, span = Schedule.parse(text), Span(steps=20, epochs=5)
    smaller = scaled(schedule, 0.25)
    for step in range(0, 100, 7):
        assert smaller.at(step, span) == pytest.approx(0.25 * schedule.at(step, span))


def test_a_schedule_without_a_rate_is_refused():
    class Odd(Schedule, name="odd-for-this-test"):
        pace: float = param(default=1.0)

        def at(self, step, span, watch=None):
            return self.pace

    try:
        with pytest.raises(UsageError, match="odd-for-this-test has no rate"):
            scaled(Odd(), 0.1)
    finally:
        del Schedule.members["odd-for-this-test"]


def test_dropping_goes_down_to_the_last_block_of_the_base():
    cut, seen = ReusedPart(3), []
    while cut is not None:
        seen.append(cut)
        cut = Drop().after(cut, images=10)
    assert seen == [ReusedPart(3), ReusedPart(2), ReusedPart(1)]


def test_replacing_keeps_the_size_and_leaves_a_block_of_the_base():
    cut, seen = ReusedPart(5), []
    while cut is not None:
        seen.append((cut.reuse, cut.fresh, cut.taken))
        cut = Replace(layers=2).after(cut, images=10)
    assert seen == [(5, 0, 5), (5, 2, 3), (5, 4, 1)]


@pytest.mark.parametrize(("images", "after"), [(499.9, ReusedPart(3)), (500, ReusedPart(4, 1))])
def test_the_amount_of_data_decides(images, after):
    assert ByData().after(ReusedPart(4), images) == after
    assert ByData(2000).after(ReusedPart(4), images) == ReusedPart(3)


def test_text_forms():
    assert Remedy.parse("by-data:100,layers=2,rounds=3") == ByData(100, layers=2, rounds=3)
    assert str(Drop(rounds=2)) == "drop:rounds=2"
