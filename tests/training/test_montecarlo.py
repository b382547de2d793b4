from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.core.errors import DataMismatch, OptionError, UsageError
from weightsmith.data.normalise import HALF
from weightsmith.networks import Dropout, card_of, mlp, with_card
from weightsmith.networks.card import Card
from weightsmith.training.montecarlo import Prediction, monte_carlo

ROWS = torch.linspace(-1, 1, 24).reshape(6, 4)


def coin(rate: float = 0.5, layer: type[nn.Module] | None = None) -> nn.Sequential:
    """One input value v; its output is (v, 0) if kept and doubled by 1/(1-rate), else (0, 0)."""
    dense = nn.Linear(1, 2, bias=False)
    dense.weight.data = torch.tensor([[1.0], [0.0]])
    return nn.Sequential((layer or Dropout)(rate), dense)


@pytest.mark.parametrize("layer", [Dropout, nn.Dropout])
def test_the_moments_of_a_coin_are_those_of_the_binomial(layer):
    """A pass gives p = σ(2v) when the value is kept and ½ when it is dropped: everything follows from how often."""
    value, passes = 1.5, 400
    result = monte_carlo(coin(layer=layer), torch.full((3, 1), value), passes=passes, seed=3)
    high = 1 / (1 + math.exp(-2 * value))
    kept = (result.probabilities[:, 0] - 0.5) / (high - 0.5)  # the share of passes in which the value was kept
    assert np.all(np.abs(kept - 0.5) < 4 * 0.5 / math.sqrt(passes))
    assert np.allclose(kept * passes, np.round(kept * passes))
    assert len(set(kept)) > 1  # inputs are dropped independently
    assert np.allclose(result.spread[:, 0], np.sqrt(kept * (1 - kept)) * (high - 0.5))
    assert np.allclose(result.spread[:, 0], result.spread[:, 1])
    entropy = lambda p: -p * math.log(p) - (1 - p) * math.log(1 - p)  # noqa: E731
    assert np.allclose(result.mean_entropy, kept * entropy(high) + (1 - kept) * math.log(2))
    assert np.allclose(result.entropy, [entropy(p) for p in result.probabilities[:, 0]])
    assert np.allclose(result.mutual_information, result.entropy - result.mean_entropy)
    assert (result.predicted == 0).all()


def test_it_equals_the_slow_definition():
    network = mlp(4, 30, 3, dropout=0.4, seed=1)
    result = monte_carlo(network, ROWS, passes=7, seed=5)
    one_by_one = []
    for module in network.modules():
        module.training = isinstance(module, Dropout)
    from weightsmith.core.seeds import subseed

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for count in range(1, 8):
            torch.manual_seed(subseed(5, "monte carlo", count))
            one_by_one.append(torch.softmax(network(ROWS).double(), 1).numpy())
    passes = np.stack(one_by_one)
    assert np.allclose(result.probabilities, passes.mean(0), atol=1e-12)
    assert np.allclose(result.spread, passes.std(0), atol=1e-12)
    entropy = -(passes * np.log(passes)).sum(2)
    assert np.allclose(result.mean_entropy, entropy.mean(0))
    assert (result.mutual_information > 0).all()


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm, self.ours, self.theirs = (
            nn.Linear(4, 8),
            nn.BatchNorm1d(8),
            Dropout(0.3),
            nn.Dropout(0.3),
        )
        self.output = nn.Linear(8, 3)

    def forward(self, x):
        return self.output(self.theirs(self.ours(self.norm(self.dense(x)))))


def test_nothing_changes_but_the_answer():
    network = Mixed()
    network.norm.running_mean.fill_(0.7)
    network.norm.train()
    network.theirs.eval()
    network.ours.generator = generator = torch.Generator().manual_seed(4)
    before = copy.deepcopy(network.state_dict())
    state, own, modes = torch.get_rng_state(), generator.get_state(), [m.training for m in network.modules()]
    monte_carlo(network, ROWS, passes=3)
    assert [m.training for m in network.modules()] == modes
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(generator.get_state(), own)
    assert network.ours.generator is generator


def test_batch_norm_uses_its_running_statistics():
    """With batch statistics a single row would give zeros after the norm; with running ones it gives its own value."""
    network = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(1e-9))
    network[0].running_mean.copy_(torch.tensor([1.0, 0.0]))
    result = monte_carlo(network, torch.tensor([[4.0, 0.0]]), passes=2)
    assert math.isclose(result.probabilities[0, 0], 1 / (1 + math.exp(-3)), rel_tol=1e-5)
    assert result.spread.max() == 0.0


def test_seeds_and_passes():
    network = mlp(4, 16, 3, dropout=0.5)
    first = monte_carlo(network, ROWS, passes=4, seed=1)
    torch.rand(7)  # the global generator has moved; the answer must not
    assert monte_carlo(network, ROWS, passes=4, seed=1) == first
    assert not np.array_equal(monte_carlo(network, ROWS, passes=4, seed=2).probabilities, first.probabilities)
    assert Prediction.from_json(first.to_json()) == first
    assert len(first) == 6
    with pytest.raises(OptionError, match="seed"):
        monte_carlo(network, ROWS, seed=-1)


def test_the_card_normalises_raw_inputs():
    network = mlp(4, 16, 3, dropout=0.5)
    pixels = torch.arange(24, dtype=torch.uint8).reshape(6, 4) * 10
    raw = monte_carlo(with_card(copy.deepcopy(network), Card(normalisation=HALF)), pixels, passes=3)
    assert np.array_equal(raw.probabilities, monte_carlo(network, HALF.apply(pixels), passes=3).probabilities)
    assert card_of(network).normalisation != HALF


class Encoder(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.output = layer, nn.Linear(8, 3)

    def forward(self, x):
        out = self.layer(x.reshape(-1, 2, 8))
        return self.output((out[0] if isinstance(out, tuple) else out).mean(1))


@pytest.mark.parametrize(
    "layer",
    [
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True),
        nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True),
        nn.Sequential(nn.Linear(8, 8), nn.AlphaDropout(0.5)),
    ],
    ids=["fused encoder", "recurrent", "alpha"],
)
def test_dropout_inside_torchs_own_layers_counts(layer):
    result = monte_carlo(Encoder(layer), torch.linspace(-1, 1, 32).reshape(2, 16), passes=5)
    assert (result.spread > 1e-4).all()


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(4, 3)

    def forward(self, x):
        return nn.functional.dropout(self.output(x), 0.5, self.training)


@pytest.mark.parametrize("network", [mlp(4, 5, 3), Functional(), nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0))])
def test_a_network_without_dropout_is_refused_by_name(network):
    with pytest.raises(UsageError, match=f"{type(network).__name__} has no dropout layer"):
        monte_carlo(network, ROWS)


def test_what_cannot_be_answered_is_named():
    network = mlp(4, 5, 3, dropout=0.5)
    with pytest.raises(UsageError, match="passes must be ≥ 2"):
        monte_carlo(network, ROWS, passes=1)
    broken = ROWS.clone()
    broken[4] = math.inf
    modes = [m.training for m in network.modules()]
    with pytest.raises(DataMismatch, match="1 inputs, the first is row 4"):
        monte_carlo(network, broken)
    assert [m.training for m in network.modules()] == modes
