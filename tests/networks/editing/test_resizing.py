"""Layers given other tensors behave as layers made with those sizes; what cannot be given them is refused whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.networks.editing.resizing import output_units, resize, set_tensors, units_with
from weightsmith.networks.models.batchnorm import SeedBatchNorm2d


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


# A layer, the same kind made directly at the new sizes, and an input of the latter.
PAIRS = {
    "dense": (nn.Linear(6, 5), nn.Linear(4, 3), (2, 4)),
    "dense without bias": (nn.Linear(6, 5, bias=False), nn.Linear(4, 3, bias=False), (2, 4)),
    "conv1d": (nn.Conv1d(6, 5, 3), nn.Conv1d(4, 3, 3), (2, 4, 7)),
    "conv2d": (nn.Conv2d(6, 5, (3, 2), stride=2), nn.Conv2d(4, 3, (3, 2), stride=2), (2, 4, 7, 7)),
    "conv3d": (nn.Conv3d(6, 5, 2), nn.Conv3d(4, 3, 2), (2, 4, 3, 3, 3)),
    "groups that stay": (nn.Conv2d(6, 4, 3, groups=2), nn.Conv2d(4, 2, 3, groups=2), (2, 4, 5, 5)),
    "whole groups": (nn.Conv2d(6, 9, 3, groups=3), nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    "depthwise": (nn.Conv2d(6, 6, 3, groups=6), nn.Conv2d(4, 4, 3, groups=4), (2, 4, 5, 5)),
    "depthwise twice": (nn.Conv2d(6, 12, 3, groups=6), nn.Conv2d(4, 8, 3, groups=4), (2, 4, 5, 5)),
    "depthwise to one": (nn.Conv2d(6, 6, 3, groups=6), nn.Conv2d(1, 1, 3), (2, 1, 5, 5)),
    "transposed": (nn.ConvTranspose2d(6, 5, 3), nn.ConvTranspose2d(4, 3, 3), (2, 4, 5, 5)),
    "transposed groups": (
        nn.ConvTranspose2d(6, 4, 3, groups=2),
        nn.ConvTranspose2d(4, 2, 3, groups=2),
        (2, 4, 5, 5),
    ),
    "transposed depthwise": (
        nn.ConvTranspose1d(6, 12, 3, groups=6),
        nn.ConvTranspose1d(4, 8, 3, groups=4),
        (2, 4, 5),
    ),
    "batch norm 1d": (nn.BatchNorm1d(5), nn.BatchNorm1d(3), (2, 3)),
    "batch norm 2d": (nn.BatchNorm2d(5), nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "bare batch norm": (nn.BatchNorm2d(5, affine=False), nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4)),
    "the slides' batch norm": (SeedBatchNorm2d(5), SeedBatchNorm2d(3), (2, 3, 4, 4)),
    "instance norm": (nn.InstanceNorm2d(5, affine=True), nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    "group norm": (nn.GroupNorm(2, 6), nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "group norm, whole groups": (nn.GroupNorm(3, 6), nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "group norm, each alone": (nn.GroupNorm(6, 6), nn.GroupNorm(4, 4), (2, 4, 3, 3)),
    "layer norm": (nn.LayerNorm(5), nn.LayerNorm(3), (2, 3)),
    "layer norm of images": (nn.LayerNorm((5, 4, 4)), nn.LayerNorm((3, 4, 4)), (2, 3, 4, 4)),
    "rms norm": (nn.RMSNorm(5), nn.RMSNorm(3), (2, 3)),
    "slopes": (nn.PReLU(5), nn.PReLU(3), (2, 3, 4)),
}


@pytest.mark.parametrize("case", PAIRS)
def test_a_layer_becomes_as_if_made_at_its_new_sizes(case):
    layer, expected, shape = PAIRS[case]
    with torch.no_grad():
        for tensor in expected.state_dict().values():
            tensor.copy_(drawn(*tensor.shape).abs() + 0.5 if tensor.is_floating_point() else tensor)
    set_tensors(layer, expected.state_dict())
    assert str(layer) == str(expected)
    assert {k: v.shape for k, v in layer.state_dict().items()} == {k: v.shape for k, v in expected.state_dict().items()}
    assert torch.equal(layer.eval()(drawn(*shape)), expected.eval()(drawn(*shape)))


def test_type_and_training_stay_and_values_are_copied():
    layer = nn.Linear(3, 2).to(torch.float64)
    layer.weight.requires_grad_(False)
    source = torch.ones(4, 3)
    set_tensors(layer, {"weight": source[:1], "bias": torch.zeros(1)})
    source.fill_(7)
    assert layer.weight.dtype == torch.float64
    assert (layer.weight.requires_grad, layer.bias.requires_grad) == (False, True)
    assert isinstance(layer.weight, nn.Parameter)
    assert torch.equal(layer.weight, torch.ones(1, 3, dtype=torch.float64))
    assert layer.weight.untyped_storage().nbytes() == 3 * 8  # no view of something larger


def test_a_layer_without_bias_may_get_one():
    layer = nn.Conv2d(2, 3, 1, bias=False)
    set_tensors(layer, {"bias": torch.tensor([1.0, 2.0, 3.0])})
    assert torch.equal(layer(torch.zeros(1, 2, 1, 1)).flatten(), torch.tensor([1.0, 2.0, 3.0]))
    assert "bias" in dict(layer.named_parameters())


@pytest.mark.parametrize(
    ("layer", "tensors", "message"),
    [
        (nn.LSTM(2, 3), {"weight": torch.ones(2)}, "LSTM cannot be resized"),
        (nn.ReLU(), {}, "ReLU cannot be resized"),
        (nn.Linear(2, 3), {"weights": torch.ones(3, 2)}, "unknown tensor .* did you mean 'weight'"),
        (nn.BatchNorm1d(3, affine=False), {"bias": torch.ones(3)}, "unknown tensor"),
        (nn.Linear(2, 3), {"weight": torch.ones(2, 2)}, r"bias of shape \(3,\) does not fit .* \(2,\) would"),
        (nn.Linear(2, 3), {"weight": torch.ones(0, 2), "bias": torch.ones(0)}, "leaves no units"),
        (nn.Linear(2, 3), {"weight": torch.ones(3)}, "must have 2 axes"),
        (nn.Linear(2, 3), {"bias": torch.ones(3, 1)}, "does not fit"),
        (nn.Conv2d(2, 3, 3), {"weight": torch.ones(3, 2, 1, 3)}, r"\(3, 2, 3, 3\) would"),
        (nn.Conv2d(4, 4, 1, groups=2), {"weight": torch.ones(3, 2, 1, 1)}, "cannot be split into 2 groups"),
        (nn.Conv2d(4, 8, 1, groups=4), {"weight": torch.ones(3, 1, 1, 1)}, "gives 2 channels per input"),
        (nn.GroupNorm(2, 4), {"weight": torch.ones(3), "bias": torch.ones(3)}, "cannot be split into 2 groups"),
        (nn.BatchNorm1d(3), {"weight": torch.ones(2), "bias": torch.ones(2)}, "running_mean of shape"),
        (nn.LazyLinear(3), {"bias": torch.ones(3)}, "no size yet"),
        (parametrizations.weight_norm(nn.Linear(2, 3)), {"bias": torch.ones(3)}, "computed from other tensors"),
        (prune.random_unstructured(nn.Linear(2, 3), "weight", 0.5), {"bias": torch.ones(3)}, "computed from other"),
    ],
)
def test_what_does_not_fit_changes_nothing(layer, tensors, message):
    before, shown = {name: id(value) for name, value in layer.named_parameters()}, str(layer)
    with pytest.raises(UsageError, match=message) as caught:
        set_tensors(layer, tensors)
    assert "\n" not in str(caught.value)
    assert ({name: id(value) for name, value in layer.named_parameters()}, str(layer)) == (before, shown)


def test_an_unknown_tensor_is_named():
    with pytest.raises(UnknownName, match="known: bias, weight"):
        set_tensors(nn.Linear(2, 3), {"gain": torch.ones(3)})


def test_output_units():
    layers = nn.Linear(2, 3), nn.ConvTranspose2d(2, 4, 1), nn.Conv1d(2, 6, 1, groups=2), nn.PReLU(7)
    assert [output_units(layer) for layer in layers] == [3, 4, 6, None]


class Own(nn.Module):
    def __init__(self, width=6, tied=False):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.body = nn.Sequential(nn.Linear(4, width, bias=False), nn.BatchNorm1d(width), nn.PReLU(width))
        self.tied = nn.Linear(4, width, bias=False)
        if tied:
            self.tied.weight = self.body[0].weight
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.body(x * self.scale) + self.tied(x))


def shapes_of(network):
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def test_resize_gives_the_shapes_asked_for():
    small = Own(2).eval()
    network = resize(Own(), shapes_of(small))
    assert shapes_of(network) == shapes_of(small)
    network.load_state_dict(small.state_dict())
    assert torch.equal(network.eval()(drawn(5, 4)), small(drawn(5, 4)))
    assert str(network) == str(small)


def test_resize_leaves_what_fits_alone():
    network = Own()
    before = dict(network.named_parameters())
    resize(network, shapes_of(Own()))
    assert all(value is before[name] for name, value in network.named_parameters())
    resize(network, {**shapes_of(Own()), "head.weight": (1, 6), "head.bias": (1,)})
    assert [name for name, value in network.named_parameters() if value is not before[name]] == [
        "head.weight",
        "head.bias",
    ]


def test_resize_keeps_shared_weights_shared():
    network = resize(Own(tied=True), shapes_of(Own(2)))
    assert network.tied.weight is network.body[0].weight
    assert resize(Own(), shapes_of(Own(2))).tied.weight is not network.body[0].weight


def test_resize_gives_a_bias_where_the_shapes_have_one():
    network = resize(Own(), {**shapes_of(Own()), "tied.bias": (6,)})
    assert network.tied.bias.shape == (6,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tail.weight": (3,)}, "tail.weight: the network has no such tensor"),
        ({"scale": (3,)}, "Own cannot be resized"),
        ({"head.weight": (2, 6)}, "head: bias of shape"),
        ({"body.1.weight": (10**9,)}, "body.1: bias of shape"),
    ],
)
def test_resize_names_what_it_cannot_do_before_it_begins(changes, message):
    network = Own()
    with pytest.raises(UsageError, match=message):
        resize(network, {**shapes_of(Own()), "tied.weight": (10**7, 10**7), **changes})
    assert network.tied.weight.shape == (6, 4)


def test_units_with_other_shapes():
    network = Own()
    assert units_with(network, {}) == {"body.0": 6, "tied": 6, "head": 3}
    assert units_with(network, shapes_of(Own(2))) == {"body.0": 2, "tied": 2, "head": 3}
    assert network.tied.out_features == 6


def test_a_computed_weight_that_stays_as_it_is_does_no_harm():
    network = nn.Sequential(nn.Linear(4, 3), parametrizations.weight_norm(nn.Linear(3, 2)))
    resize(network, {**shapes_of(network), "0.weight": (3, 5)})
    assert network[0].in_features == 5
    with pytest.raises(UsageError, match=r"1\.parametrizations.weight: a .* cannot be resized"):
        resize(network, {**shapes_of(network), "1.parametrizations.weight.original1": (2, 4)})


def test_a_module_that_stands_in_two_places_is_relaid_once():
    layer = nn.Conv2d(6, 6, 3, groups=6)
    network = nn.ModuleDict({"a": layer, "b": layer})
    small = nn.Conv2d(4, 4, 3, groups=4)
    resize(network, shapes_of(nn.ModuleDict({"a": small, "b": small})))
    assert network["a"] is network["b"]
    assert str(network["a"]) == str(small)
