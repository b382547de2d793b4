from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.data.normalise import HALF
from weightsmith.networks.card import Card, weights_digest, with_card
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.models.mlp import mlp
from weightsmith.networks.models.paper_resnet import paper_resnet
from weightsmith.networks.models.resnet import resnet
from weightsmith.networks.models.vgg import vgg
from weightsmith.spiking.conversion.balance import MaxCurrent, Percentile, balanced
from weightsmith.spiking.conversion.convert import Converted, convert, plain_scores
from weightsmith.spiking.encoding import Constant, Poisson
from weightsmith.spiking.files import load_spiking, save_spiking
from weightsmith.spiking.graph import INPUT, Add, Flatten, Gate, Neurons, Pool, Scale, Synapses
from weightsmith.spiking.neurons import IF, LIF, Graded
from weightsmith.spiking.portable.export import export_torch
from weightsmith.spiking.simulation.reference import linear


def as_plain_network(network, x):
    """What the last node gives in a network that does not spike: neurons as ReLU, gates as max pooling."""
    values = {INPUT: x}
    for node in network.nodes:
        entering = [values[name] for name in node.sources]
        if isinstance(node, Synapses) and node.weight.dim() == 2:
            value = entering[0] @ node.weight.T + (0 if node.bias is None else node.bias)
        elif isinstance(node, Synapses):
            layer = nn.Conv2d(
                node.weight.shape[1] * node.groups,
                len(node.weight),
                node.weight.shape[2:],
                node.stride,
                node.padding,
                node.dilation,
                node.groups,
                bias=node.bias is not None,
            )
            layer.load_state_dict({"weight": node.weight} | ({} if node.bias is None else {"bias": node.bias}))
            value = layer(entering[0])
        elif isinstance(node, Pool):
            value = nn.AvgPool2d(node.kernel, node.stride, node.padding)(entering[0])
        elif isinstance(node, Gate):
            value = nn.MaxPool2d(node.kernel, node.stride, node.padding)(entering[0])
        elif isinstance(node, Neurons):
            value = entering[0].clamp(min=0)
        elif isinstance(node, Flatten):
            value = entering[0].reshape(len(x), -1)
        elif isinstance(node, Scale):
            value = torch.einsum("nc...,c->nc...", entering[0], node.factor)
        elif isinstance(node, Add):
            value = sum(entering)
        values[node.name] = value
    return value


