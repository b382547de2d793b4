from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import OptionError, UnknownName, UsageError
from weightsmith.data.normalise import HALF
from weightsmith.networks import Mlp, PaperResnet, Resnet, Vgg
from weightsmith.networks.layers.norms import entrywise
from weightsmith.training.loop import train
from weightsmith.training.presets import Preset, preset, spike_ready

AWKWARD = [
    Mlp((9, 8), batch_norm="after", input_norm=True, activation="selu", dropout=0.2, dropout_kind="alpha"),
    Vgg(5, bias=True, batch_norm=True, pool="max", activation="leaky-relu:0.3", classifier=(6,)),
    PaperResnet((4, 5), activation="tanh"),
]


@pytest.mark.parametrize("architecture", AWKWARD, ids=lambda a: a.name)
def test_nothing_is_left_that_a_spiking_network_cannot_have(architecture):
    ready = spike_ready(architecture)
    network = ready.architecture.fitted((3, 16, 16), 4).build()
    assert not any(name.endswith("bias") for name, _ in network.named_parameters())
    kinds = {type(module) for module in network.modules()}
    assert not any(issubclass(kind, nn.modules.batchnorm._BatchNorm | nn.MaxPool2d) for kind in kinds)
    assert not kinds & {nn.SELU, nn.LeakyReLU, nn.Tanh}
    assert nn.ReLU in kinds
    assert all(module.kind == "inverted" for module in network.modules() if isinstance(module, ws.networks.Dropout))
    assert ready.normalisation == HALF
    assert Preset.from_json(ready.to_json()) == ready


def test_what_was_asked_otherwise_is_reported_and_the_rest_is_kept():
    ready = spike_ready(AWKWARD[1])
    assert ready.changes == (
        "bias=true became false",
        "batch_norm=true became false",
        "pool=max became avg",
        "activation=leaky-relu:0.3 became relu",
    )
    assert ready.architecture == Vgg(5, classifier=(6,))
    assert spike_ready("vgg:5").changes == ()
    assert spike_ready("vgg:5", strength=0.25).penalties[0].strength == 0.25


def test_what_cannot_be_made_ready_is_refused_by_name():
    with pytest.raises(UsageError, match="resnet cannot be built without batch norm"):
        spike_ready(Resnet(20))
    with pytest.raises(UsageError, match="mynets:build is code of your own"):
        spike_ready("mynets:build")
    with pytest.raises(OptionError, match="strength must be ≥ 0"):
        spike_ready("vgg:5", strength=-1)


def test_presets_by_name():
    assert preset("spike-ready", "mlp:5") == spike_ready("mlp:5")
    with pytest.raises(UnknownName, match="did you mean 'spike-ready'"):
        preset("spike-redy", "mlp:5")


def test_training_by_the_preset_evens_out_the_first_layer():
    """The L4 norms must end far closer together than in the same run without the penalty, at no cost in accuracy."""
    ready, data = spike_ready("mlp:32"), ws.data.load("digits")
    ended = {}
    for name, penalties in (("with", ready.penalties), ("without", ())):
        run = train(
            ready.architecture,
            data,
            normalise=ready.normalisation,
            penalties=penalties,
            schedule=0.02,
            epochs=8,
            diagnose=False,
        )
        norms = entrywise(run.network.dense1.weight.detach(), 4, dim=1)
        ended[name] = float(norms.std() / norms.mean()), ws.evaluate(run.network, data).accuracy.value
        assert ws.networks.card_of(run.network).normalisation == HALF
        assert torch.isfinite(norms).all()
    assert ended["with"][0] < 0.25 * ended["without"][0]
    assert ended["with"][1] > ended["without"][1] - 0.02
