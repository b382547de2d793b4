from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.networks.models.batchnorm import SeedBatchNorm1d, SeedBatchNorm2d, batch_norm


def batches(mean, count=10, size=64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        batch = torch.randn(size, 3, generator=generator)
        yield (batch - batch.mean(0)) / batch.std(0) + mean  # mean and unbiased deviation exactly as said


def test_golden_means_after_ten_batches_of_mean_five():
    """SPEC A: the slides hold 5.00, torch 5(1 − 0.9¹⁰) = 3.26."""
    seed, torchs = batch_norm(3, 1, "seed"), batch_norm(3, 1, "torch")
    for batch in batches(5.0):
        seed(batch)
        torchs(batch)
    assert torch.allclose(seed.running_mean, torch.full((3,), 5.0), atol=1e-4)
    assert torch.allclose(torchs.running_mean, torch.full((3,), 5 * (1 - 0.9**10)), atol=1e-4)
    assert round(torchs.running_mean[0].item(), 2) == 3.26


def test_deviations_are_averaged_not_variances():
    """Eq. 20 in long hand: batches of deviation 1 and then 3 give σ̄ = 0.9·1 + 0.1·3."""
    layer = SeedBatchNorm1d(1, eps=1e-12)
    layer(torch.tensor([[-1.0], [1.0]]))
    layer(torch.tensor([[-3.0], [3.0]]))
    assert layer.running_var.item() == pytest.approx((0.9 * 1 + 0.1 * 3) ** 2)
    layer.eval()
    assert layer(torch.tensor([[1.2]])).item() == pytest.approx(1.0)


def test_training_outputs_and_gradients_are_torchs():
    x = torch.randn(8, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    ours, theirs = SeedBatchNorm2d(4), nn.BatchNorm2d(4)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    a, b = ours(mine), theirs(other)
    assert torch.allclose(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    assert torch.allclose(mine.grad, other.grad, atol=1e-5)
    assert torch.allclose(ours.weight.grad, theirs.weight.grad, atol=1e-4)


def test_the_buffers_mean_the_same_to_torchs_own_layer():
    """A reader that knows only nn.BatchNorm computes the same from the saved statistics."""
    ours, theirs = SeedBatchNorm1d(3), nn.BatchNorm1d(3)
    for batch in batches(2.0, count=4):
        ours(batch * 3)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


def test_evaluation_does_not_move_the_statistics():
    layer = SeedBatchNorm1d(3)
    layer(next(batches(1.0)))
    before = layer.state_dict()["running_mean"].clone()
    layer.eval()(next(batches(9.0)))
    assert torch.equal(before, layer.running_mean)


def test_a_batch_of_one_is_refused_before_anything_is_averaged():
    layer = SeedBatchNorm1d(3)
    with pytest.raises(ValueError, match="more than 1 value"):
        layer(torch.ones(1, 3))
    assert layer.num_batches_tracked == 0
    assert torch.equal(layer.running_mean, torch.zeros(3))


def test_without_momentum_all_batches_count_alike():
    layer = SeedBatchNorm1d(1, momentum=None)
    for mean in (1.0, 2.0, 6.0):
        layer(torch.tensor([[mean - 1], [mean + 1]]))
    assert layer.running_mean.item() == pytest.approx(3.0)


def test_half_precision_is_averaged_in_full():
    layer = SeedBatchNorm1d(3).to(torch.bfloat16)
    assert layer(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)).bfloat16()).dtype == torch.bfloat16
    assert torch.isfinite(layer.running_var.float()).all()


def test_unknown_statistics_are_refused():
    with pytest.raises(UnknownName, match="batch-norm statistics 'keras'"):
        batch_norm(3, 1, "keras")
    with pytest.raises(OptionError, match="dense .1. or image .2."):
        batch_norm(3, 3, "torch")


def test_running_statistics_beside_those_of_torch(reference):
    """The same batches: with torch's rule torch's own numbers, with the slides' rule the formula in long hand."""
    vectors = reference("torch_layers")["batch_norm"]["varying_batches"]
    torchs, ours = batch_norm(1, 1, "torch").double(), batch_norm(1, 1, "seed").double()
    mean = deviation = None
    for step, batch in enumerate(torch.tensor(vectors["batches"], dtype=torch.float64)):
        torchs(batch[:, None])
        ours(batch[:, None])
        assert torchs.running_mean.item() == pytest.approx(vectors["running_mean"][step])
        assert torchs.running_var.item() == pytest.approx(vectors["running_var"][step])
        sigma = (batch.var(correction=0) + ours.eps).sqrt().item()
        mean = batch.mean().item() if mean is None else 0.9 * mean + 0.1 * batch.mean().item()
        deviation = sigma if deviation is None else 0.9 * deviation + 0.1 * sigma
        assert ours.running_mean.item() == pytest.approx(mean)
        assert (ours.running_var.item() + ours.eps) ** 0.5 == pytest.approx(deviation)