def lived_in(network, seed=0):
    """The network with statistics, biases and scales that are not those of birth, in training mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in (*network.named_parameters(), *network.named_buffers()):
            if name.endswith("running_var"):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
            elif value.dim() == 1 and value.is_floating_point():
                value.add_(0.3 * torch.randn(value.shape, generator=generator))
    return network.train()


def converted(network, shape=None, **options) -> Converted:
    return convert(network, options.pop("neuron", IF()), options.pop("encode", Constant()), input_shape=shape)


def held_equal(network, shape=None, atol=1e-5):
    """Convert, hold against the network on random inputs, and hand out what was converted."""
    before, training = weights_digest(network), network.training
    found = converted(network, shape)
    assert weights_digest(network) == before
    assert network.training == training
    x = torch.randn(5, *found.network.input_shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = copy.deepcopy(network).eval()(x)
        scale = max(1.0, float(expected.abs().max()))
        assert torch.allclose(as_plain_network(found.network, x), expected, atol=atol * scale, rtol=0)
        assert torch.allclose(found.outputs(x), expected, atol=atol * scale, rtol=0)
    return found


def kinds(found):
    return [type(node).__name__ for node in found.network.nodes]


OURS = {
    "mlp": (lambda: mlp(6, 5, 4, 3), 2),
    "mlp with batch norm": (lambda: mlp(6, 5, 4, 3, batch_norm="before", dropout=0.3, input_dropout=0.1), 2),
    "mlp on images": (lambda: mlp(12, 5, 3, input_shape=(3, 2, 2)), 1),
    "mlp with dropout after": (lambda: mlp(6, 5, 4, 3, dropout=0.4, dropout_kind="after"), 2),
    "vgg": (lambda: vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,)), 4),
    "vgg max, batch norm, bias": (
        lambda: vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8, 7), pool="max", batch_norm=True, bias=True),
        5,
    ),
    "resnet pad": (lambda: resnet(20, (3, 16, 16), 4, widths=(4, 6, 9)), 19),
    "resnet conv": (lambda: resnet(20, (3, 16, 16), 4, widths=(4, 6, 9), shortcut="conv"), 19),
    "resnet cut": (lambda: resnet(8, (3, 8, 8), 4, removed=("layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv2")), 6),
    "paper resnet": (lambda: paper_resnet((3, 16, 16), 4, widths=(4, 6, 8)), 15),
}


@pytest.mark.parametrize("name", OURS)
def test_our_own_networks_compute_the_same(name):
    make, populations = OURS[name]
    found = held_equal(lived_in(make()))
    assert len(found.network.populations) == populations
    for node in found.network.populations:
        assert node.threshold.equal(torch.ones(found.network.shapes[node.name][0]))
        assert node.amplitude is None
    for node in found.network.synapses:
        assert node.weight.dtype == torch.float32
        assert node.weight.is_contiguous()


def test_names_and_layers_are_those_of_the_modules():
    found = converted(resnet(8, (3, 8, 8), 4))
    assert {node.name: node.layer for node in found.network.populations} == {
        "activation": "conv1",
        "layer1.0.activation1": "layer1.0.conv1",
        "layer1.0.activation2": "layer1.0.conv2",
        "layer2.0.activation1": "layer2.0.conv1",
        "layer2.0.activation2": "layer2.0.conv2",  # not the shortcut, which is computed after it
        "layer3.0.activation1": "layer3.0.conv1",
        "layer3.0.activation2": "layer3.0.conv2",
    }
    shortcut = found.network.node("layer2.0.downsample")
    assert isinstance(shortcut, Synapses)
    assert shortcut.stride == (2, 2)
    assert found.network.synapses[-1].name == "fc"


def test_a_shortcut_of_its_own_layers_does_not_name_the_population():
    found = converted(paper_resnet((3, 16, 16), 4, widths=(4, 6)))
    layers = {node.name: node.layer for node in found.network.populations}
    assert layers["stages.2.activation"] == "stages.2.residual.3"


class Functional(nn.Module):
    """Every way to write a ReLU, in and out of place."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding="same", groups=2)
        self.relu = nn.ReLU(inplace=True)
        self.third, self.fourth, self.head = nn.Linear(16, 7), nn.Linear(7, 7), nn.Linear(7, 3)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)), inplace=True)
        x = F.relu(F.max_pool2d(self.second(x), 2))
        x = F.avg_pool2d(x, x.size()[3] // 2)
        x = x.view(x.shape[0], -1)
        x = torch.relu(self.third(F.dropout(x, 0.5, self.training)))
        x = self.relu(self.fourth(x))
        x = self.relu(self.fourth(x)).contiguous()
        x = torch.relu_(self.fourth(x))
        return self.head(self.fourth(x).relu_())


def test_functions_methods_and_modules_used_twice():
    found = held_equal(lived_in(Functional()), (2, 8, 8))
    assert {node.name: node.layer for node in found.network.populations} == {
        "relu": "conv",
        "relu_1": "second",
        "relu_2": "third",
        "relu_3": "fourth",
        "relu_4": "fourth_1",
        "relu_": "fourth_2",
        "relu__1": "fourth_3",
    }
    assert kinds(found)[2:5] == ["Synapses", "Neurons", "Gate"]  # the ReLU has moved before the pool


class Overwriting(nn.Module):
    """What works in place changes what others read."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.relu, self.idle = nn.ReLU(inplace=True), nn.Dropout()

    def forward(self, x):
        first = self.a(x)
        kept = first.clone()
        same = self.idle(first)
        F.relu(same, inplace=True)  # changes ``first`` too; its own result goes nowhere
        second = self.b(first)
        third = self.relu(second)
        second += third  # second is third here
        second.mul_(0.5)
        return self.c(second) + self.c(kept.relu())


def test_overwritten_values_are_read_as_they_are_then():
    found = held_equal(lived_in(Overwriting()), (4,))
    assert len(found.network.populations) == 3


class OptionA(nn.Module):
    """The shortcut of option A as the common CIFAR code writes it, and sums of all kinds."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, 2, 1, bias=False)
        self.pad = nn.ZeroPad2d(1)
        self.conv3, self.linear = nn.Conv2d(8, 8, 3), nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = self.conv2(x) + F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2), "constant", 0)
        x = F.relu(x)
        y = sum([self.conv3(self.pad(x)), x, 2 * x])
        y = torch.add(y / 4, x[:, 0:8], alpha=0.5)
        y = F.relu(y).add(x)
        return self.linear(torch.flatten(F.adaptive_avg_pool2d(y, 1), 1))


