"""Batch norms measured anew: what they then hold is the mean and variance of what they are given."""

from __future__ import annotations

import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.recovery.recalibrate import recalibrated
from weightsmith.reducing.recovery.recover import Recalibrate


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
