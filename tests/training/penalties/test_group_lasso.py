from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from weightsmith.training.penalties import GroupLasso, Weight


def groups_of(values: Tensor, kind: str) -> list[tuple[slice | int, ...]]:
    """Indices of the groups, one by one."""
    if kind == "filters":
        return [(j,) for j in range(values.shape[0])]
    if kind == "channels":
        return [(slice(None), j) for j in range(values.shape[1])]
    return [()]


KINDS = ["filters", "channels", "layers"]


@given(
    st.integers(0, 2**16),
    st.tuples(st.sampled_from(KINDS), st.sampled_from(["none", "size"])),
    st.sampled_from([(4, 3), (3, 2, 2, 2), (2, 5, 3)]),
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_the_proximal_operator_has_its_closed_form_and_is_optimal(seed, form, shape, rate, strength):
    kind, weighting = form
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    parameter = nn.Parameter(values.clone())
    option = GroupLasso(strength, kind, weighting)
    option.on([Weight("weight", parameter)]).after_step(rate)
    for index in groups_of(values, kind):
        before, after = values[index], parameter.detach()[index]
        threshold = rate * strength * (math.sqrt(before.numel()) if weighting == "size" else 1)
        closed = before * max(0.0, 1 - threshold / before.norm().item())
        assert torch.allclose(after, closed, rtol=1e-12, atol=1e-15)
        # 0 ∈ p − w + t·∂‖p‖: the subgradient is p/‖p‖, or at zero any vector of length up to 1.
        if after.eq(0).all():
            assert before.norm().item() <= threshold * (1 + 1e-12)
        else:
            assert torch.allclose(before - after, threshold * after / after.norm(), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighting", ["none", "size"])
def test_value_is_the_formula(weight, kind, weighting):
    item = weight((3, 4, 2, 2))
    expected = sum(
        0.3 * item.value[index].norm().item() * (math.sqrt(item.value[index].numel()) if weighting == "size" else 1)
        for index in groups_of(item.value, kind)
    )
    penaliser = GroupLasso(0.3, kind, weighting).on([item])
    assert penaliser.value() == pytest.approx(expected, rel=1e-12)
    penaliser.add_gradient()
    assert item.value.grad.eq(0).all(), "the whole penalty lies in the proximal step"


def test_a_rate_of_zero_changes_no_bit(weight):
    item = weight(torch.tensor([[0.1, 0.7], [0.0, 0.0], [1e-20, 1e-19]]))
    before = item.value.detach().clone()
    GroupLasso(1.0).on([item]).after_step(0.0)
    assert torch.equal(item.value[:2], before[:2])


def regression() -> tuple[Tensor, Tensor]:
    """Three outputs that depend on inputs 1, 4 and 5 of eight, with noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=generator, dtype=torch.float64)
    truth = torch.zeros(3, 8, dtype=torch.float64)
    truth[:, [1, 4, 5]] = torch.randn(3, 3, generator=generator, dtype=torch.float64) + 1
    return x, x @ truth.T + 0.1 * torch.randn(400, 3, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("optimiser", "rate"), [("sgd", 0.3), ("momentum:0.9", 0.03), ("nesterov:0.5", 0.1)])
def test_irrelevant_inputs_go_to_exactly_zero_and_the_solution_is_the_group_lassos(descend, optimiser, rate):
    x, y = regression()
    layer = nn.Linear(8, 3, bias=False, dtype=torch.float64)
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(2))
    removed = descend(
        layer,
        lambda: 0.5 * (layer(x) - y).square().sum(1).mean(),
        ["group-lasso:0.2,channels"],
        rate=rate,
        steps=500,
        optimiser=optimiser,
    )
    assert removed == ["weight: 5 of 8 channels are zero (0, 2, 3, 6, 7)"]
    slope = (layer(x) - y).T @ x / len(x)
    for j in range(8):
        column = layer.weight[:, j]
        if j in (1, 4, 5):
            assert torch.allclose(slope[:, j], -0.2 * column / column.norm(), atol=1e-6)
        else:
            assert column.eq(0).all()
            assert slope[:, j].norm() < 0.2


def test_useless_hidden_units_go_and_can_be_cut_out(descend):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=generator)
    y = torch.relu(x @ torch.tensor([[1.0, -1.0, 0.0, 0.5]]).T) - torch.relu(x[:, 2:3])
    network = nn.Sequential(nn.Linear(4, 12, bias=False), nn.ReLU(), nn.Linear(12, 1, bias=False))
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5
    before = (network(x) - y).square().mean().item()
    (sentence,) = descend(
        network,
        lambda: (network(x) - y).square().mean(),
        ["group-lasso:0.02,layers=0.weight", "l2:0.001,layers=2.weight"],
        rate=0.05,
        steps=1500,
        optimiser="momentum",
    )
    live = network[0].weight.ne(0).any(1)
    dead = [j for j in range(12) if not live[j]]
    assert sentence == f"0.weight: {len(dead)} of 12 filters are zero ({', '.join(map(str, dead))})"
    assert 4 <= len(dead) <= 10
    assert (network(x) - y).square().mean().item() < 0.05 * before
    small = torch.relu(x @ network[0].weight[live].T) @ network[2].weight[:, live].T
    assert torch.allclose(small, network(x), atol=1e-6)


class Residual(nn.Module):
    """h ← h + W₂·tanh(W₁·h) for each block, with convolutions of one pixel's width and more."""

    def __init__(self, blocks: int, width: int, kernel: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, kernel, padding="same", bias=False),
                nn.Tanh(),
                nn.Conv1d(width, width, kernel, padding="same", bias=False),
            )
            for _ in range(blocks)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


def test_a_whole_layer_of_a_residual_network_goes(descend):
    generator = torch.Generator().manual_seed(0)
    teacher, network = Residual(1, 3, 3), Residual(3, 3, 3)
    for model, size in ((teacher, 0.7), (network, 0.15)):
        for parameter in model.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * size
    x = torch.randn(100, 3, 6, generator=generator)
    y = teacher(x).detach()
    before = (x - y).square().mean().item()
    removed = descend(
        network,
        lambda: (network(x) - y).square().mean(),
        ["group-lasso:0.02,layers"],
        rate=0.05,
        steps=600,
        optimiser="momentum",
    )
    zero = [name for name, value in network.named_parameters() if not value.any()]
    assert removed == [f"{name}: the whole layer is zero" for name in zero]
    assert len(zero) in (2, 4), "both layers of a block go, or neither"
    assert (network(x) - y).square().mean().item() < 0.1 * before
    kept = Residual(0, 3, 3)
    kept.blocks = nn.ModuleList(block for block in network.blocks if block[0].weight.any())
    assert torch.equal(kept(x), network(x))


def test_sentences(weight):
    values = torch.ones(30, 4)
    values[3:28] = 0
    item = weight(values, "fc.weight")
    assert GroupLasso(0.1).on([item]).removed() == (
        f"fc.weight: 25 of 30 filters are zero ({', '.join(map(str, range(3, 23)))} and 5 more)",
    )
    assert GroupLasso(0.1, "channels").on([item]).removed() == ()
    assert GroupLasso(0.1, "layers").on([item]).removed() == ()
    item.value.data.zero_()
    assert GroupLasso(0.1, "layers").on([item]).removed() == ("fc.weight: the whole layer is zero",)


def test_a_group_too_small_for_its_norm_is_not_called_zero(weight):
    item = weight(torch.tensor([[1e-30, 0.0], [0.0, 0.0]]))
    assert GroupLasso(0.1).on([item]).removed() == ("layer.weight: 1 of 2 filters is zero (1)",)
