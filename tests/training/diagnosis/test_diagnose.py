"""The diagnosis on real networks: healthy and unhealthy ones, and that nothing is changed."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.data.datasets import load
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import Card, weights_digest, with_card
from weightsmith.networks.files import load as load_network
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg
from weightsmith.training.diagnosis.diagnose import diagnose
from weightsmith.training.diagnosis.gradients import Health


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def fashion():
    data = load("fashion-mnist", splits=("train",))
    return dataclasses.replace(data, train=data.train.take(slice(0, 2000)))


@pytest.fixture(scope="module")
def cifar():
    data = load("cifar10", splits=("train",))
    return dataclasses.replace(data, train=data.train.take(slice(0, 500)))


def deep(inputs, width, layers=20, scale=1.0, **options):
    network = mlp(inputs, *[width] * (layers - 1), 10, **options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    return network


def names_of(found, health):
    return [layer.name for layer in found.layers if layer.health is health]


HEALTHY = {
    "selu": {"activation": "selu"},
    "sigmoid, norm before": {"activation": "sigmoid", "batch_norm": "before"},
    "sigmoid, norm after": {"activation": "sigmoid", "batch_norm": "after"},
    "relu, norm before": {"batch_norm": "before"},
    "relu, norm after": {"batch_norm": "after"},
    "relu": {},
    "tanh": {"activation": "tanh"},
    "elu": {"activation": "elu"},
}


@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("seed", [0, 1])
def test_twenty_sigmoid_layers_vanish_and_the_low_ones_are_named(digits, width, seed):
    found = diagnose(deep(64, width, activation="sigmoid", seed=seed), digits, seed=seed)
    assert found.health is Health.VANISHING
    low = names_of(found, Health.VANISHING)
    assert low in ([f"dense{number}" for number in range(1, most)] for most in (15, 16))  # 0.25 ** 5 = 0.00098
    assert f"vanishing in dense1 to {low[-1]} ({len(low)} of 20 layers; dense1: " in found.sentence
    first = found.layers[0].sensitivity[0] / found.layers[-1].sensitivity[0]
    assert 1e-13 < first < 1e-11  # a quarter per layer: 0.25 ** 19 = 3.6e-12


@pytest.mark.parametrize("options", HEALTHY.values(), ids=HEALTHY)
@pytest.mark.parametrize(("width", "seed"), [(32, 0), (32, 1), (128, 2)])
def test_twenty_layers_that_let_gradients_through_are_healthy(digits, options, width, seed):
    assert diagnose(deep(64, width, seed=seed, **options), digits, seed=seed).health is Health.HEALTHY


@pytest.mark.parametrize("layers", [3, 5, 10])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_fewer_layers_are_healthy(digits, layers, activation):
    assert diagnose(deep(64, 64, layers, activation=activation), digits).health is Health.HEALTHY


@pytest.mark.parametrize("rate", [0.01, 1e-12])
@pytest.mark.parametrize(("scale", "layers"), [(3, 20), (10, 5)])
def test_weights_that_are_too_large_explode_whatever_the_rate(digits, scale, layers, rate):
    found = diagnose(deep(64, 64, layers, scale), digits, rate=rate)
    assert found.health is Health.EXPLODING
    assert "dense1" in names_of(found, Health.EXPLODING)
    assert "exploding in dense1" in found.sentence


@pytest.mark.parametrize("rate", [10.0, 1000.0])
def test_a_rate_that_overwrites_the_weights_explodes(digits, rate):
    network = mlp(64, 32, 32, 10)
    assert diagnose(network, digits, rate=0.1).health is Health.HEALTHY
    found = diagnose(network, digits, rate=rate)
    assert found.health is Health.EXPLODING
    assert "times its weights" in found.sentence


@pytest.mark.parametrize("rate", [0.03, 0.1])
def test_a_network_that_outgrows_its_first_large_step_is_healthy(digits, rate):
    found = diagnose(deep(64, 32, batch_norm="after"), digits, rate=rate, batches=6)
    assert max(layer.update[0] for layer in found.layers) > 10 * rate
    assert found.health is Health.HEALTHY


def test_units_that_never_fire_are_dead(digits):
    network = mlp(64, 32, 32, 10)
    nn.init.constant_(network.dense2.bias, -1e3)
    found = diagnose(network, digits)
    assert names_of(found, Health.DEAD) == ["dense1", "dense2"]
    assert "exactly zero" in found.layers[0].reason


class Sequences(nn.Module):
    """A recurrent layer over 64 time steps whose last state is classified."""

    def __init__(self, kind, scale=1.0, orthogonal=False):
        super().__init__()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            self.recurrent, self.output = kind(3, 32, batch_first=True), nn.Linear(32, 4)
            if orthogonal:
                nn.init.orthogonal_(self.recurrent.weight_hh_l0)
        self.recurrent.weight_hh_l0.data.mul_(scale)

    def forward(self, x):
        return self.output(self.recurrent(x.reshape(len(x), 64, 3))[0][:, -1])


@pytest.fixture(scope="module")
def sequences():
    x = torch.randn(128, 64 * 3, generator=torch.Generator().manual_seed(0))
    return 0.3 * x, torch.arange(128) % 4


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_gradient_that_does_not_reach_the_first_time_steps_vanishes(sequences, kind):
    found = diagnose(Sequences(kind, scale=0.05), sequences)
    assert found.health is Health.VANISHING
    assert names_of(found, Health.VANISHING) == ["recurrent"]
    assert "through time the gradient at the first step is" in found.sentence
    assert "of 64 steps" in found.sentence


def test_recurrent_layers_that_reach_the_first_time_step_are_healthy(sequences):
    assert diagnose(Sequences(nn.RNN, orthogonal=True), sequences).health is Health.HEALTHY
    network = Sequences(nn.LSTM)
    with torch.no_grad():
        network.recurrent.bias_hh_l0[32:64] = 4.0  # an open forget gate
    assert diagnose(network, sequences).health is Health.HEALTHY


def test_most_units_dead_is_not_healthy(digits):
    network = mlp(64, 32, 32, 10)
    nn.init.constant_(network.dense2.bias[:29], -1e3)
    found = diagnose(network, digits)
    assert found.health is Health.DEAD
    assert names_of(found, Health.DEAD) == ["dense2"]
    assert "no image gave 91% of its units a gradient" in found.sentence


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
def test_units_beyond_the_bend_are_saturated(digits, activation):
    network = mlp(64, 32, 32, 10, activation=activation)
    network.dense2.weight.data.mul_(100)
    found = diagnose(network, digits)
    assert found.health is Health.SATURATED
    assert names_of(found, Health.SATURATED) == ["dense2"]


@pytest.mark.parametrize("factor", [1000.0, 1e-3])
def test_badly_scaled_inputs_are_blamed_first(digits, factor):
    x = digits.normalisation.apply(digits.train.x) * factor
    found = diagnose(mlp(64, 32, 32, 10), (x, digits.train.y))
    assert found.health is Health.BADLY_SCALED
    assert found.sentence.startswith("inputs badly scaled")
    normed = mlp(64, 32, 32, 10, input_norm=True)
    assert diagnose(normed, (x, digits.train.y)).health is Health.HEALTHY  # batch norm in front takes any scale


def test_numbers_that_are_not_finite_are_named_and_not_recorded(digits):
    network = mlp(64, 32, 32, 10)
    with torch.no_grad():
        network.dense2.weight[0, 0] = torch.nan
    found = diagnose(network, digits)
    assert found.health is Health.NOT_FINITE
    assert "dense2: its output is NaN or infinite at step 0" in found.sentence
    assert found.from_json(found.to_json()) == found


def test_a_hundred_sigmoid_layers_vanish_although_floats_end(digits):
    found = diagnose(deep(64, 32, 100, activation="sigmoid"), digits, batches=1)
    assert found.layers[0].sensitivity == (0.0,)
    assert found.layers[0].health is Health.VANISHING
    assert not names_of(found, Health.DEAD)


def test_the_network_and_the_random_state_are_left_alone(digits):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.BatchNorm1d(20), nn.Dropout(0.5), nn.Linear(20, 10))
    network.eval()
    state, threads, before = torch.random.get_rng_state(), torch.get_num_threads(), weights_digest(network)
    first = diagnose(network, digits, rate=1.0)
    assert weights_digest(network) == before
    assert not network.training
    assert all(parameter.grad is None for parameter in network.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.rand(3)
    assert diagnose(network, digits, rate=1.0).to_json() == first.to_json()
    assert diagnose(network, digits, rate=1.0, seed=1).to_json() != first.to_json()


def test_data_come_in_any_form(digits):
    network = mlp(64, 16, 10)
    x, y = digits.normalisation.apply(digits.train.x), digits.train.y
    expected = diagnose(network, (x, y))
    forms = [{"train": (x, y)}, TensorDataset(x, y), DataLoader(TensorDataset(x, y), 50), (x.numpy(), y.numpy())]
    for form in forms:
        assert diagnose(network, form) == expected


def test_inputs_are_normalised_by_the_card_or_by_the_data(digits):
    data = dataclasses.replace(digits, normalisation=Normalisation((0.5,), (0.25,)))
    network = mlp(64, 16, 10)
    by_hand = diagnose(network, (data.normalisation.apply(data.train.x), data.train.y))
    assert diagnose(network, data) == by_hand
    carded = with_card(mlp(64, 16, 10), Card(input_shape=(64,), normalisation=Normalisation((0.1,), (2.0,))))
    by_hand = diagnose(network, ((data.train.x - 0.1) / 2, data.train.y))
    assert diagnose(carded, data).layers[0].sensitivity == pytest.approx(by_hand.layers[0].sensitivity, rel=1e-5)


def test_more_batches_than_the_data_hold_go_round_again():
    x = torch.linspace(-1, 1, 40).reshape(10, 4)
    found = diagnose(nn.Sequential(nn.Linear(4, 3)), (x, torch.arange(10) % 3), batch=4, batches=7)
    assert found.probes == tuple(range(7))


def test_frozen_layers_stay_and_are_not_judged(digits):
    network = mlp(64, 16, 16, 10)
    network.dense1.requires_grad_(False)
    found = diagnose(network, digits)
    assert [layer.health.value for layer in found.layers] == ["frozen", "healthy", "healthy"]


def test_the_loss_is_any_that_training_takes(digits):
    network = mlp(64, 16, 10)
    plain = diagnose(network, digits)
    assert diagnose(network, digits, loss=nn.functional.cross_entropy) == plain
    assert diagnose(network, digits, loss="squared-error") != plain


def test_what_cannot_be_done_is_refused(digits):
    with pytest.raises(UsageError, match="batches must be at least 1"):
        diagnose(mlp(64, 16, 10), digits, batches=0)
    with pytest.raises(DataMismatch):
        diagnose(mlp(10, 16, 10), digits)


@pytest.mark.data
def test_fashion_mnist_gives_the_same_verdicts(fashion):
    assert diagnose(deep(784, 50, activation="sigmoid"), fashion).health is Health.VANISHING
    for options in HEALTHY.values():
        assert diagnose(deep(784, 50, **options), fashion).health is Health.HEALTHY
    assert diagnose(deep(784, 50, scale=3), fashion).health is Health.EXPLODING
    assert diagnose(deep(784, 50, 5, scale=10), fashion).health is Health.EXPLODING


@pytest.mark.data
@pytest.mark.slow
def test_convolutional_networks_are_healthy_at_the_start(cifar):
    for network in (vgg(5, classifier=(512, 512)), resnet(20), resnet(20, shortcut="conv"), resnet(56)):
        assert diagnose(network, cifar, batch=32, batches=2).health is Health.HEALTHY


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["akamaster_resnet20", "akamaster_resnet56", "distiller_resnet20_dense", "vgg5_fc512"])
def test_trained_networks_are_healthy(shared_data, cifar, name):
    network = load_network(shared_data / "weights" / f"{name}.safetensors")
    assert diagnose(network, cifar, batch=32, batches=2).health is Health.HEALTHY