def test_slices_pads_sums_and_factors():
    found = held_equal(lived_in(OptionA()), (3, 8, 8))
    pad = found.network.node("pad")
    assert isinstance(pad, Synapses)
    assert pad.source == "relu"
    assert pad.stride == (2, 2)
    assert pad.weight.sum() == 4
    names = {node.name for node in found.network.nodes}
    assert "getitem" not in names  # it is one with the pad


POOLS = {
    "average": nn.AvgPool2d(2),
    "average, overlapping and padded": nn.AvgPool2d(3, 2, 1),
    "average, ceil that changes nothing": nn.AvgPool2d(2, ceil_mode=True),
    "average, sides": nn.AvgPool2d((2, 4)),
    "adaptive": nn.AdaptiveAvgPool2d((2, 4)),
    "adaptive, as it is": nn.AdaptiveAvgPool2d(8),
    "adaptive, free side": nn.AdaptiveAvgPool2d((None, 1)),
    "max": nn.MaxPool2d(2),
    "max, overlapping and padded": nn.MaxPool2d(3, 2, 1),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name):
    pool = POOLS[name]
    features = torch.zeros(1, 4, 8, 8)
    inputs = pool(features).numel()
    network = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), pool, nn.Flatten(), nn.Linear(inputs, 3))
    found = held_equal(network, (2, 8, 8))
    expected = [] if name == "adaptive, as it is" else ["Gate" if "max" in name else "Pool"]
    assert kinds(found) == ["Synapses", "Neurons", *expected, "Flatten", "Synapses"]


def test_means_over_an_image():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

        def forward(self, x):
            x = self.conv(x).relu()
            return self.linear(x.mean((2, 3)) + torch.mean(x, [-1, -2], keepdim=True).flatten(1))

    found = held_equal(Mean(), (2, 6, 6))
    assert "mean*flatten" in {node.name for node in found.network.nodes}


def test_flattening_in_steps():
    class Squeeze(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

        def forward(self, x):
            x = F.adaptive_avg_pool2d(self.conv(x).relu(), 1)
            return self.linear(x.squeeze(3).squeeze(2)) + self.linear(torch.squeeze(x))

    assert kinds(held_equal(Squeeze(), (2, 6, 6))).count("Flatten") == 2


def test_weights_computed_from_others_are_made_plain():
    layers = [parametrizations.weight_norm(nn.Conv2d(2, 4, 3)), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    network = nn.Sequential(*layers, parametrizations.spectral_norm(nn.Linear(144, 3)))
    held_equal(lived_in(network.eval()).eval(), (2, 8, 8))
    assert parametrize.is_parametrized(network[0])


def test_several_max_pools_before_the_relu():
    network = nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.Dropout2d(), nn.MaxPool2d(2)),
        *(nn.Identity(), nn.ReLU(True), nn.Flatten(), nn.Linear(12, 2)),
    )
    found = held_equal(lived_in(network), (1, 8, 8))
    assert kinds(found) == ["Synapses", "Neurons", "Gate", "Gate", "Flatten", "Synapses"]
    assert found.activations(torch.zeros(1, 1, 8, 8))["6"].shape == (1, 3, 8, 8)  # as the population, before the pools


class Drawn(nn.Module):
    """A network drawn at random from what converts."""

    def __init__(self, seed):
        super().__init__()
        self.layers, self.choices = nn.ModuleList(), []
        draw = random.Random(seed)
        channels, size = draw.choice((1, 2, 4)), 8
        self.input_shape = (channels, size, size)
        for _ in range(draw.randint(1, 4)):
            groups = draw.choice((1, channels))
            wide = channels * draw.choice((1, 2)) if groups > 1 else draw.choice((2, 4))
            dilation = draw.choice((1, 2))
            conv = nn.Conv2d(channels, wide, 3, 1, dilation, dilation, groups, bias=draw.random() < 0.5)
            norm = nn.BatchNorm2d(wide, affine=draw.random() < 0.7) if draw.random() < 0.5 else nn.Identity()
            form = draw.choice(("module", "function", "in place", "method", "torch"))
            pool = draw.choice(("none", "average", "max first", "max")) if size > 2 else "none"
            size //= 1 if pool == "none" else 2
            residual = draw.random() < 0.5
            after = Dropout(0.25, draw.choice(("inverted", "after")))
            self.layers.append(nn.ModuleList([conv, norm, nn.ReLU(draw.random() < 0.5), after]))
            self.choices.append((form, pool, residual and wide == channels))
            channels = wide
        self.head = nn.Linear(channels * size * size, 3)

    def forward(self, x):
        for (conv, norm, relu, after), (form, pool, residual) in zip(self.layers, self.choices, strict=True):
            y = norm(conv(x))
            if residual:
                y = y + x
            if pool == "max first":
                y = F.max_pool2d(y, 2)
            y = {
                "module": relu,
                "function": F.relu,
                "in place": lambda value: F.relu(value, inplace=True),
                "method": lambda value: value.relu(),
                "torch": torch.relu,
            }[form](y)
            if pool in ("average", "max"):
                y = (F.avg_pool2d if pool == "average" else F.max_pool2d)(y, 2)
            x = after(y)
        return self.head(x.flatten(1))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_random_networks_compute_the_same(seed):
    network = lived_in(Drawn(seed), seed)
    held_equal(network, network.input_shape)


