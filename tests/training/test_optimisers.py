from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from weightsmith.core.errors import UsageError, WeightsmithError
from weightsmith.training.loop import train
from weightsmith.training.optimisers import Momentum, Nesterov, Optimiser, RmsProp

STEPS = 10
CURVATURE = [0.5, 1.0, 3.0, 10.0, 0.01, 2.0, 7.0]
START = [1.0, -2.0, 0.5, 0.3, 4.0, -0.1, 0.0]
GOAL = [0.0, 1.0, -1.0, 0.2, -3.0, 0.1, 1e-3]


def rate_at(step: int) -> float:
    """Changes half way, so that forms which only agree at a constant rate are distinguished."""
    return 0.05 if step <= STEPS // 2 else 0.01


def slope(index: int, x: float) -> float:
    return CURVATURE[index] * (x - GOAL[index])


def sgd(g: Callable[[float], float], x: float) -> Iterator[float]:
    for t in itertools.count(1):
        x -= rate_at(t) * g(x)
        yield x


def momentum(g: Callable[[float], float], x: float, mu: float = 0.9) -> Iterator[float]:
    b = 0.0
    for t in itertools.count(1):
        b = mu * b + g(x)
        x -= rate_at(t) * b
        yield x


def nesterov(g: Callable[[float], float], x: float, mu: float = 0.9) -> Iterator[float]:
    b = 0.0
    for t in itertools.count(1):
        now = g(x)
        b = mu * b + now
        x -= rate_at(t) * (now + mu * b)
        yield x


def rmsprop(g: Callable[[float], float], x: float, rho: float = 0.9, eps: float = 1e-8) -> Iterator[float]:
    v = 0.0
    for t in itertools.count(1):
        now = g(x)
        v = rho * v + (1 - rho) * now**2
        x -= rate_at(t) * now / (math.sqrt(v) + eps)
        yield x


def adam(
    g: Callable[[float], float], x: float, decay: float = 0.0, b1: float = 0.9, b2: float = 0.999
) -> Iterator[float]:
    m = v = 0.0
    for t in itertools.count(1):
        now = g(x)
        x -= rate_at(t) * decay * x
        m = b1 * m + (1 - b1) * now
        v = b2 * v + (1 - b2) * now**2
        x -= rate_at(t) * (m / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + 1e-8)
        yield x


def nadam(
    g: Callable[[float], float], x: float, psi: float = 0.004, b1: float = 0.9, b2: float = 0.999
) -> Iterator[float]:
    def mu(t: int) -> float:
        return b1 * (1 - 0.5 * 0.96 ** (t * psi))

    m = v = 0.0
    for t in itertools.count(1):
        now = g(x)
        m = b1 * m + (1 - b1) * now
        v = b2 * v + (1 - b2) * now**2
        so_far = math.prod(mu(i) for i in range(1, t + 1))
        ahead = mu(t + 1) * m / (1 - so_far * mu(t + 1)) + (1 - mu(t)) * now / (1 - so_far)
        x -= rate_at(t) * ahead / (math.sqrt(v / (1 - b2**t)) + 1e-8)
        yield x


TEXTBOOK = {
    "sgd": sgd,
    "momentum": momentum,
    "momentum:0.5": lambda g, x: momentum(g, x, 0.5),
    "nesterov": nesterov,
    "rmsprop": rmsprop,
    "rmsprop:0.99,epsilon=0.1": lambda g, x: rmsprop(g, x, 0.99, 0.1),
    "adam": adam,
    "adam:0.5,0.9": lambda g, x: adam(g, x, b1=0.5, b2=0.9),
    "adamw": lambda g, x: adam(g, x, decay=0.01),
    "adamw:0.3": lambda g, x: adam(g, x, decay=0.3),
    "nadam": nadam,
    "nadam:growth=1": lambda g, x: nadam(g, x, psi=1.0),
}


