from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.reducing.by_hand import without_units
from tests.reducing.networks import inputs, network
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.networks.card import card_of, weights_digest
from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.recovery.recover import (
    Distill,
    FineTune,
    Iterate,
    Recalibrate,
    Recover,
    Rewind,
    fine_tuned,
    recalibrated,
    round_targets,
)

# options


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("fine-tune", FineTune()),
        ("fine-tune:3", FineTune(3)),
        ("fine-tune:3,rate=0.05,batch=16", FineTune(3, rate=0.05, batch=16)),
        ("fine-tune:schedule=cosine:0.1,augment=crop-flip", FineTune(schedule="cosine:0.1", augment="crop-flip")),
        ('iterate:2,epochs=1,optimiser="adamw:decay=0.1"', Iterate(2, 1, optimiser="adamw:decay=0.1")),
        ("iterate:penalties=[l2:1e-4,max-norm:2]", Iterate(penalties=("l2:0.0001", "max-norm:2.0"))),
        ("distill:1,rate=0.001", Distill(1, rate=0.001)),
        ("rewind:3", Rewind(3)),
        ("rewind:3,2,weights=false", Rewind(3, epochs=2, weights=False)),
    ],
)
def test_text_forms(text, option):
    assert Recover.parse(text) == option
    assert Recover.parse(str(option)) == option
    assert Recover.from_dict(option.to_dict()) == option


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FineTune(rate=0.1, schedule="cosine:0.1"), "fine-tune: rate=0.1 and schedule=cosine:0.1 both"),
        (lambda: Iterate(rate=0.1, schedule="cosine:0.1"), "iterate: rate=0.1 and schedule"),
        (lambda: FineTune(optimiser="sdg"), "did you mean 'sgd'"),
        (lambda: FineTune(schedule="cosinus:1"), "did you mean 'cosine'"),
        (lambda: FineTune(augment="flip-crop"), "unknown augment"),
        (lambda: Iterate(penalties=("l3:1",)), "unknown penalty"),
        (lambda: FineTune(0), "fine-tune: epochs must be ≥ 1"),
        (lambda: Iterate(0), "iterate: rounds must be ≥ 1"),
        (lambda: Rewind(-1), "rewind: epoch must be ≥ 0"),
        (lambda: Distill(0), "distill: rows must be ≥ 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make()


@given(st.floats(0.01, 1), st.integers(1, 12))
def test_every_round_takes_the_same_part_of_what_is_left(share, rounds):
    targets = round_targets(share, rounds)
    assert len(targets) == rounds
    assert targets[-1] == share
    for before, after in zip((1.0, *targets), targets, strict=False):
        assert after / before == pytest.approx(share ** (1 / rounds))


@pytest.mark.parametrize(("share", "rounds"), [(0, 3), (1.2, 3), (float("nan"), 3), (0.5, 0), (0.5, 1.5)])
def test_shares_and_rounds_that_are_none(share, rounds):
    with pytest.raises(UsageError, match="must be"):
        round_targets(share, rounds)


# fine-tuning


def test_fine_tuning_is_training_with_the_networks_own_normalisation(plain, digits):
    small = without_units(0, 5)(plain.network)
    before = weights_digest(small)
    run = fine_tuned(small, digits, FineTune(2, rate=0.02, batch=50, optimiser="adam", penalties=("l2:1e-3",)), seed=4)
    same = ws.train(
        small, digits, epochs=2, schedule=0.02, batch=50, optimiser="adam", penalties="l2:1e-3", seed=4
    )  # fmt: skip
    assert weights_digest(run.network) == weights_digest(same.network) != before
    assert weights_digest(small) == before
    assert (run.record.settings["schedule"], run.record.settings["batch"]) == ("constant:0.02", 50)
    assert str(run.network.architecture) == "mlp:10,input_shape=[1,8,8],classes=10"
    assert card_of(run.network).normalisation == card_of(plain.network).normalisation
    assert card_of(run.network).lineage.parent == before


def test_fine_tuning_brings_a_cut_network_back(plain, digits):
    small = without_units(*range(8))(plain.network)
    run = fine_tuned(small, digits, Iterate(3, 4, schedule="cosine:0.1"), seed=0)
    assert len(run.history) == 4
    assert ws.evaluate(run.network, digits).correct > ws.evaluate(small, digits).correct + 36


def test_a_module_of_the_users_own_is_fed_as_it_is_evaluated(digits):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 10))
    normalised = dataclasses.replace(digits, normalisation=ws.Normalisation((5.0,), (2.0,)))
    run = fine_tuned(network, normalised, FineTune(1))
    assert run.record.settings["normalise"] == str(card_of(network).normalisation) == "none"


def test_statistics_are_those_of_what_the_norm_is_given() -> None:
    whole, x = mlp(10, 6, 3, batch_norm="before"), torch.randn(40, 10)
    whole.norm1.running_mean.fill_(7.0)
    whole.norm1.num_batches_tracked.fill_(99)  # it has seen much else before
    new = recalibrated(whole, x, Recalibrate(rows=40, batch=10))
    with torch.no_grad():
        given = whole.dense1(x).reshape(10, 4, 6).movedim(0, 1)  # each batch takes every fourth row
    torch.testing.assert_close(new.norm1.running_mean, given.mean(dim=(0, 1)))
    torch.testing.assert_close(new.norm1.running_var, given.var(dim=1).mean(dim=0))
    assert float(whole.norm1.running_mean[0]) == 7.0
    assert not new.training
    assert new.norm1.momentum == whole.norm1.momentum
    assert all(torch.equal(a, b) for a, b in zip(new.parameters(), whole.parameters(), strict=True))


def test_a_short_last_batch_does_not_count() -> None:
    whole, x = mlp(10, 6, 3, batch_norm="before"), torch.randn(45, 10)
    first = recalibrated(whole, x, Recalibrate(rows=45, batch=10))
    chosen = x[torch.linspace(0, 44, 40).long()]
    assert torch.equal(
        first.norm1.running_mean, recalibrated(whole, chosen, Recalibrate(rows=40, batch=10)).norm1.running_mean
    )
    few = recalibrated(whole, x[:7], Recalibrate(rows=100, batch=10))
    with torch.no_grad():
        torch.testing.assert_close(few.norm1.running_mean, whole.dense1(x[:7]).mean(dim=0))


def test_a_residual_network_keeps_its_card_and_runs() -> None:
    new = recalibrated(network("resnet conv"), inputs("resnet conv", 32), Recalibrate(rows=32, batch=16))
    assert isinstance(new, nn.Module)
    assert new(inputs("resnet conv", 2)).shape == (2, 5)


def test_without_batch_norm_there_is_nothing_to_measure() -> None:
    with pytest.raises(UsageError, match="no batch norm"):
        recalibrated(mlp(10, 6, 3), torch.randn(8, 10), Recalibrate())


def test_rows_sorted_by_class_are_mixed() -> None:
    """Two kinds of rows, one after the other: every batch must see both."""
    whole = mlp(2, 3, 2, batch_norm="before")
    x = torch.cat([torch.randn(50, 2) - 5, torch.randn(50, 2) + 5])
    new = recalibrated(whole, x, Recalibrate(rows=40, batch=10))
    with torch.no_grad():
        given = whole.dense1(x)
    torch.testing.assert_close(new.norm1.running_mean, given.mean(dim=0), rtol=0.3, atol=1)
    torch.testing.assert_close(new.norm1.running_var, given.var(dim=0), rtol=0.3, atol=0.3)