def test_activations_are_those_after_each_relu():
    network = lived_in(vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), batch_norm=True))
    found = converted(network)
    seen = {}
    for name, module in network.eval().named_modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out.detach()}))
    x = torch.randn(3, 3, 8, 8)
    network(x)
    values = found.activations(x)
    assert list(values) == [node.name for node in found.network.populations] == list(seen)
    for name, value in values.items():
        assert torch.allclose(value, seen[name], atol=1e-5)
        assert value.shape[1:] == found.network.shapes[name]
    assert list(found.activations(x, ["features.6"])) == ["features.6"]
    with pytest.raises(UnknownName, match="features.4"):
        found.activations(x, ["features.4"])


def test_what_a_relu_gave_is_not_changed_by_what_follows():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x):
            y = self.a(x).relu()
            return self.b(y.mul_(3.0).add_(x))

    network = Adds()
    x = torch.randn(4, 3)
    found = held_equal(network, (3,))
    assert torch.allclose(found.activations(x)["relu"], network.a(x).clamp(min=0))


def test_the_card_travels_along_and_says_the_shape():
    network = with_card(
        nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
        Card(normalisation=HALF, input_shape=(1, 2, 2), classes=("a", "b")),
    )
    found = convert(network, LIF(0.9), Poisson())
    assert (found.network.card.normalisation, found.network.card.classes) == (HALF, ("a", "b"))
    assert found.network.input_shape == found.network.card.input_shape == (1, 2, 2)
    assert (found.network.neuron, found.network.encode) == (LIF(0.9), Poisson())
    other = convert(network, IF(), Poisson(), input_shape=(4, 1, 1))
    assert other.network.card.input_shape == (4, 1, 1)


def test_other_types_and_a_module_called_input():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.input, self.relu, self.output = nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)

        def forward(self, x, scale=None):
            return self.output(self.relu(self.input(x)))

    found = converted(Named().double(), (4,))
    assert [node.name for node in found.network.nodes] == ["input_1", "relu", "output"]
    assert found.network.nodes[0].weight.dtype == torch.float32


def test_scores_that_are_pooled_spikes():
    network = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert kinds(held_equal(network, (1, 4, 4))) == ["Synapses", "Neurons", "Pool", "Flatten"]


def test_max_pooling_of_currents():
    network = Wrapped(lambda s, x: F.max_pool2d(x, 2) + F.max_pool2d(x, 2))
    assert kinds(held_equal(network, (2, 8, 8)))[:4] == ["Synapses", "Gate", "Gate", "Add"]


class Wrapped(nn.Module):
    """A convolution and a function of the user's own, then scores."""

    def __init__(self, function):
        super().__init__()
        self.conv, self.bn, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 2)
        self.function = function

    def forward(self, x):
        x = self.function(self, self.conv(x))
        return self.head(F.relu(x).mean((2, 3)))


