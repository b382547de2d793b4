"""Choose, cut, recover: what each recovery trains, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from weightsmith.core.errors import UsageError
from weightsmith.data.tensors import Data
from weightsmith.networks.card import card_of
from weightsmith.networks.layer_plan import LayerPlan
from weightsmith.reducing.reduce import reduce
from weightsmith.training.loop import train
from weightsmith.training.run import TrainRun

pytestmark = pytest.mark.choice

QUICK = {"latency": False, "random": 0}


def test_fine_tuning_trains_the_cut_network_and_says_what_it_brought(trained: TrainRun, digits: Data) -> None:
    options: dict[str, Any] = {"target": "params:0.3", "refit": "none", "recover": "fine-tune:4,rate=0.05"}
    small = reduce(trained, digits, by="random", **options, **QUICK)
    measured = small.record.measured
    assert measured.reduced.value > measured.cut.value + 0.1
    assert len(small.record.training) == 1
    assert len(small.record.training[0].history.rows) == 4
    assert [step.operation.split()[0] for step in card_of(small.network).lineage.ancestors][-1] == "reduced"


def test_rounds_take_out_a_part_each_and_end_where_one_cut_would(trained: TrainRun, digits: Data) -> None:
    once = reduce(trained, digits, by="angles:90", target="params:0.3", **QUICK)
    rounds = reduce(trained, digits, by="angles:90", target="params:0.3", recover="iterate:3,epochs=2", **QUICK)
    assert rounds.record.reduced.parameters == once.record.reduced.parameters
    sizes = [record.parameters for record in rounds.record.training]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3
    whole = rounds.record.whole.parameters
    for number, size in enumerate(sizes, start=1):
        assert size / whole == pytest.approx(0.3 ** (number / 3), abs=0.03)
    assert rounds.record.measured.reduced.value > once.record.measured.reduced.value - 0.02


def test_kept_units_are_numbered_as_in_the_network_that_came_in(trained: TrainRun, digits: Data) -> None:
    """Without training in between, the input weights of the kept units are those they had."""
    rounds = reduce(
        trained, digits, by="magnitude", target="params:0.4", recover="iterate:3,epochs=1,rate=1e-12", **QUICK
    )
    (site,) = rounds.sites
    before, after = trained.network.dense1.weight, rounds.network.dense1.weight
    torch.testing.assert_close(after, before[list(site.kept)], atol=1e-6, rtol=0)
    assert site.before == 40
    assert site.after == after.shape[0]


def test_rounds_without_a_target_end_when_nothing_more_is_found(trained: TrainRun, digits: Data) -> None:
    rounds = reduce(trained, digits, by="angles:1", recover="iterate:4,epochs=1,rate=1e-12", **QUICK)
    assert any("nothing more to remove" in note for note in rounds.record.notes)
    assert len(rounds.record.training) < 4


def test_rewinding_gives_the_kept_units_their_earlier_weights(trained: TrainRun, digits: Data) -> None:
    small = reduce(trained, digits, by="magnitude", target="params:0.5", recover="rewind:2", **QUICK)
    small.network.requires_grad_(False)
    (site,) = small.sites
    earlier = trained.checkpoint(2)
    record = small.record.training[0]
    assert len(record.history.rows) == 8
    assert record.history.rows[:2] == trained.history.rows[:2]
    assert small.network.dense1.weight.shape[0] == site.after
    earlier.requires_grad_(False)
    start = earlier.dense1.weight[list(site.kept)]
    moved = float((small.network.dense1.weight - start).norm())
    far = float((small.network.dense1.weight - earlier.dense1.weight[: site.after]).norm())
    assert moved < far


def test_rewinding_needs_the_run(trained: TrainRun, digits: Data) -> None:
    with pytest.raises(UsageError, match="needs the training run"):
        reduce(trained.network, digits, by="random", target="params:0.5", recover="rewind:2", **QUICK)


def test_rewinding_from_a_folder(digits: Data, tmp_path: Path) -> None:
    train("mlp:20", digits, epochs=3, schedule=0.05, keep=1, out=tmp_path / "run")
    small = reduce(tmp_path / "run", digits, by="random", target="params:0.5", recover="rewind:1", **QUICK)
    assert small.network.dense1.out_features < 20
    assert len(small.record.training[0].history.rows) == 3


def test_recalibration_is_a_recovery(digits: Data) -> None:
    run = train("mlp:30,30,batch_norm=before", digits, epochs=4, schedule=0.05)
    whole, plain = (
        reduce(run, digits, by="random", target="params:0.5", recover=how, **QUICK)
        for how in ("recalibrate:1000,batch=100", None)
    )
    assert whole.record.measured.cut.value == plain.record.measured.reduced.value
    assert not torch.equal(whole.network.norm2.running_mean, plain.network.norm2.running_mean)
    assert torch.equal(whole.network.dense1.weight, plain.network.dense1.weight)


def test_rounds_by_a_plan_alone_take_out_a_part_each(digits: Data) -> None:
    run = train("mlp:40,30", digits, epochs=2, schedule=0.05)
    plan = LayerPlan({"dense1": 0.25, "dense2": 0.64}, {"dense1": 2600, "dense2": 1230}, "by hand", 0.4)
    rounds = reduce(run, digits, by="magnitude", plan=plan, recover="iterate:2,epochs=1", **QUICK)
    assert [site.after for site in rounds.sites] == [10, 19]
    between = rounds.record.training[0].settings["network"]
    assert between.startswith("mlp:20,24")