def path(text: str) -> list[list[float]]:
    """What ours does on the quadratic, one list of numbers per step."""
    parameter = nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimiser = Optimiser.parse(text).build(parameter, rate_at(1))
    points = []
    for step in range(1, STEPS + 1):
        optimiser.param_groups[0]["lr"] = rate_at(step)
        slopes = [slope(i, x) for i, x in enumerate(parameter.tolist())]
        parameter.grad = torch.tensor(slopes, dtype=torch.float64)
        optimiser.step()
        points.append(parameter.tolist())
    return points


@pytest.mark.parametrize("text", TEXTBOOK)
def test_each_number_takes_the_textbook_path(text):
    runs = [TEXTBOOK[text](lambda x, i=i: slope(i, x), start) for i, start in enumerate(START)]
    expected = [[next(run) for run in runs] for _ in range(STEPS)]
    # torch keeps NAdam's product of the μ in single precision, whatever the parameter's.
    tolerance = 1e-6 if text.startswith("nadam") else 1e-10
    for ours, theirs in zip(path(text), expected, strict=True):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance / 100)


def test_every_optimiser_has_a_textbook_form_here():
    assert {text.partition(":")[0] for text in TEXTBOOK} == set(Optimiser.members) - {"torch"}


TORCH = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9),
    "nesterov": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9, nesterov=True),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, 0.05, alpha=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.05),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 0.05),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, 0.05),
}


@pytest.mark.parametrize("name", TORCH)
def test_one_flat_parameter_moves_like_torchs_many(name):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(32, 4, generator=generator), torch.randn(32, 2, generator=generator)
    theirs = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    for value in theirs.parameters():
        value.data = torch.randn(value.shape, generator=generator)
    flat = nn.Parameter(nn.utils.parameters_to_vector(theirs.parameters()).detach().clone())
    peer, ours = TORCH[name](theirs.parameters()), Optimiser.parse(name).build(flat, 0.05)
    shapes = {key: value.shape for key, value in theirs.named_parameters()}
    for _ in range(STEPS):
        peer.zero_grad()
        (theirs(x) - y).square().mean().backward()
        peer.step()
        pieces = flat.split([shape.numel() for shape in shapes.values()])
        views = {key: piece.view(shape) for (key, shape), piece in zip(shapes.items(), pieces, strict=True)}
        flat.grad = None
        (torch.func.functional_call(theirs, views, (x,)) - y).square().mean().backward()
        ours.step()
    expected = nn.utils.parameters_to_vector(theirs.parameters())
    assert torch.allclose(flat, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mu", [0.5, 0.9])
@pytest.mark.parametrize("look_ahead", [False, True])
@pytest.mark.parametrize("constant", [True, False])
def test_kerass_momentum_is_the_same_path_only_at_a_constant_rate(mu, look_ahead, constant):
    parameter = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    ours = (Nesterov(mu) if look_ahead else Momentum(mu)).build(parameter, 0.1)
    x, v = 1.0, 0.0
    for step in range(1, 7):
        rate = 0.1 if constant or step < 4 else 0.01
        v = mu * v - rate * x
        x += mu * v - rate * x if look_ahead else v
        ours.param_groups[0]["lr"] = rate
        parameter.grad = parameter.detach().clone()
        ours.step()
    assert (parameter.item() == pytest.approx(x, rel=1e-12)) is constant


@pytest.mark.parametrize("text", ["sgd", "momentum:0.5", "momentum:0.9", "nesterov:0.8"])
def test_gain_is_how_far_a_steady_gradient_moves(text):
    option = Optimiser.parse(text)
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimiser = option.build(parameter, 0.1)
    for _ in range(300):
        before = parameter.item()
        parameter.grad = torch.full((1,), 2.0, dtype=torch.float64)
        optimiser.step()
    assert before - parameter.item() == pytest.approx(0.1 * option.gain * 2.0, rel=1e-9)


def test_rmsprop_starts_with_long_steps():
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.tensor([5.0])
    RmsProp(0.9).build(parameter, 0.01).step()
    assert parameter.item() == pytest.approx(-0.01 / math.sqrt(1 - 0.9), rel=1e-4)


@pytest.mark.parametrize("name", [*sorted(set(Optimiser.members) - {"torch"}), "torch:Adagrad"])
def test_one_parameter_no_lists_of_tensors_and_a_usual_rate(name):
    option = Optimiser.parse(name)
    parameter = nn.Parameter(torch.ones(3))
    group = option.build(parameter, 0.25).param_groups[0]
    assert (group["params"], group["lr"]) == ([parameter], 0.25)
    assert group.get("fused") or not group.get("foreach")
    assert group.get("fused") or name not in {"adam", "adamw"}
    assert 0 < option.usual_rate <= 0.01
    assert Optimiser.parse(str(option)) == option


@pytest.mark.parametrize("text", ["momentum:1", "momentum:-0.1", "nesterov:0", "adam:beta2=1", "rmsprop:epsilon=0"])
def test_ranges(text):
    with pytest.raises(ValueError, match="must be"):
        Optimiser.parse(text)


def _problem():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=draw)
    return x, (x[:, 0] > 0).long()


