from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks import mlp
from weightsmith.training.clipping import ClipGlobalNorm, ClipValue
from weightsmith.training.distributed import Team
from weightsmith.training.engines.stepping import NotFinite, Step, Stepper
from weightsmith.training.optimisers import Momentum
from weightsmith.training.penalties import L1, L2, MaxNorm
from weightsmith.training.plan import make_plan
from weightsmith.training.settings import Settings

Y = torch.arange(12) % 3
X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)) + 2 * F.one_hot(Y, 4)


def stepper(network: Any = None, team: Team = Team(), **options: Any) -> tuple[Stepper, nn.Module]:  # noqa: B008
    given = {"optimiser": "sgd", "schedule": 0.1, "loss": "cross-entropy", "batch": 12, "epochs": 1, **options}
    plan = make_plan(mlp(4, 8, 3).double() if network is None else network, (X, Y), Settings.read(**given))
    plan.network.train()
    return Stepper(plan, team), plan.network


def gradients(network: nn.Module, price: Any = lambda network: 0.0) -> list[Tensor]:
    value = F.cross_entropy(network(X.double()), Y) + price(network)
    return list(torch.autograd.grad(value, list(network.parameters())))


def squares(network: nn.Module) -> Tensor:
    return 0.3 * sum((p**2).sum() for p in network.parameters() if p.dim() > 1)


def test_a_step_tells_loss_hits_and_rows_before_the_update():
    step, network = stepper()
    scores = network(X.double()).detach()
    done = step(X.double(), Y, 12, 0.5)
    assert done == Step(
        pytest.approx(F.cross_entropy(scores, Y).item(), rel=1e-12), int((scores.argmax(1) == Y).sum()), 12
    )
    assert F.cross_entropy(network(X.double()), Y).item() < done.loss


@pytest.mark.parametrize("watched", [False, True])
def test_the_order_is_gradient_penalty_clip_update(watched):
    """θ ← θ − η·clip(g + ∂penalty): each other order gives other weights."""
    step, network = stepper(penalties=L2(0.3), clip=ClipGlobalNorm(0.7))
    raw = gradients(network, squares)
    length = math.sqrt(sum(float((g**2).sum()) for g in raw))
    assert length > 0.7
    expected = [p.detach() - 0.5 * g * 0.7 / length for p, g in zip(network.parameters(), raw, strict=True)]
    step(X.double(), Y, 12, 0.5, watched=watched)
    for value, target in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(value.detach(), target, rtol=1e-12, atol=1e-14)
    assert step.clipped == 1


def test_projections_come_after_the_update():
    step, network = stepper(penalties=MaxNorm(0.05))
    step(X.double(), Y, 12, 0.5)
    assert float(network.dense1.weight.detach().norm(dim=1).max()) <= 0.05 * (1 + 1e-12)


def test_proximal_steps_are_as_long_as_those_of_the_gradient():
    """With momentum μ a gradient moves the weights 1/(1 − μ) times; the threshold of a proximal step follows."""
    step, _ = stepper(optimiser=Momentum(0.75), penalties=L2(0.1))
    rates: list[float] = []
    step.penalisers[0].after_step = rates.append  # type: ignore[method-assign]
    step(X.double(), Y, 12, 0.5)
    assert rates == [pytest.approx(2.0)]


def test_several_penalties_add_up():
    step, network = stepper(penalties=[L2(0.3), L1(0.01)])
    weights = [p.detach().clone() for p in network.parameters()]
    raw = gradients(
        network,
        lambda network: squares(network) + 0.01 * sum(p.abs().sum() for p in network.parameters() if p.dim() > 1),
    )
    step(X.double(), Y, 12, 0.5)
    for value, old, gradient in zip(network.parameters(), weights, raw, strict=True):
        moved = (old - value.detach()) / 0.5
        # L1 may be a proximal step (exact zeros): it then moves as far wherever the weight keeps its sign.
        kept = value.detach() * old > 0 if value.dim() > 1 else torch.ones_like(old, dtype=torch.bool)
        torch.testing.assert_close(moved[kept], gradient[kept], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("watched", [False, True])
def test_a_loss_that_is_not_finite_leaves_the_weights_alone(bad, watched):
    step, network = stepper(penalties=MaxNorm(0.01), clip=ClipValue(0.1))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(NotFinite):
        step(X.double() * bad, Y, 12, 0.5, watched=watched)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_clipped_steps_are_counted_from_the_start_of_the_epoch():
    step, _ = stepper(clip=ClipValue(1e-9))
    for _ in range(3):
        step(X.double(), Y, 12, 0.1)
    assert step.clipped == 3
    step.start_epoch()
    assert step.clipped == 0


def test_the_rate_given_is_the_one_used():
    moved = []
    for rate in (0.25, 0.5):
        step, network = stepper()
        before = network.output.weight.detach().clone()
        step(X.double(), Y, 12, rate)
        moved.append(before - network.output.weight.detach())
    torch.testing.assert_close(2 * moved[0], moved[1], rtol=1e-12, atol=1e-14)


class Pretended(Team):
    """One of two processes, the other of which has a gradient and a loss that are handed in."""

    def pretend(self, gradient: Tensor, others: Tensor) -> Pretended:
        object.__setattr__(self, "_other", [gradient, others])
        return self

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor.add_(self._other.pop(0))


@pytest.mark.parametrize("share", [5, 12, 0])
def test_shares_are_weighted_by_their_rows(share):
    """The gradient of the mean over the whole batch, whatever the sizes of its parts; a part may be empty."""
    whole, _ = stepper()
    whole._gradient(X.double(), Y, 12, watched=False)
    expected = whole.flat.gradient.clone()
    rest, _ = stepper()
    if share < 12:
        rest._gradient(X[share:].double(), Y[share:], 12, watched=False)
    loss = F.cross_entropy(mlp(4, 8, 3).double()(X[share:].double()), Y[share:]).item() if share < 12 else 0.0
    weight = (12 - share) / 12
    team = Pretended(0, 2).pretend(
        rest.flat.gradient * weight, torch.tensor([loss * (12 - share), 2], dtype=torch.float64)
    )
    ours, network = stepper(team=team)
    scores = network(X.double()).detach()
    step = ours._gradient(X[:share].double(), Y[:share], 12, watched=False)
    torch.testing.assert_close(ours.flat.gradient, expected, rtol=1e-11, atol=1e-13)
    assert step.loss == pytest.approx(F.cross_entropy(scores, Y).item(), rel=1e-11)
    assert step.rows == 12
    assert step.correct == 2 + int((scores[:share].argmax(1) == Y[:share]).sum())


def test_a_factor_of_a_layer_multiplies_what_it_moves():
    moved = []
    for rates in ({}, {"dense1": 0.5, "output": 0.0}):
        made, _ = stepper()
        made.scale(rates)
        before = {name: value.detach().clone() for name, value in zip(made.flat.names, made.flat.values, strict=True)}
        made(X.double(), Y, len(X), 0.1)
        moved.append(
            {name: value.detach() - before[name] for name, value in zip(made.flat.names, made.flat.values, strict=True)}
        )
    for name, plain in moved[0].items():
        factor = 0.5 if name.startswith("dense1.") else 0.0
        torch.testing.assert_close(moved[1][name], factor * plain)
    with pytest.raises(UnknownName, match="layer with trainable parameters"):
        stepper()[0].scale({"dense9": 1.0})
    with pytest.raises(UsageError, match="factor of dense1 is -1"):
        stepper()[0].scale({"dense1": -1})
