from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import weightsmith as ws
from weightsmith import data
from weightsmith.core.errors import UsageError
from weightsmith.networks.models.dropout import Dropout
from weightsmith.training import finder
from weightsmith.training.finder import RateCurve, find_rate
from weightsmith.training.loop import train
from weightsmith.training.optimisers import Sgd
from weightsmith.training.run import Stopped


@pytest.fixture(scope="module")
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes of points in the plane, stretched along one axis."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(64, 2, generator=generator) * torch.tensor([2.0, 0.5])
    return x, (x[:, 0] + x[:, 1] > 0).long()


def linear(seed: int = 0) -> nn.Module:
    layer = nn.Linear(2, 2, bias=False)
    nn.init.normal_(layer.weight, std=0.5, generator=torch.Generator().manual_seed(seed))
    return layer


def test_on_a_quadratic_the_sweep_leaves_soon_after_the_rate_at_which_gradient_descent_must_diverge(rows):
    """The loss mean Σ (y − Wx)² in full batches: descent diverges beyond 1/λ_max of XᵀX/n."""
    x, _ = rows
    limit = 1 / float(torch.linalg.eigvalsh(x.T @ x / len(x)).max())
    curve = find_rate(linear(), rows, optimiser="sgd", loss="squared-error", batch=64, normalise="none", steps=200)
    assert curve.stopped is Stopped.DIVERGED
    assert limit < curve.rates[-1] < 5 * limit
    assert curve.rates[-1] == pytest.approx(1e-6 * 1e7 ** ((len(curve.rates) - 1) / 199))
    assert limit / 1000 < curve.suggestion < limit
    assert curve.tenth < limit
    assert "the loss diverged" in curve.reason
    assert f"{curve.rates[-1]:.3g}" in curve.reason


def test_the_losses_are_those_of_plain_gradient_descent(rows):
    x, y = rows
    network = linear()
    curve = find_rate(network, rows, optimiser="sgd", batch=64, least=1e-3, most=0.1, steps=10, normalise="none")
    weight = network.weight.detach().double().clone().requires_grad_()
    for rate, loss in zip(np.geomspace(1e-3, 0.1, 10), curve.losses, strict=True):
        expected = nn.functional.cross_entropy(x.double() @ weight.T, y)
        assert loss == pytest.approx(expected.item(), rel=1e-4)
        (gradient,) = torch.autograd.grad(expected, weight)
        weight = (weight - rate * gradient).detach().requires_grad_()
    assert curve.stopped is Stopped.DONE


@pytest.mark.parametrize("batch", [16, 9])  # 64 rows in nines leave one over, which batch norm cannot take
def test_batches_dropout_and_batch_norm_are_those_of_training(rows, batch):
    network = nn.Sequential(
        nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), Dropout(0.3), nn.Linear(8, 2)
    )
    curve = find_rate(network, rows, batch=batch, least=0.01, most=0.01 + 1e-9, steps=14, normalise="none", seed=3)
    run = train(network, rows, schedule=0.01, batch=batch, epochs=2, normalise="none", seed=3, diagnose=False)
    per_epoch = 64 // batch
    for row in run.history.rows:
        first = (row.epoch - 1) * per_epoch
        seen = curve.losses[first : first + per_epoch]
        assert np.mean(seen) == pytest.approx(row.train_loss, rel=1e-5)


def test_the_network_and_the_global_generator_stay_as_they_are(rows):
    network = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).eval()
    before, state = copy.deepcopy(network.state_dict()), torch.random.get_rng_state()
    curve = find_rate(network, rows, batch=16, steps=30, normalise="none")
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert not network.training
    assert torch.equal(torch.random.get_rng_state(), state)
    assert find_rate(network, rows, batch=16, steps=30, normalise="none") == curve
    assert find_rate(network, rows, batch=16, steps=30, normalise="none", seed=1).losses != curve.losses
    assert RateCurve.from_json(curve.to_json()) == curve


def test_the_suggested_rate_learns_digits_and_much_smaller_ones_do_not():
    digits = data.load("digits")
    curve = find_rate("mlp:32", digits, optimiser=Sgd())
    assert curve.suggestion / 10 < curve.tenth < curve.suggestion * 10

    def reached(rate: float) -> float:
        """The loss at the end of 60 steps of (all but) this rate."""
        return float(
            np.mean(find_rate("mlp:32", digits, optimiser="sgd", least=rate, most=rate * 1.01, steps=60).losses[-10:])
        )

    assert reached(curve.suggestion) < 0.6 * reached(curve.suggestion / 100)


