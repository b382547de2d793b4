"""Ordinary modules through every verb: each works, and rightly, or is refused by one of our errors that says why.

There is no third outcome. ``REFUSED`` is the whole table of refusals: a module and a verb that are not in it work.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import WeightsmithError
from weightsmith.networks.wrappers import unwrapped

from .own_modules import IMAGES, ROWS

pytestmark = pytest.mark.filterwarnings("ignore")

MODULES = IMAGES | ROWS
QUICK = {"random": 0, "latency": False}


def _data(shape: tuple[int, ...]) -> ws.data.Data:
    labels = torch.arange(48) % 3
    values = torch.rand(48, *shape, generator=torch.Generator().manual_seed(1))
    values += 0.2 * labels.view(-1, *[1] * len(shape))
    test = ws.data.Split(values[:24].clone(), labels[:24])
    return ws.data.Data("own", train=ws.data.Split(values, labels), test=test)


DATA = {**dict.fromkeys(IMAGES, _data((3, 16, 16))), **dict.fromkeys(ROWS, _data((24,)))}


def _evaluate(network, data, _name, _tmp):
    found = ws.evaluate(network, data)
    with torch.no_grad():
        called = copy.deepcopy(unwrapped(network)).eval()(data.test.x.to(_dtype(network)).clone()).argmax(1)
    assert found.correct == int((called == data.test.y).sum())


def _train(network, data, _name, _tmp):
    run = ws.train(network, data, epochs=1, batch=16, schedule=0.01)
    before, after = unwrapped(network).state_dict(), run.network.state_dict()
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[key], after[key]) for key in before)
    assert ws.evaluate(run.network, data).not_finite == 0


def _grade(network, _data, _name, _tmp):
    grades = ws.grade(network)
    assert [layer.name for layer in grades.layers] == [layer.name for layer in ws.walk(network)]


def _smooth(network, _data, _name, _tmp):
    smoothed = ws.smooth(network).network
    assert {key: value.shape for key, value in smoothed.state_dict().items()} == {
        key: value.shape for key, value in unwrapped(network).state_dict().items()
    }


def _distances(network, _data, name, _tmp):
    assert ws.distances(network, MODULES[name]()).layers


def _reduce(network, data, _name, _tmp):
    small = ws.reduce(network, data, by="magnitude", target="params:0.9", random=2, latency=True)
    if any(site.refused for site in small.sites):
        assert any("target was not met" in note for note in small.record.notes)
    else:
        assert small.record.reduced.parameters <= 0.9 * small.record.whole.parameters
    assert small.record.measured.whole.value == ws.evaluate(network, data).accuracy.value
    assert small.record.measured.reduced.value == ws.evaluate(small.network, data).accuracy.value
    assert small.record.difference < 1e-3


def _recover(network, data, _name, _tmp):
    how = "fine-tune:1,rate=0.01,batch=16"
    small = ws.reduce(network, data, by="groups", target="params:0.9", recover=how, **QUICK)
    assert len(small.record.recovery) == 1


def _spike(network, data, _name, _tmp):
    snn = ws.spike(network, data, steps=4, watch=2)
    assert snn.record.decisions.network.value == ws.evaluate(network, data).accuracy.value


def _diff(network, data, name, _tmp):
    found = ws.diff(network, MODULES[name](), data, repeats=2, batches=(1,))
    assert found.layers or found.only_a or name == "functional"


def _transfer(network, data, _name, _tmp):
    made = ws.transfer(network, data, epochs=1, batch=16)
    assert ws.evaluate(made.network, data).images == 24


def _save(network, _data, name, tmp):
    path = ws.save(network, tmp / "own.safetensors")
    again, state = ws.load(path, network=MODULES[name]).state_dict(), unwrapped(network).state_dict()
    assert again.keys() == state.keys()
    assert all(torch.equal(again[key], state[key]) for key in state)


def _monte_carlo(network, data, _name, _tmp):
    assert len(ws.monte_carlo(network, data.test.x, passes=2)) == 24


VERBS: dict[str, Callable[[nn.Module, ws.data.Data, str, Path], Any]] = {
    "evaluate": _evaluate,
    "train": _train,
    "grade": _grade,
    "smooth": _smooth,
    "distances": _distances,
    "margins": lambda network, data, _name, _tmp: ws.margins(network, data),
    "angles": lambda network, data, _name, _tmp: ws.angles(network, data),
    "reduce": _reduce,
    "recover": _recover,
    "spike": _spike,
    "diff": _diff,
    "transfer": _transfer,
    "diagnose": lambda network, data, _name, _tmp: ws.diagnose(network, data),
    "find_rate": lambda network, data, _name, _tmp: ws.find_rate(network, data, steps=10, batch=8),
    "monte_carlo": _monte_carlo,
    "save": _save,
}

_RUNS = ("evaluate", "train", "margins", "angles", "reduce", "recover", "spike", "diagnose", "find_rate")
_CUTS = ("angles", "reduce", "recover")
_TRAINS = ("train", "recover", "diagnose", "find_rate")
_LOOSE = "is a parameter outside the layers that can be cut.*can lose units"
_NO_FORM = "cannot be made spiking: has no spiking form here; supported are"
_FLAT = "cannot be made spiking: only flattening"
_ONLY_RELU = "cannot be made spiking: only ReLU converts.*train with ReLU"
_SCRIPTED = "is a scripted module, which hides its layers; give the module that it was scripted from"

REFUSED: dict[str, dict[str, str]] = {
    "lenet tanh": {"spike": rf"tanh \(the function tanh\) {_ONLY_RELU}"},
    "densenet": {"spike": r"features.dense1.norm \(BatchNorm2d\) cannot be folded.*must come right after"},
    "mobilenet": {"spike": r"mean \(the method mean\) cannot be made spiking: a mean must go over height and width"},
    "efficientnet": {"spike": rf"stem.2 \(SiLU\) {_ONLY_RELU}"},
    "inception auxiliary": dict.fromkeys(
        _TRAINS, "in training mode the network gives a tuple.*returns the scores alone"
    ),
    "unet": {
        "spike": r"up \(ConvTranspose2d\) cannot be made spiking: of the convolutions only Conv1d and Conv2d convert"
    },
    "segmenter": dict.fromkeys(_RUNS, r"gives \(\d+, 3, 16, 16\), not one score per class.*pass a module"),
    "vit": {"spike": r"encoder.layers.0 \(TransformerEncoderLayer\) cannot be made spiking: attention multiplies"},
    "vit by hand": {
        "spike": r"attention \(Attention\): matmul .* multiplies signals with each other, as attention does"
    },
    "mixer": {"spike": rf"flatten \(the method flatten\) {_FLAT}"},
    "convnext": {"spike": rf"permute \(the method permute\) {_NO_FORM}"},
    "shufflenet": {
        **dict.fromkeys(_CUTS, r"stem: its 8 units are only some of the 4 of branch.*can lose units"),
        "spike": rf"chunk \(the method chunk\) {_NO_FORM}",
    },
    "functional": {
        **dict.fromkeys(_CUTS, f"kernel: {_LOOSE}"),
        "spike": r"conv2d \(the function conv2d\) cannot be made spiking: only as a module",
    },
    "group norm": {
        "spike": r"conv2d \(the function conv2d\) cannot be made spiking: only as a module",
    },
    "buffers": {"spike": rf"sub \(the function sub\) {_NO_FORM}"},
    "module dict": {"spike": rf"flatten \(the method flatten\) {_FLAT}"},
    "multi-head": {
        **dict.fromkeys(_RUNS, "the network gives a dict, not one score per class; pass a module"),
        "transfer": r"only its last dense layer \(two\) could be cut off",
    },
    "data dependent": {"spike": "DataDependent: its data flow cannot be traced.*write its forward without decisions"},
    "spectral norm": dict.fromkeys(_CUTS, f"conv.parametrizations.weight.original: {_LOOSE}"),
    "dilated": {"spike": r"a \(Conv2d\) cannot be made spiking: it pads with padding_mode='reflect'"},
    "siamese": {
        **dict.fromkeys(_CUTS, "encoder.0: its units are joined to others.*can lose units"),
        "spike": rf"split \(the function split\) {_NO_FORM}",
    },
    "first batch norm": {"spike": r"0 \(BatchNorm2d\) cannot be folded.*must come right after"},
    "softmax": {"spike": r"4 \(Softmax\) cannot be made spiking: remove the softmax"},
    "scripted": dict.fromkeys((*_TRAINS, *_CUTS, "spike", "transfer"), _SCRIPTED),
    "traced": dict.fromkeys((*_TRAINS, *_CUTS, "spike", "transfer"), _SCRIPTED),
    "log softmax": {"spike": "cannot be made spiking: remove the softmax"},
    "tied": {"spike": rf"sigmoid \(the function sigmoid\) {_ONLY_RELU}"},
    "residual mlp": {
        "spike": r"blocks.0.0 \(LayerNorm\) cannot be made spiking.*use batch norm",
    },
    "gated": {
        **dict.fromkeys(_CUTS, "wide: its 16 units do not divide the 8 places of out.*can lose units"),
        "spike": rf"chunk \(the method chunk\) {_NO_FORM}",
    },
    "gru": {
        **dict.fromkeys(_CUTS, f"gru.weight_ih_l0: {_LOOSE}"),
        "spike": r"gru \(GRU\) cannot be made spiking: recurrent layers feed",
    },
    "lstm": {
        **dict.fromkeys(_CUTS, r"lstm \(LSTM\) is recurrent"),
        "spike": r"lstm \(LSTM\) cannot be made spiking: recurrent layers feed",
    },
    "cell loop": {
        **dict.fromkeys(_CUTS, f"cell.weight_ih: {_LOOSE}"),
        "spike": r"cell \(RNNCell\) cannot be made spiking: recurrent cells feed",
    },
    "tokens": {
        **dict.fromkeys(_CUTS, f"embedding.weight: {_LOOSE}"),
        "spike": rf"long \(the method long\) {_NO_FORM}",
    },
    "one output": {
        **dict.fromkeys(_RUNS, "1 outputs; one score per class is needed"),
        "margins": "the network has 1 output: a margin needs at least two classes",
    },
    "shared linear": dict.fromkeys(_CUTS, "0: 2 shares its weights with 4.*can lose units"),
}
_WITH_DROPOUT = {"alexnet", "mobilenet", "vit", "mlp", "lstm"}
for _name in MODULES.keys() - _WITH_DROPOUT:
    REFUSED.setdefault(_name, {})["monte_carlo"] = "has no dropout layer.*make it a layer"


def _dtype(network):
    return next(network.parameters()).dtype


def _state(network):
    tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    modes = tuple(module.training for module in network.modules())
    return {name: value.detach().clone() for name, value in tensors.items()}, modes


def test_there_are_at_least_forty():
    assert len(MODULES) >= 40


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", MODULES)
def test_it_works_or_is_refused_by_name(name, verb, tmp_path):
    torch.manual_seed(0)
    network, data = MODULES[name](), DATA[name]
    state, modes = _state(network)
    x, expected = data.train.x.clone(), REFUSED.get(name, {}).get(verb)
    try:
        VERBS[verb](network, data, name, tmp_path)
        refusal = None
    except WeightsmithError as error:
        refusal = str(error)
    after, modes_after = _state(network)
    assert modes_after == modes
    assert all(torch.equal(value, after[key]) for key, value in state.items()), "the network was changed"
    assert torch.equal(data.train.x, x), "the data were changed"
    if expected is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert re.search(expected, refusal)
        assert "\n" not in refusal
