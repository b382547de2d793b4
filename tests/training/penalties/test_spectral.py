from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from weightsmith.networks.layers.norms import frobenius, spectral, stable_rank
from weightsmith.training.penalties import SpectralNorm, StableRank, weights_of
from weightsmith.training.penalties.spectral import leading


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 3), (4, 3, 2, 2)])
def test_value_and_gradient_are_those_of_the_formula(weight, shape):
    item = weight(shape)
    item.value.data.add_(1.0)
    free = item.value.detach().clone().requires_grad_()
    formula = 0.3 * torch.linalg.matrix_norm(free.flatten(1), 2).square()
    formula.backward()
    penaliser = SpectralNorm(0.3).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(formula.item(), rel=1e-10)
    assert torch.allclose(item.value.grad, free.grad, rtol=1e-6, atol=1e-9)


def test_the_map_of_a_trained_layer_stretches_less(descend):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 8, generator=generator)
    y = x @ torch.randn(8, 6, generator=generator)
    norms = []
    for strength in ("0.0", "0.3"):
        layer = nn.Linear(8, 6, bias=False)
        layer.weight.data = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
        descend(layer, lambda: (layer(x) - y).square().mean(), [f"spectral:{strength}"], rate=0.05, steps=300)  # noqa: B023
        norms.append(spectral(layer.weight).item())
    assert norms[1] < 0.7 * norms[0]


def test_only_the_largest_singular_value_is_pulled(weight):
    item = weight(torch.diag(torch.tensor([5.0, 2.0, 1.0])))
    SpectralNorm(0.1).on([item]).add_gradient()
    assert torch.allclose(item.value.grad, torch.diag(torch.tensor([1.0, 0.0, 0.0])), atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 4), (5, 3), (4, 3, 2, 2)])
def test_value_and_gradient_are_those_of_the_formula_of_stable_rank(weight, shape):
    item = weight(shape)
    item.value.data.add_(1.0)
    free = item.value.detach().clone().requires_grad_()
    formula = 0.3 * free.square().sum() / torch.linalg.matrix_norm(free.flatten(1), 2).square()
    formula.backward()
    penaliser = StableRank(0.3).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(formula.item(), rel=1e-10)
    assert torch.allclose(item.value.grad, free.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_the_weights_plays_no_part(weight, scale):
    item = weight((6, 9))
    item.value.data.mul_(scale)
    penaliser = StableRank(1.0).on([item])
    penaliser.add_gradient()
    inner = (item.value * item.value.grad).sum().item()
    assert abs(inner) < 1e-12
    assert item.value.grad.norm().item() * scale > 0.01
    assert penaliser.value() == pytest.approx(stable_rank(item.value).item(), rel=1e-6)


def test_a_matrix_of_rank_one_has_reached_the_least(weight):
    item = weight(torch.outer(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -1.0])).double())
    penaliser = StableRank(1.0).on([item])
    penaliser.add_gradient()
    assert penaliser.value() == pytest.approx(1.0, abs=1e-12)
    assert item.value.grad.abs().max() < 1e-12


