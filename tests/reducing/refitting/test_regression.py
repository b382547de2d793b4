"""The regression of one layer, against a dense solver that has all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.reducing.refitting.flow import Values
from weightsmith.reducing.refitting.regression import PatchRegression, Variance, norm_scale


@torch.no_grad()
@pytest.mark.parametrize("summed", [False, True])
def test_a_layer_is_solved_towards_what_it_gave_and_what_the_sum_lacks(summed: bool) -> None:
    torch.manual_seed(0)
    old, new = nn.Linear(4, 3), nn.Linear(2, 3)
    new.weight.copy_(old.weight[:, :2])
    new.bias.copy_(old.bias)
    whole = torch.randn(60, 4)
    given = whole[:, :2] + 0.1 * torch.randn(60, 2)  # what reaches it in the cut network
    drift = (torch.randn(60, 3), torch.randn(60, 3)) if summed else None
    problem = PatchRegression(old, new, torch.arange(3), scale=2.0, constant=True, generator=np.random.default_rng(0))
    for rows in (slice(0, 25), slice(25, 60)):
        part = None if drift is None else (drift[0][rows], drift[1][rows])
        problem.add(Values(given[rows], whole[rows], old(whole[rows]), part))
    change, total = problem.solve(1e-9)
    targets = old(whole) + (0.0 if drift is None else 2.0 * (drift[0] - drift[1]))
    rows = torch.cat([given, torch.ones(60, 1)], dim=1).double().numpy()
    solved, *_ = np.linalg.lstsq(rows, targets.double().numpy(), rcond=None)
    np.testing.assert_allclose(new.weight.numpy() + change.weight, solved[:2].T, atol=1e-5)
    np.testing.assert_allclose(new.bias.numpy() + change.bias, solved[2], atol=1e-5)
    assert total == pytest.approx(60 * float(targets.double().var(dim=0, unbiased=False).sum()), rel=1e-5)
    assert (problem.rows, problem.summed) == (60, summed)


def test_variance_adds_up_over_blocks() -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, (50, 4))
    seen = Variance(4)
    for block in (rows[:20], rows[20:]):
        seen.add(block)
    assert seen.total == pytest.approx(float(np.square(rows - rows.mean(axis=0)).sum()))


def test_outputs_that_a_norm_silences_carry_no_correction() -> None:
    network = nn.Sequential(nn.BatchNorm1d(3))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([2.0, 0.0, 1.0]))
        network[0].running_var.fill_(4.0)
    found = norm_scale(network, "0", torch.tensor([0, 1]))
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == pytest.approx([1.0, 0.0], rel=1e-4)
    assert norm_scale(network, None, torch.tensor([0])) == 1.0
