from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.training.engines.flat import Flat

LINE = 64  # bytes


def convolutional() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(20, 3))


def inside(part: torch.Tensor, whole: torch.Tensor) -> int:
    """Where ``part`` begins in ``whole``, in numbers; the two must share their memory."""
    assert part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    return part.storage_offset()


def test_values_survive_and_the_network_computes_the_same():
    network = convolutional().eval()
    before, x = copy.deepcopy(network), torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    flat = Flat(network)
    assert flat.names == tuple(name for name, _ in before.named_parameters())
    assert all(a is b for a, b in zip(flat.values, network.parameters(), strict=True))
    for (name, value), old in zip(network.state_dict().items(), before.state_dict().values(), strict=True):
        assert torch.equal(value, old), name
    assert torch.equal(network(x), before(x))
    assert float(flat.parameter.detach().double().sum()) == pytest.approx(
        sum(float(p.detach().double().sum()) for p in before.parameters())
    )  # nothing but the parameters is in the vector


def test_parameters_and_gradients_are_views_that_move_with_the_vector():
    network = convolutional()
    flat = Flat(network)
    for value, gradient in zip(flat.values, flat.gradients, strict=True):
        assert value.grad is gradient
        assert inside(value.data, flat.parameter.data) == inside(gradient, flat.gradient)
        assert value.stride() == gradient.stride()
    flat.parameter.data.mul_(0).add_(3)
    flat.gradient.fill_(-2)
    assert all(bool((value == 3).all()) and bool((value.grad == -2).all()) for value in network.parameters())
    network[3].bias.data[1] = 9
    assert int((flat.parameter == 9).sum()) == 1


def test_one_optimiser_step_on_the_vector_is_one_on_every_parameter():
    network, plain = convolutional(), convolutional()
    x, y = torch.randn(4, 3, 4, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0])
    flat = Flat(network)
    whole = torch.optim.Adam([flat.parameter], lr=0.1)
    single = torch.optim.Adam(plain.parameters(), lr=0.1)
    for _ in range(3):
        flat.gradient.zero_()
        nn.functional.cross_entropy(network(x), y).backward()
        single.zero_grad()
        nn.functional.cross_entropy(plain(x), y).backward()
        whole.step()
        single.step()
    for ours, theirs in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_autograd_writes_into_the_vector_and_keeps_doing_so():
    network = convolutional()
    flat = Flat(network)
    for _ in range(2):
        flat.gradient.zero_()
        network(torch.ones(2, 3, 4, 4)).sum().backward()
        assert all(value.grad is gradient for value, gradient in zip(flat.values, flat.gradients, strict=True))
    assert float(flat.gradient.abs().sum()) == pytest.approx(sum(float(g.abs().sum()) for g in flat.gradients))
    assert float(flat.gradient.abs().sum()) > 0


def test_channels_last_filters_stay_so_in_the_vector_and_are_plain_after_release():
    network = convolutional().to(memory_format=torch.channels_last)
    before = copy.deepcopy(network.state_dict())
    flat = Flat(network)
    filters = network[0].weight
    assert filters.is_contiguous(memory_format=torch.channels_last)
    assert not filters.is_contiguous()
    assert torch.equal(filters, before["0.weight"])
    # The numbers of one filter lie together, channels innermost.
    start = inside(filters.data, flat.parameter.data)
    assert torch.equal(flat.parameter.data[start : start + 3], filters[0, :, 0, 0])
    flat.release()
    assert network[0].weight.is_contiguous()
    assert torch.equal(network[0].weight, before["0.weight"])


def test_a_strided_weight_is_laid_out_anew_with_its_values():
    network = nn.Linear(3, 4)
    network.weight = nn.Parameter(torch.arange(12.0).view(3, 4).t())
    flat = Flat(network)
    assert torch.equal(network.weight, torch.arange(12.0).view(3, 4).t())
    assert network.weight.is_contiguous()
    flat.release()
    assert torch.equal(network.weight, torch.arange(12.0).view(3, 4).t())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.sampled_from([torch.float32, torch.float64]))
def test_every_parameter_starts_on_a_cache_line_and_the_gaps_are_zero(widths, dtype):
    network = nn.ParameterList(nn.Parameter(torch.ones(width, dtype=dtype)) for width in widths)
    flat = Flat(network)
    starts = [inside(value.data, flat.parameter.data) for value in flat.values]
    assert all(start * dtype.itemsize % LINE == 0 for start in starts)
    ends = [start + width for start, width in zip(starts, widths, strict=True)]
    assert all(end <= start for end, start in zip(ends, [*starts[1:], flat.parameter.numel()], strict=True))
    assert float(flat.parameter.detach().sum()) == sum(widths)


def test_release_gives_memory_of_its_own_and_takes_the_gradient_away():
    network = convolutional()
    flat = Flat(network)
    flat.parameter.data.add_(1)
    held = [value.detach().clone() for value in network.parameters()]
    flat.release()
    flat.parameter.data.zero_()
    storages = {value.untyped_storage().data_ptr() for value in network.parameters()}
    assert len(storages) == len(held)
    for value, expected in zip(network.parameters(), held, strict=True):
        assert value.grad is None
        assert value.untyped_storage().nbytes() == value.nbytes
        assert torch.equal(value, expected)


def test_frozen_parameters_and_buffers_are_left_alone():
    network = convolutional()
    network[0].weight.requires_grad_(False)
    old, statistics = network[0].weight.data_ptr(), network[1].running_mean.data_ptr()
    flat = Flat(network)
    assert "0.weight" not in flat.names
    assert "0.bias" in flat.names
    assert network[0].weight.data_ptr() == old
    assert network[0].weight.grad is None
    assert network[1].running_mean.data_ptr() == statistics
    flat.parameter.data.zero_()
    assert bool((network[0].weight != 0).any())


def test_tied_parameters_stand_once_in_the_vector_and_stay_tied():
    network = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    network[1].weight = network[0].weight
    flat = Flat(network)
    assert flat.names == ("0.weight",)
    assert flat.parameter.numel() == 16
    flat.release()
    assert network[1].weight is network[0].weight


def test_a_network_without_trainable_parameters_is_refused():
    with pytest.raises(UsageError, match="no trainable parameter"):
        Flat(nn.Flatten())
    with pytest.raises(UsageError, match="all are frozen"):
        Flat(nn.Linear(2, 2).requires_grad_(False))


def test_parameters_of_several_types_are_refused_with_their_names():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(UsageError, match=r"torch\.float32 on cpu, torch\.float64 on cpu"):
        Flat(network)
    network[1].requires_grad_(False)
    Flat(network)  # what is frozen may be of another type


def test_a_parameter_that_gets_other_memory_is_noticed():
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    flat = Flat(network)
    network[1].weight.data.mul_(2)
    flat.check()
    network[1].weight.data = network[1].weight.data / 2
    with pytest.raises(UsageError, match=r"^1\.weight: the network replaces the memory of its parameter"):
        flat.check()