@pytest.mark.parametrize(
    "optimiser", ["torch:Adagrad,lr=0.05,eps=1e-6", lambda p: torch.optim.Adagrad(p, lr=0.05, eps=1e-6)]
)
def test_torchs_own_by_name_and_by_function_are_torchs_own(optimiser):
    x, y = _problem()
    network = nn.Linear(3, 2)
    run = train(network, (x, y), optimiser=optimiser, batch=40, epochs=5, diagnose=False)
    theirs = copy.deepcopy(network)
    stepper = torch.optim.Adagrad(theirs.parameters(), lr=0.05, eps=1e-6)
    for _ in range(5):
        stepper.zero_grad()
        nn.functional.cross_entropy(theirs(x), y).backward()
        stepper.step()
    torch.testing.assert_close(run.network.weight, theirs.weight)
    assert run.history.rows[0].rate == 0.05


def test_a_schedule_rules_over_the_rate_and_may_be_a_function():
    run = train(nn.Linear(3, 2), _problem(), optimiser="torch:RAdam", schedule=half, epochs=2, batch=40)
    assert run.history.column("rate") == (0.5, 0.25)
    with pytest.raises(UsageError, match="gives -1 for step 0"):
        train(nn.Linear(3, 2), _problem(), schedule=lambda step: -1, epochs=1)


def half(step: int) -> float:
    return 0.5 ** (step + 1)


def by_function(parameters):
    return torch.optim.Adagrad(parameters, lr=0.05)


def test_runs_with_named_ones_and_functions_go_on_to_the_same_bytes(tmp_path):
    options = {"optimiser": by_function, "schedule": half, "batch": 10}

    def interrupt(end):
        if end.row.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("mlp:4", _problem(), epochs=4, out=tmp_path / "a", hooks=interrupt, **options)
    train("mlp:4", _problem(), epochs=4, out=tmp_path / "a", **options)
    train("mlp:4", _problem(), epochs=4, out=tmp_path / "b", **options)
    assert (tmp_path / "a/network.safetensors").read_bytes() == (tmp_path / "b/network.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("torch:Adagard", "did you mean 'Adagrad'"),
        ("torch:LBFGS", "evaluates the loss several times"),
        ("torch:Adagrad,speed=3", "unexpected keyword argument 'speed'"),
        ("torch", "as torch:Adagrad,lr=0.01"),
        (lambda p: p, "gives a list, not an optimiser of torch"),
        (torch.optim.LBFGS, "LBFGS evaluates the loss several times"),
    ],
)
def test_what_is_no_optimiser_for_this_training_is_refused(given, words):
    with pytest.raises(WeightsmithError, match=words):
        train(nn.Linear(3, 2), _problem(), optimiser=given, epochs=1)