def test_where_nothing_is_learnt_nothing_is_suggested(rows):
    x, _ = rows
    noise = torch.randint(0, 2, (64,), generator=torch.Generator().manual_seed(1))
    for curve in (
        find_rate(linear(), rows, most=1e-5, batch=8, normalise="none"),
        find_rate(nn.Sequential(linear(), nn.Linear(2, 2)), (x, noise), most=1e-3, batch=8, normalise="none"),
    ):
        assert (curve.suggestion, curve.tenth, curve.stopped) == (None, None, Stopped.DONE)
        assert "no rate is suggested" in curve.reason


def test_a_loss_that_is_nan_at_once_ends_the_sweep_in_words(rows):
    network = linear()
    with torch.no_grad():
        network.weight.fill_(math.nan)
    curve = find_rate(network, rows, normalise="none")
    assert (curve.stopped, curve.losses, curve.suggestion) == (Stopped.DIVERGED, (), None)
    assert curve.reason.startswith("the loss is NaN or infinite at the rate 1e-06")


@pytest.mark.parametrize(
    "wrong", [{"least": 0.0}, {"least": 1.0, "most": 0.1}, {"most": math.inf}, {"steps": 5}, {"least": math.nan}]
)
def test_a_sweep_that_cannot_be_made_is_refused(rows, wrong):
    with pytest.raises(UsageError, match="a sweep from .* the rates must be positive and grow"):
        find_rate(linear(), rows, **wrong)


@settings(deadline=None)
@given(st.integers(10, 60), st.floats(1, 8), st.data())
def test_smoothing_is_a_weighted_line_around_each_point(count, width, draw):
    values = np.array(draw.draw(st.lists(st.floats(-10, 10), min_size=count, max_size=count)))
    levels, slopes = finder._lines(count, width)
    index = draw.draw(st.integers(0, count - 1))
    distance = np.arange(count) - index
    slope, level = np.polyfit(distance, values, 1, w=np.exp(-0.25 * (distance / width) ** 2))
    assert (levels @ values)[index] == pytest.approx(level, abs=1e-6)
    assert (slopes @ values)[index] == pytest.approx(slope, abs=1e-6)


def test_the_steepest_fall_and_the_minimum_of_a_known_curve():
    steps = np.arange(100)
    losses = np.where(steps < 40, 2.0, 1.25 + 0.75 * np.cos(np.pi * (steps - 40) / 40))
    losses[97:] = 1e6  # the leap at the end of a sweep that diverged
    smoothed, steepest, lowest = finder._read(losses.tolist(), 4.0)
    assert abs(steepest - 60) <= 1
    assert abs(lowest - 80) <= 1
    assert smoothed[:85] == pytest.approx(losses[:85], abs=0.1)


@pytest.mark.parametrize(
    ("losses", "last"),
    [
        ([2.0] * 20 + [7.9] * 40, None),  # below four times the lowest, however long
        ([2.0] * 20 + [8.1] * 400, 70),  # above it: as soon as the running mean is
        ([2.0] * 20 + [0.1] * 40 + [1.5] * 40, None),  # from a low level: below 0.1 + 3/4 of the first
        ([2.0] * 20 + [0.1] * 40 + [2.0] * 40, 70),
        ([-2.0] * 20 + [3.0] * 40, None),  # losses below zero have a scale too
        ([-2.0] * 20 + [9.0] * 40, 30),
    ],
)
def test_when_a_loss_has_left(losses, last):
    watch = finder._DivergenceDetector()
    ended = next((index for index, loss in enumerate(losses) if watch.left(loss)), None)
    assert (ended is None) == (last is None)
    assert last is None or ended <= last


def test_it_prints_in_one_line():
    found = ws.find_rate("mlp:8", ws.data.load("digits"), steps=12)
    assert str(found).startswith("12 rates from 1e-06 to 10: ")
    assert repr(found) == f"<RateCurve: {found}>"
    assert "\n" not in str(found)
