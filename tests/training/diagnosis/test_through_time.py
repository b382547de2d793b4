"""The gradient through time against the product of Jacobians written out, for layers, cells and packed sequences."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from weightsmith.training.diagnosis.through_time import TimeWatch


def drawn(layer, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in layer.parameters():
            value.normal_(0, 0.4, generator=generator)
    return layer.double()


def rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def watched(layer, run):
    with contextlib.ExitStack() as hooks:
        watch = TimeWatch(layer, hooks)
        run(layer).sum().backward()
    assert not layer._forward_pre_hooks
    return watch.reading()


@torch.no_grad()
def by_jacobians(layer, x):
    """‖∂ Σ h_T / ∂x_t‖ for each t, from h_t = tanh(W x_t + U h_{t−1} + b): one factor U·diag(1 − h²) per step."""
    states, state = [], torch.zeros(len(x), 4, dtype=torch.float64)
    for t in range(x.shape[1]):
        state = torch.tanh(
            x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0 + state @ layer.weight_hh_l0.T + layer.bias_hh_l0
        )
        states.append(state)
    back, norms = torch.ones_like(states[-1]), []
    for state in reversed(states):
        back = back * (1 - state.square())
        norms.append(float((back @ layer.weight_ih_l0).norm()))
        back = back @ layer.weight_hh_l0
    return norms[::-1]


def test_the_ratio_is_that_of_the_product_of_jacobians():
    layer, x = drawn(nn.RNN(3, 4, batch_first=True)), rows(5, 12, 3)
    norms = by_jacobians(layer, x)
    found = watched(layer, lambda layer: layer(x)[0][:, -1])
    assert found.steps == 12
    assert found.ratio == pytest.approx(norms[0] / norms[-1], rel=1e-9)


def test_order_of_axes_single_sequences_and_gradients_of_its_own():
    first, later = drawn(nn.RNN(3, 4, batch_first=True)), drawn(nn.RNN(3, 4))
    x = rows(5, 12, 3)
    expected = watched(first, lambda layer: layer(x)[0][:, -1])
    assert watched(later, lambda layer: layer(x.transpose(0, 1))[0][-1]).ratio == pytest.approx(
        expected.ratio, rel=1e-9
    )
    alone = watched(first, lambda layer: layer(x[:1])[0][:, -1])
    assert watched(first, lambda layer: layer(x[0])[0][-1]).ratio == pytest.approx(alone.ratio, rel=1e-9)
    leaf = x.clone().requires_grad_()  # another use of the same inputs does not count
    assert watched(first, lambda layer: layer(leaf)[0][:, -1] + 100 * leaf.sum()).ratio == pytest.approx(expected.ratio)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_cell_gives_what_the_layer_gives(kind):
    layer, x = drawn(kind(3, 4, batch_first=True)), rows(5, 12, 3)
    cell = getattr(nn, f"{kind.__name__}Cell")(3, 4).double()
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})

    def run(cell):
        state = None
        for t in range(x.shape[1]):
            state = cell(x[:, t], state)
        return state[0] if isinstance(state, tuple) else state

    whole = watched(layer, lambda layer: layer(x)[0][:, -1])
    step_by_step = watched(cell, run)
    assert step_by_step.ratio == pytest.approx(whole.ratio, rel=1e-9)
    assert (step_by_step.reach, step_by_step.steps) == (whole.reach, whole.steps)


def test_reach_counts_the_steps_with_a_thousandth_of_the_last():
    layer = nn.RNN(1, 1, nonlinearity="relu", batch_first=True).double()
    for name, value in layer.named_parameters():
        nn.init.constant_(value, 0.0 if "bias" in name else 0.5 if "hh" in name else 1.0)
    found = watched(layer, lambda layer: layer(torch.ones(2, 30, 1, dtype=torch.float64))[0][:, -1])
    assert found.ratio == pytest.approx(0.5**29, rel=1e-12)
    assert found.reach == 10  # 0.5 ** 9 = 0.00195


def test_packed_and_two_way_sequences_are_taken():
    packed = pack_sequence([rows(9, 3), rows(6, 3)])
    assert watched(drawn(nn.GRU(3, 4)), lambda layer: layer(packed)[1]).steps == 9
    both = watched(drawn(nn.LSTM(3, 4, bidirectional=True)), lambda layer: layer(rows(20, 5, 3))[0][-1])
    assert 0 < both.ratio < 1


def test_without_a_second_step_or_a_gradient_there_is_nothing_to_say():
    layer = drawn(nn.RNN(3, 4))
    assert watched(layer, lambda layer: layer(rows(1, 5, 3))[0]) is None
    assert watched(layer, lambda layer: 0 * layer(rows(7, 5, 3))[0]) is None