BEFORE_THE_RELU = {
    "gelu": (lambda s, x: F.gelu(x), "gelu.*only ReLU converts"),
    "sigmoid": (lambda s, x: torch.sigmoid(x), r"sigmoid \(the function sigmoid\).*only ReLU converts"),
    "leaky": (lambda s, x: F.leaky_relu(x), "leaky_relu.*only ReLU"),
    "tanh": (lambda s, x: x.tanh(), r"tanh \(the method tanh\).*only ReLU"),
    "softmax": (lambda s, x: F.softmax(x, dim=1), "remove the softmax"),
    "cat": (lambda s, x: torch.cat([x, x], 2)[:, :, ::2], "cat.*joined along channels"),
    "norm": (lambda s, x: F.layer_norm(x, (8, 8)), "layer_norm.*use batch norm"),
    "batch norm twice": (
        lambda s, x: s.bn(F.relu(s.bn(x))),
        "bn .BatchNorm2d. cannot be folded: (bn is used more|does not follow)",
    ),
    "batch norm function": (
        lambda s, x: F.batch_norm(x, s.bn.running_mean, s.bn.running_var),
        "batch_norm .batch_norm. cannot be folded: is a function",
    ),
    "constant": (lambda s, x: x + 1.0, "add .*adds a constant"),
    "parameter": (lambda s, x: x + s.bn.weight.view(1, -1, 1, 1), "add .*adds a constant"),
    "product": (lambda s, x: x * x, "mul .*only multiplication by a plain number"),
    "division": (lambda s, x: 1.0 / x, "truediv .*only division by a plain number"),
    "rounding": (lambda s, x: torch.div(x, 2, rounding_mode="floor"), "div .*rounds"),
    "broadcast": (lambda s, x: x + F.avg_pool2d(x, 8), "shapes .4, 8, 8. and .4, 1, 1."),
    "dropout": (lambda s, x: F.dropout(x), "dropout .* drops values at test time too; set training=self.training"),
    "mean": (lambda s, x: x + x.mean(1, keepdim=True), "mean .*over height and width"),
    "view": (lambda s, x: x.view(-1, 4, 4, 16), "view .*only flattening"),
    "view in steps": (lambda s, x: x.flatten(1).view(-1, 4, 8, 8), "view .*only flattening"),
    "view of pixels": (lambda s, x: x.view(-1, 8).view(-1, 4, 8, 8), "view .*only flattening"),
    "uneven pad": (lambda s, x: F.pad(x, (1, 0)), "pad .*equal padding"),
    "other pad": (lambda s, x: F.pad(x, (1, 1, 1, 1), mode="reflect"), "pad .*padding with zeros"),
    "pad with ones": (lambda s, x: F.pad(x, (1, 1, 1, 1), value=1.0), "pad .*padding with zeros"),
    "corner": (lambda s, x: x[:, :, 2:, ::2], "getitem .*every n-th pixel starting at the first"),
    "one channel": (lambda s, x: x[:, [0, 1, 2, 3]], "getitem .*only slices of images"),
    "parts": (lambda s, x: torch.chunk(x, 1, 1)[0], "chunk .*has no spiking form"),
    "weights as a function": (lambda s, x: F.conv2d(x, s.conv.weight[:, :1].repeat(1, 4, 1, 1)), "only as a module"),
}


@pytest.mark.parametrize("name", BEFORE_THE_RELU)
def test_what_does_not_convert_is_named(name):
    function, message = BEFORE_THE_RELU[name]
    with pytest.raises(UsageError, match=message) as caught:
        converted(Wrapped(function), (2, 8, 8))
    assert "\n" not in str(caught.value)


MODULES = {
    "leaky": (nn.LeakyReLU(), r"^1 \(LeakyReLU\) cannot be made spiking: only ReLU converts"),
    "clip from below zero": (
        nn.Hardtanh(-1, 1),
        r"^1 \(Hardtanh\).*it clips between -1 and 1; the lower limit must be 0",
    ),
    "softmax": (nn.Softmax(dim=1), r"^1 \(Softmax\).*remove the softmax"),
    "log softmax": (nn.LogSoftmax(dim=1), r"^1 \(LogSoftmax\).*remove the softmax"),
    "layer norm": (nn.LayerNorm(8), r"^1 \(LayerNorm\).*batch norm"),
    "batch norm without statistics": (nn.BatchNorm2d(4, track_running_stats=False), "^1 .*keeps no running statistics"),
    "transposed": (nn.ConvTranspose2d(4, 4, 3), r"^1 \(ConvTranspose2d\).*only Conv1d and Conv2d"),
    "upsample": (nn.Upsample(scale_factor=2), r"^1 \(Upsample\).*has no spiking form here; supported are Linear"),
    "circular": (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), "^1 .*padding_mode='circular'"),
    "even same": (nn.Conv2d(4, 4, 2, padding="same"), "^1 .*even kernel"),
    "dense on images": (nn.Linear(8, 8), r"^1 \(Linear\).*must read rows \(n, features\), not \(n, 4, 8, 8\)"),
    "ceil": (nn.AvgPool2d(3, ceil_mode=True), "^1 .*ceil_mode"),
    "divisor": (nn.AvgPool2d(2, divisor_override=3), "^1 .*divisor_override"),
    "edges": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), "^1 .*count_include_pad"),
    "adaptive": (nn.AdaptiveAvgPool2d(3), "^1 .*8×8 does not divide into 3×3"),
}