def trained(descend, strength: float) -> tuple[nn.Module, float]:
    """A small classifier of points by the sign of a product, with or without the penalty."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 6, generator=generator)
    labels = (x[:, 0] * x[:, 1] > 0).long()
    network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.4
    loss = nn.CrossEntropyLoss()
    descend(
        network,
        lambda: loss(network(x), labels),
        [f"stable-rank:{strength}"],
        rate=0.1,
        steps=400,
        optimiser="momentum",
    )
    return network, (network(x).argmax(1) == labels).float().mean().item()


def test_training_with_it_really_lowers_the_stable_rank(descend):
    (free, plain), (held, accuracy) = trained(descend, 0.0), trained(descend, 0.02)
    before = [stable_rank(weight.value).item() for weight in weights_of(free)]
    after = [stable_rank(weight.value).item() for weight in weights_of(held)]
    assert all(low < high for low, high in zip(after, before, strict=True))
    assert sum(after) < 0.7 * sum(before)
    assert min(plain, accuracy) > 0.95
    middle = weights_of(held)[1].value
    assert 1 <= (frobenius(middle) / spectral(middle)).square().item() < 2.5


def gaussian(rows: int, columns: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows), dtype=dtype)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (10, 10), (50, 20), (20, 200)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_largest_singular_value_and_its_vectors(shape, dtype):
    matrix = gaussian(*shape, dtype) + 3 * torch.ones(shape, dtype=dtype)
    top = leading(matrix)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    assert top.sigma == pytest.approx(values[0].item(), rel=1e-6)
    assert abs(top.left @ left[:, 0]).item() == pytest.approx(1, abs=1e-5)
    assert abs(top.right @ right[0]).item() == pytest.approx(1, abs=1e-5)
    assert (top.left @ matrix @ top.right).item() == pytest.approx(top.sigma, rel=1e-6)


@pytest.mark.parametrize("shape", [(50, 784), (300, 784), (64, 576)])
def test_even_noise_without_a_gap_is_known_within_a_percent(shape):
    matrix = gaussian(*shape)
    assert leading(matrix).sigma == pytest.approx(torch.linalg.matrix_norm(matrix, 2).item(), rel=0.01)


def test_sigma_never_falls():
    matrix = gaussian(30, 40)
    sigmas = [leading(matrix, turns=turns).sigma for turns in range(1, 30)]
    assert sigmas == sorted(sigmas)
    assert sigmas[0] < sigmas[-1]


def test_a_warm_start_needs_one_turn():
    matrix = gaussian(30, 40) + 0.5
    known = leading(matrix)
    moved = matrix + 1e-4 * gaussian(31, 40)[:30]
    exact = torch.linalg.matrix_norm(moved, 2).item()
    warm = leading(moved, known.right, turns=1).sigma
    assert warm == pytest.approx(exact, rel=1e-6)
    assert abs(leading(moved, turns=1).sigma - exact) > 1000 * abs(warm - exact)


def test_zero_and_not_finite_matrices_have_none():
    assert leading(torch.zeros(3, 4)) is None
    assert leading(torch.zeros(3, 4), torch.ones(4)) is None
    assert leading(torch.tensor([[1.0, math.nan]])) is None
    assert leading(torch.tensor([[1.0, math.inf]])) is None
    assert leading(torch.full((2, 2), 1e-25)) is None
    assert leading(torch.full((2, 2), 1e-25, dtype=torch.float64)).sigma == pytest.approx(2e-25)


def test_a_start_that_the_matrix_does_not_see_is_changed():
    matrix = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    assert leading(matrix, torch.tensor([0.0, 1.0]), turns=1).sigma == 2.0


def test_fixed_start():
    first, second = leading(gaussian(9, 9)), leading(gaussian(9, 9))
    state = torch.random.get_rng_state()
    assert torch.equal(first.right, second.right)
    assert torch.equal(state, torch.random.get_rng_state())


def steps(item, penaliser, count):
    for _ in range(count):
        item.value.grad.zero_()
        penaliser.add_gradient()
        item.value.data.sub_(item.value.grad, alpha=0.01)


def test_a_run_resumed_at_an_epoch_goes_on_to_the_same_bytes(weight):
    whole = weight(gaussian(8, 12, torch.float32))
    penaliser = StableRank(1.0).on([whole])
    penaliser.start_epoch()
    steps(whole, penaliser, 5)
    resumed = weight(whole.value.detach())
    penaliser.value()  # looking changes nothing
    penaliser.start_epoch()
    steps(whole, penaliser, 5)
    fresh = StableRank(1.0).on([resumed])
    fresh.start_epoch()
    steps(resumed, fresh, 5)
    assert torch.equal(whole.value, resumed.value)


def test_within_an_epoch_looking_changes_nothing(weight):
    one, other = weight(gaussian(8, 12)), weight(gaussian(8, 12))
    first, second = StableRank(1.0).on([one]), StableRank(1.0).on([other])
    for _ in range(4):
        steps(one, first, 1)
        second.value()
        steps(other, second, 1)
    assert torch.equal(one.value, other.value)


def test_many_turns_once_per_epoch_then_one_per_step(weight, monkeypatch):
    from weightsmith.training.penalties import spectral as power_iteration

    asked = []

    def counted(matrix, right=None, turns=100):
        asked.append((right is None, turns))
        return leading(matrix, right, turns)

    monkeypatch.setattr(power_iteration, "leading", counted)
    item = weight(gaussian(8, 12))
    penaliser = StableRank(1.0).on([item])
    for _ in range(2):
        penaliser.start_epoch()
        steps(item, penaliser, 3)
    assert asked == [(True, 100), (False, 1), (False, 1)] * 2
