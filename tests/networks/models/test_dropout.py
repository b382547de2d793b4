from __future__ import annotations

import pytest
import torch
from torch import nn

from weightsmith.core.errors import OptionError
from weightsmith.networks.models.dropout import Dropout, reseed_dropout

N = 200_000


def run(kind, rate, values, seed=0):
    layer = Dropout(rate, kind).train()
    layer.generator = torch.Generator().manual_seed(seed)
    return layer(values)


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_inverted_keeps_the_mean_and_scales_by_the_keep_probability(rate):
    out = run("inverted", rate, torch.ones(N))
    kept = out != 0
    assert kept.float().mean().item() == pytest.approx(1 - rate, abs=0.006)
    assert torch.allclose(out[kept], torch.tensor(1 / (1 - rate)))
    assert torch.equal(Dropout(rate).eval()(torch.ones(3)), torch.ones(3))


def test_after_scales_at_test_time_only():
    out = run("after", 0.25, torch.ones(N))
    assert set(out.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(Dropout(0.25, "after").eval()(torch.ones(3)), torch.full((3,), 0.75))


def test_alpha_keeps_mean_zero_and_variance_one_and_agrees_with_torch():
    x = torch.randn(N, generator=torch.Generator().manual_seed(1))
    out = run("alpha", 0.3, x)
    assert out.mean().item() == pytest.approx(0, abs=0.01)
    assert out.var().item() == pytest.approx(1, abs=0.02)
    theirs = nn.AlphaDropout(0.3)(x)
    assert out.min().item() == pytest.approx(theirs.min().item(), abs=0.5)
    dropped = out[(out - out.mode().values).abs() < 1e-6][0].item()
    assert theirs[(theirs - dropped).abs() < 1e-4].numel() == pytest.approx(0.3 * N, rel=0.03)


@pytest.mark.parametrize("kind", ["inverted", "after", "alpha"])
def test_rate_zero_does_nothing(kind):
    x = torch.randn(10, generator=torch.Generator().manual_seed(0))
    assert torch.equal(run(kind, 0.0, x), x)
    assert torch.equal(Dropout(0.0, kind).eval()(x), x)


def test_a_generator_makes_it_repeatable_and_leaves_global_state_alone():
    before = torch.random.get_rng_state()
    network = nn.Sequential(Dropout(0.5), nn.Sequential(Dropout(0.5))).train()
    runs = []
    for _ in range(2):
        reseed_dropout(network, torch.Generator().manual_seed(3))
        runs.append(network(torch.ones(100)))
    assert torch.equal(*runs)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("rate", "kind"), [(1.0, "inverted"), (-0.1, "after"), (0.5, "gaussian")])
def test_wrong_values_are_named(rate, kind):
    with pytest.raises(OptionError, match="dropout"):
        Dropout(rate, kind)


@pytest.mark.parametrize("topic", ["keras_layers", "torch_layers"])
def test_values_are_those_of_keras_and_torch(reference, topic):
    vectors = reference(topic)["dropout"]
    for kind, theirs, value in (
        ("inverted", "dropout_of_ones", 1.0),
        ("alpha", "alpha_dropout_of_ones", 1.0),
        ("alpha", "alpha_dropout_of_zeros", 0.0),
    ):
        out = run(kind, vectors["rate"], torch.full((1000,), value, dtype=torch.float64))
        assert sorted(set(out.tolist())) == pytest.approx(vectors[theirs])