@pytest.mark.filterwarnings("ignore:Using padding=.same. with even kernel lengths")
@pytest.mark.parametrize("name", MODULES)
def test_modules_that_do_not_convert_are_named(name):
    module, message = MODULES[name]
    network = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), module, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(UsageError, match=message):
        converted(network, (2, 8, 8))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dilation": 2}, "dilation"), ({"ceil_mode": True}, "ceil_mode"), ({"return_indices": True}, "return_indices")],
)
def test_max_pools_that_do_not_convert(options, message):
    network = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, **options))
    with pytest.raises(UsageError, match=f"^2 .MaxPool2d.*{message}"):
        converted(network, (2, 8, 8))


def test_ends_that_do_not_fit():
    with pytest.raises(UsageError, match="^3: a ReLU follows the last layer"):
        converted(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU()), (4,))
    with pytest.raises(UsageError, match="no ReLU: nothing in it would spike"):
        converted(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), (4,))
    with pytest.raises(UsageError, match="no ReLU"):
        converted(nn.Identity(), (4,))
    with pytest.raises(UsageError, match="one score per class"):
        converted(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3)), (1, 8, 8))
    with pytest.raises(UsageError, match=r"remove the softmax"):
        converted(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.Softmax(1)), (4,))
    with pytest.raises(UsageError, match="give input_shape"):
        converted(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    with pytest.raises(DataMismatch, match=r"cannot take inputs of shape \(5,\)"):
        converted(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), (5,))


def test_several_inputs_or_outputs_are_refused():
    class Two(nn.Module):
        def __init__(self, several):
            super().__init__()
            self.linear, self.several = nn.Linear(4, 4), several

        def forward(self, x):
            y = self.linear(x).relu()
            return (y, self.linear(y)) if self.several else {"scores": self.linear(y)}

    class Inputs(nn.Module):
        def forward(self, x, y):
            return x.relu() + y

    for several in (True, False):
        with pytest.raises(UsageError, match="must return one tensor"):
            converted(Two(several), (4,))
    with pytest.raises(UsageError, match=r"one input, images or rows; it takes 2 \(x, y\)"):
        converted(Inputs(), (4,))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(bad):
    network = vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), batch_norm=True)
    with torch.no_grad():
        network.features[4].weight[1, 2, 0, 0] = bad
    with pytest.raises(DataMismatch, match=r"^features\.4: its weight holds NaN or infinity"):
        converted(network)


def test_weights_that_folding_makes_infinite_are_named():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
    network[1].running_var.fill_(-1.0)
    with pytest.raises(UsageError, match=r"^0 \(Conv2d\).*with batch norm folded in, hold NaN"):
        converted(network, (1, 8, 8))


def test_a_conversion_that_computes_something_else_is_refused():
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    for value in network.parameters():
        nn.init.ones_(value)  # drawn weights might leave every ReLU at zero, where twice is once
    network[0].register_forward_hook(lambda _module, _inputs, output: output * 2)
    with pytest.raises(UsageError, match="would compute different scores.*a layer has hooks"):
        converted(network, (4,))


@pytest.mark.filterwarnings("ignore")
def test_modules_that_hide_or_lack_their_weights_are_refused():
    with pytest.raises(UsageError, match="is a scripted module, which hides its layers"):
        converted(torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))), (4,))
    with pytest.raises(UsageError, match=r"0\.weight: has no size yet"):
        converted(nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.Linear(3, 2)), (4,))


def test_networks_that_cannot_be_traced_are_refused():
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else x.relu()

    with pytest.raises(UsageError, match="Branching: its data flow cannot be traced"):
        converted(Branching(), (4,))


