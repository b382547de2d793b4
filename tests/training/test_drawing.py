from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from weightsmith.networks.models.dropout import Dropout
from weightsmith.training.drawing import batches_of, begin_epoch, endless, own_random_state
from weightsmith.training.plan import make_plan
from weightsmith.training.settings import Settings

ROWS = 23


def plan_for(network=None, batch=5, seed=3):
    settings = Settings.read(optimiser="sgd", schedule=0.1, loss="cross-entropy", batch=batch, epochs=2, seed=seed)
    x = torch.arange(ROWS * 2, dtype=torch.float32).reshape(ROWS, 2) / ROWS
    return make_plan(network or nn.Linear(2, 3), (x, torch.arange(ROWS) % 3), settings)


def test_an_epoch_has_every_row_once_in_batches_of_the_size_asked_for():
    batches = batches_of(plan_for(), 1)
    assert [len(rows) for rows in batches] == [5, 5, 5, 5, 3]
    assert sorted(torch.cat(batches).tolist()) == list(range(ROWS))


def test_the_order_depends_on_seed_and_epoch_alone():
    first, again = batches_of(plan_for(), 4), batches_of(plan_for(nn.Linear(2, 7)), 4)
    assert torch.equal(torch.cat(first), torch.cat(again))
    others = [batches_of(plan_for(), 5), batches_of(plan_for(seed=4), 4)]
    assert all(not torch.equal(torch.cat(first), torch.cat(other)) for other in others)


def test_a_single_row_left_over_is_left_out_for_batch_norm_and_is_another_each_time():
    plan = plan_for(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3)), batch=11)
    epochs = [torch.cat(batches_of(plan, epoch)).tolist() for epoch in range(1, 6)]
    assert [len(rows) for rows in epochs] == [ROWS - 1] * 5
    assert len({frozenset(range(ROWS)) - frozenset(rows) for rows in epochs}) > 1


@pytest.mark.parametrize("dropout", [Dropout(0.5), nn.Dropout(0.5)], ids=["ours", "torch's own"])
def test_dropout_draws_the_same_again_for_the_same_epoch_and_process_only(dropout):
    plan = plan_for(nn.Sequential(nn.Linear(2, 64), dropout, nn.Linear(64, 3)))
    x = torch.ones(4, 2)

    def drawn(epoch, rank):
        with own_random_state(), torch.no_grad():
            begin_epoch(plan, epoch, rank)
            return plan.network(x)

    assert torch.equal(drawn(1, 0), drawn(1, 0))
    assert not torch.equal(drawn(1, 0), drawn(2, 0))
    assert not torch.equal(drawn(1, 0), drawn(1, 1))


def test_the_global_generator_is_put_back():
    before = torch.random.get_rng_state()
    with own_random_state():
        begin_epoch(plan_for(), 1)
        torch.rand(3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_endless_goes_on_into_the_next_epoch():
    plan = plan_for()
    expected = [*batches_of(plan, 1), *batches_of(plan, 2)[:2]]
    with own_random_state():
        found = list(itertools.islice(endless(plan), len(expected)))
    for (x, y), rows in zip(found, expected, strict=True):
        assert torch.equal(x, plan.train.x[rows])
        assert torch.equal(y, plan.train.y[rows])