IMAGE = torch.tensor([[[[1.0, -2.0], [3.0, 4.0]]]])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Pool("node", INPUT, (2, 2), (2, 2)), [1.5]),
        (Pool("node", INPUT, (2, 2), (2, 2), average=False), [6.0]),
        (Pool("node", INPUT, (2, 2), (2, 2), (1, 1)), [0.25, -0.5, 0.75, 1.0]),  # zeros around the image count
        (Gate("node", INPUT, (2, 2), (2, 2)), [4.0]),
        (Neurons("node", INPUT, torch.ones(1)), [1.0, 0.0, 3.0, 4.0]),
        (Scale("node", INPUT, torch.tensor([0.5])), [0.5, -1.0, 1.5, 2.0]),
        (Flatten("node", INPUT), [1.0, -2.0, 3.0, 4.0]),
        (Add("node", (INPUT, INPUT, INPUT)), [3.0, -6.0, 9.0, 12.0]),
        (Synapses("node", INPUT, torch.tensor([[[[2.0, 1.0]]]]), torch.tensor([0.5])), [0.5, 10.5]),
    ],
)
def test_every_node_by_hand(node, expected):
    assert plain_scores([node], IMAGE).flatten().tolist() == expected


def test_nodes_read_those_they_name():
    nodes = (
        Flatten("flat", INPUT),
        Synapses("w", "flat", torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])),
        Neurons("fire", "w", torch.ones(2)),
        Add("sum", ("w", "fire")),
    )
    assert plain_scores(nodes, IMAGE).tolist() == [[-1.0, 14.0]]


def test_values_of_higher_precision_stay_so():
    factor = torch.tensor([0.1])
    found = linear(Scale("s", "x", factor), {"x": IMAGE.double()})
    assert found.dtype == torch.float64
    assert torch.equal(found, IMAGE.double() * factor.double())


class _Sequence(nn.Module):
    """Permutes its input before a layer that reads sequences."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.relu, self.out = layer, nn.ReLU(), nn.Linear(4, 2)

    def forward(self, x):
        made = self.layer(x.permute(0, 2, 1))
        return self.out(self.relu(made[0] if isinstance(made, tuple) else made).mean(1))


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.LSTM(4, 4, batch_first=True), r"layer \(LSTM\) cannot be made spiking: recurrent layers feed"),
        (nn.GRU(4, 4, batch_first=True), r"layer \(GRU\) cannot be made spiking: recurrent"),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), r"layer \(TransformerEncoderLayer\) .*: attention"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_recurrent_and_attention_layers_are_refused_by_their_names(layer, said):
    with pytest.raises(UsageError, match=said):
        convert(_Sequence(layer), IF(), Constant(), input_shape=(4, 6))


class _Depthwise(nn.Module):
    """A depthwise convolution and a pointwise one, each with batch norm and ReLU6, as in MobileNet."""

    def __init__(self):
        super().__init__()
        self.depth, self.norm = nn.Conv2d(3, 6, 3, padding=1, groups=3, bias=False), nn.BatchNorm2d(6)
        self.point, self.clip = nn.Conv2d(6, 8, 1), nn.ReLU6(inplace=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        x = self.clip(self.norm(self.depth(x)))
        return self.out(F.relu6(8 * self.point(x)).mean((2, 3)))


def test_relu6_is_a_threshold():
    torch.manual_seed(0)
    network = _Depthwise().eval()
    x = torch.randn(16, 3, 6, 6, generator=torch.Generator().manual_seed(1)) * 6
    made = convert(network, IF(), Constant(), input_shape=(3, 6, 6))
    assert [node.ceiling for node in made.network.populations] == [6.0, 6.0]
    clipped = sum(float((values == 6).float().mean()) for values in made.activations(x).values())
    assert clipped > 0.05  # the clip matters here
    spiking = balanced(made, Percentile(factor=1.5), x).network
    assert max(float(node.threshold.max()) for node in spiking.populations) <= 6
    found = torch.from_numpy(spiking.run(x, 400).scores / 400).float()
    scores = network(x).detach()
    torch.testing.assert_close(found, scores, rtol=0, atol=0.03 * float(scores.abs().max()))
    with pytest.raises(UsageError, match=r"clipped at 6, but the sum of graded spikes is unbounded"):
        convert(network, Graded(5), Constant(), input_shape=(3, 6, 6))
    free = nn.Sequential(nn.Flatten(), nn.Linear(4, 5, bias=False), nn.ReLU6(), nn.Linear(5, 2, bias=False))
    with pytest.raises(UsageError, match="is clipped at 6, which max-current cannot represent"):
        balanced(convert(free, IF(), Constant(), input_shape=(4,)), MaxCurrent(), torch.rand(8, 4))


def test_a_clip_after_a_relu_is_refused():
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.ReLU6(), nn.Linear(5, 2))
    with pytest.raises(UsageError, match="use one ReLU6 in place of both"):
        convert(network, IF(), Constant(), input_shape=(4,))


class _Signals(nn.Module):
    """Rows as two channels, through convolutions of one dimension, all kinds of pools, a join and a shortcut."""

    def __init__(self):
        super().__init__()
        self.wide, self.norm = nn.Conv1d(2, 8, 5, padding=2, bias=False), nn.BatchNorm1d(8)
        self.narrow, self.both = (
            nn.Conv1d(8, 8, 3, stride=2, padding=1),
            nn.Conv1d(16, 6, 3, padding="same", dilation=2),
        )
        self.largest, self.average, self.out = nn.MaxPool1d(2), nn.AvgPool1d(2, padding=1), nn.Linear(6, 3)

    def forward(self, x):
        x = self.largest(F.relu(self.norm(self.wide(x.view(len(x), 2, 32)))))
        short = F.pad(x[:, :4, ::2], (0, 0, 2, 2))
        x = F.relu(self.narrow(x) + short)
        x = self.average(F.relu(self.both(torch.cat([x, short], 1))))
        return self.out(F.adaptive_avg_pool1d(F.max_pool1d(x, 3, 1), 1).squeeze(-1) + x.mean(2))


class _Plain(_Signals):
    def forward(self, x):
        x = self.largest(F.relu(self.norm(self.wide(x))))
        x = self.average(F.relu(self.narrow(x)))
        return self.out(x[:, :6].mean(-1))


@pytest.mark.parametrize(
    ("network", "taken"),
    [(nn.Sequential(nn.Unflatten(1, (2, 32)), _Plain()), (64,)), (_Plain(), (2, 32))],
    ids=["rows", "sequences"],
)
def test_sequences_are_images_of_height_one(network, taken, tmp_path):
    torch.manual_seed(0)
    made = convert(network.eval(), IF(signed=True), Constant(), input_shape=taken)
    assert made.network.input_shape == (2, 1, 32)
    x = torch.randn(20, *taken, generator=torch.Generator().manual_seed(1))
    activations = made.activations(x)
    assert {name: tuple(values.shape[1:]) for name, values in activations.items()} == {
        node.name: made.network.shapes[node.name] for node in made.network.populations
    }
    spiking = balanced(made, Percentile(), x).network
    found = load_spiking(save_spiking(spiking, tmp_path / "net.safetensors")).run(x, 200)
    with torch.no_grad():
        scores = network(x).numpy()
    assert np.abs(found.scores / 200 - scores).max() < 0.03 * np.abs(scores).max()
    assert export_torch(spiking, tmp_path / "net.py", x=x[:2]).differ == 0


def test_layers_of_one_dimension_compute_what_they_did():
    torch.manual_seed(0)
    network = _Signals().eval()
    made = convert(network, IF(), Constant(), input_shape=(64,))
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(plain_scores(made.network.nodes, x.reshape(-1, 2, 1, 32)), network(x))
        torch.testing.assert_close(made.outputs(x.reshape(-1, 2, 1, 32)), network(x))


class _Attention(nn.Module):
    def __init__(self, product):
        super().__init__()
        self.values, self.product = nn.Linear(4, 12), product

    def forward(self, x):
        rows, length, width = x.shape
        query, key, value = self.values(x).view(rows, length, 3, width).unbind(2)
        return self.product(torch.softmax(self.product(query, key.transpose(-2, -1)), dim=-1), value)


@pytest.mark.parametrize(
    ("product", "named"), [(torch.matmul, "matmul"), (torch.bmm, "bmm"), (lambda a, b: a @ b, "matmul")]
)
def test_attention_written_by_hand_is_refused_by_its_product(product, named):
    network = _Sequence(_Attention(product))
    said = (
        rf"^layer \(_Attention\): {named} \(the function {named}\) .*multiplies signals with each other, as attention"
    )
    with pytest.raises(UsageError, match=said):
        convert(network, IF(), Constant(), input_shape=(4, 6))


def test_a_product_with_weights_is_no_attention():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            return torch.matmul(x, self.weight)

    with pytest.raises(
        UsageError, match=r"^matmul \(the function matmul\) cannot be made spiking: has no spiking form"
    ):
        convert(Mixed(), IF(), Constant(), input_shape=(4,))
