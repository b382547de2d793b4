from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.networks.layers.channels import GUESS
from weightsmith.networks.layers.walk import walk


def named(**parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(parts))


def conv(i: int, o: int, k: int = 3, **more: int) -> nn.Conv2d:
    return nn.Conv2d(i, o, k, padding=k // 2, bias=False, **more)


def normed(i: int, o: int, k: int = 3, **more: int) -> nn.Sequential:
    return nn.Sequential(conv(i, o, k, **more), nn.BatchNorm2d(o), nn.ReLU())


def basic(i: int, o: int) -> nn.Module:
    block = named(conv1=conv(i, o), bn1=nn.BatchNorm2d(o), conv2=conv(o, o), bn2=nn.BatchNorm2d(o))
    if i != o:
        block.add_module("downsample", nn.Sequential(conv(i, o, 1), nn.BatchNorm2d(o)))
    return block


def bottleneck(i: int, w: int, o: int, groups: int = 1) -> nn.Module:
    return named(
        conv1=conv(i, w, 1),
        bn1=nn.BatchNorm2d(w),
        conv2=conv(w, w, groups=groups),
        bn2=nn.BatchNorm2d(w),
        conv3=conv(w, o, 1),
        downsample=nn.Sequential(conv(i, o, 1), nn.BatchNorm2d(o)),
    )


def stem(o: int) -> dict[str, nn.Module]:
    return {"conv1": conv(3, o), "bn1": nn.BatchNorm2d(o)}


def regnet_block(i: int, o: int, width: int, squeeze: int) -> nn.Module:
    inner = named(
        a=normed(i, o, 1),
        b=normed(o, o, groups=o // width),
        se=named(fc1=nn.Conv2d(o, squeeze, 1), fc2=nn.Conv2d(squeeze, o, 1)),
        c=normed(o, o, 1),
    )
    return named(proj=normed(i, o, 1), f=inner)


def inverted(i: int, o: int, expand: int, squeeze: int = 0) -> nn.Module:
    w = i * expand
    parts = [normed(i, w, 1), normed(w, w, groups=w)]
    if squeeze:
        parts.append(named(fc1=nn.Conv2d(w, squeeze, 1), fc2=nn.Conv2d(squeeze, w, 1)))
    return nn.Sequential(*parts, conv(w, o, 1), nn.BatchNorm2d(o))


def shuffle_unit(half: int) -> nn.Module:
    return named(branch2=nn.Sequential(conv(half, half, 1), conv(half, half, groups=half), conv(half, half, 1)))


def fire(i: int, s: int, e: int) -> nn.Module:
    return named(squeeze=nn.Conv2d(i, s, 1), expand1x1=nn.Conv2d(s, e, 1), expand3x3=nn.Conv2d(s, e, 3))


def inception(i: int) -> nn.Module:
    return named(
        branch1=normed(i, 16, 1),
        branch2=nn.Sequential(normed(i, 24, 1), normed(24, 32)),
        branch3=nn.Sequential(normed(i, 4, 1), normed(4, 8)),
        branch4=nn.Sequential(nn.MaxPool2d(3), normed(i, 8, 1)),
    )


def dense_layer(i: int) -> nn.Module:
    return named(norm1=nn.BatchNorm2d(i), conv1=conv(i, 32, 1), norm2=nn.BatchNorm2d(32), conv2=conv(32, 8))


def squeeze_excite(i: int, o: int) -> nn.Module:
    return named(conv1=conv(i, o), se=named(fc1=nn.Conv2d(o, o // 4, 1), fc2=nn.Conv2d(o // 4, o, 1)), conv2=conv(o, o))


class Glu(nn.Module):
    """Gated convolutions: half the outputs gate the other half."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv1d(20, 64, 5), nn.Conv1d(32, 64, 5), nn.Conv1d(32, 10, 1)


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "LeNet": lambda: nn.Sequential(nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5), nn.Flatten(), nn.Linear(400, 84)),
    "AlexNet": lambda: nn.Sequential(nn.Conv2d(3, 24, 11), nn.Conv2d(24, 64, 5), nn.Conv2d(64, 48, 3)),
    "VGG": lambda: named(
        features=nn.Sequential(*[conv(i, o) for i, o in [(3, 16), (16, 16), (16, 32), *[(32, 32)] * 9]])
    ),
    "ResNet-18": lambda: named(**stem(16), layer1=basic(16, 16), layer2=basic(16, 32), layer3=basic(32, 64)),
    "ResNet-50": lambda: named(**stem(16), layer1=bottleneck(16, 16, 64), layer2=bottleneck(64, 32, 128)),
    "ResNeXt": lambda: named(**stem(16), layer1=bottleneck(16, 32, 64, 8), layer2=bottleneck(64, 64, 128, 8)),
    "RegNet-X": lambda: named(stem=normed(3, 32), block1=regnet_block(32, 48, 8, 6), block2=regnet_block(48, 96, 8, 6)),
    "RegNet-Y": lambda: named(stem=normed(3, 32), b1=regnet_block(32, 48, 8, 8), b2=regnet_block(48, 104, 8, 12)),
    "ShuffleNet-v1": lambda: named(
        **stem(24), a=named(g1=conv(24, 60, 1, groups=3), d=conv(60, 60, groups=60), g2=conv(60, 216, 1, groups=3))
    ),
    "ShuffleNet-v2": lambda: named(**stem(24), s1=shuffle_unit(12), s2=shuffle_unit(12), last=conv(24, 64, 1)),
    "MobileNet-v1": lambda: nn.Sequential(
        normed(3, 16), normed(16, 16, groups=16), normed(16, 32, 1), normed(32, 32, groups=32), normed(32, 64, 1)
    ),
    "MobileNet-v2": lambda: named(stem=normed(3, 16), b1=inverted(16, 24, 6), b2=inverted(24, 32, 6)),
    "EfficientNet": lambda: named(stem=normed(3, 16), b1=inverted(16, 24, 6, 4), b2=inverted(24, 24, 6, 6)),
    "ConvNeXt": lambda: named(
        stem=nn.Conv2d(3, 32, 4), dwconv=nn.Conv2d(32, 32, 7, groups=32), up=nn.Linear(32, 128), down=nn.Linear(128, 32)
    ),
    "SqueezeNet": lambda: named(conv1=nn.Conv2d(3, 32, 7), f2=fire(32, 8, 32), f3=fire(64, 8, 32), f4=fire(64, 16, 64)),
    "Inception": lambda: named(**stem(64), mixed1=inception(64), mixed2=inception(64)),
    "DenseNet": lambda: named(**stem(16), d1=dense_layer(16), d2=dense_layer(24), d3=dense_layer(32)),
    "SE-Net": lambda: named(**stem(16), b1=squeeze_excite(16, 32), b2=squeeze_excite(32, 32)),
    "GLU": Glu,
    "PixelShuffle": lambda: named(
        head=nn.Conv2d(3, 64, 3), up=nn.Conv2d(64, 256, 3), body=nn.Conv2d(64, 64, 3), tail=nn.Conv2d(64, 3, 3)
    ),
    "audio Conv1d": lambda: named(
        stft=nn.Conv1d(1, 258, 256, bias=False), conv1=nn.Conv1d(129, 128, 3), c=nn.Conv1d(128, 64, 3)
    ),
    "WaveNet": lambda: named(start=nn.Conv1d(1, 32, 1), gate=nn.Conv1d(32, 64, 2), out=nn.Conv1d(32, 32, 1)),
    "U-Net": lambda: named(
        e1=normed(3, 16),
        e2=normed(16, 32),
        deconv=nn.ConvTranspose2d(32, 16, 2),
        d1=normed(32, 16),
        head=conv(16, 2, 1),
    ),
    "DCGAN": lambda: nn.Sequential(
        nn.ConvTranspose2d(64, 32, 4, bias=False), nn.ConvTranspose2d(32, 16, 4, bias=False)
    ),
    "grouped transposed": lambda: named(a=nn.Conv2d(3, 16, 3), up=nn.ConvTranspose2d(16, 8, 2, groups=4)),
    "video Conv3d": lambda: nn.Sequential(nn.Conv3d(3, 16, 3), nn.Conv3d(16, 32, (3, 1, 1)), nn.Conv3d(32, 32, 3)),
}


def spectra(network: object) -> dict[str, torch.Tensor]:
    return {
        layer.name: torch.linalg.svdvals(layer.matrices.double()).flatten().sort().values for layer in walk(network)
    }


def guessed(network: object) -> set[str]:
    return {layer.name for layer in walk(network).layers if any(note.startswith(GUESS) for note in layer.notes)}


@pytest.mark.parametrize("way", ["state dict", "sorted file"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_file_has_the_spectra_of_its_module_or_says_that_it_guesses(architecture, way, tmp_path):
    network = ARCHITECTURES[architecture]()
    source: object = network.state_dict()
    if way == "sorted file":
        source = tmp_path / "network.safetensors"
        save_file(network.state_dict(), source)
    exact, found, doubtful = spectra(network), spectra(source), guessed(source)
    assert not guessed(network)
    assert exact.keys() == found.keys()
    different = {
        name
        for name, values in exact.items()
        if values.shape != found[name].shape or not torch.allclose(values, found[name], atol=1e-6)
    }
    assert different <= doubtful


ALL_CERTAIN = {"VGG", "ResNet-18", "ResNet-50", "SqueezeNet", "Inception", "DenseNet", "SE-Net", "video Conv3d"}


@pytest.mark.parametrize("architecture", sorted(ALL_CERTAIN))
def test_nothing_is_doubted_where_branches_explain_the_widths(architecture, tmp_path):
    weights = ARCHITECTURES[architecture]().state_dict()
    assert not guessed(weights)
    assert not guessed(dict(sorted(weights.items())))


@pytest.mark.parametrize("architecture", ["GLU", "PixelShuffle", "audio Conv1d", "ShuffleNet-v2"])
def test_no_split_without_proof(architecture):
    network = ARCHITECTURES[architecture]()
    exact = {layer.name: layer.matrices for layer in walk(network).layers}
    found = {layer.name: layer.matrices for layer in walk(network.state_dict()).layers}
    depthwise = {layer.name for layer in walk(network).layers if layer.shape[1] == 1}
    assert {name for name in exact if exact[name] != found[name]} <= depthwise


@pytest.mark.parametrize("architecture", ["ResNeXt", "RegNet-Y", "ShuffleNet-v1"])
def test_given_groups_settle_it(architecture):
    network = ARCHITECTURES[architecture]()
    given = [
        f"{name}={module.groups}"
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and module.groups > 1
    ]
    found = walk(network.state_dict(), conv_groups=given)
    exact = walk(network)
    assert [layer.matrices for layer in found.layers] == [layer.matrices for layer in exact.layers]
    for ours, theirs in zip(found, exact, strict=True):
        assert torch.equal(ours.matrices, theirs.matrices)
    settled = {text.partition("=")[0] for text in given}
    assert not {layer.name for layer in found.layers if any(GUESS in note for note in layer.notes)} & settled


def test_a_note_says_what_to_type():
    network = ARCHITECTURES["ResNeXt"]()
    (note,) = next(layer.notes for layer in walk(network.state_dict()).layers if layer.name == "layer1.conv2")
    found = re.search(r"conv_groups (\S+)\)", note)
    assert found is not None
    assert found[1] == "layer1.conv2=8"
    assert not any(
        note.startswith(GUESS)
        for layer in walk(network.state_dict(), conv_groups=["layer*.conv2=8"]).layers
        for note in layer.notes
    )


@pytest.mark.parametrize("text", ["conv1", "conv1=", "conv1=0", "=2", "conv1=two"])
def test_groups_that_are_no_numbers_are_refused(text):
    with pytest.raises(OptionError, match="NAME=N"):
        walk({"conv1.weight": torch.zeros(8, 3, 3, 3)}, conv_groups=text)


def test_groups_that_do_not_fit_are_refused():
    weights = {"conv1.weight": torch.zeros(8, 3, 3, 3), "fc.weight": torch.zeros(8, 3)}
    with pytest.raises(OptionError, match="8 filters of conv1 do not form 3 groups"):
        walk(weights, conv_groups="conv1=3")
    with pytest.raises(UnknownName, match="convolution"):
        walk(weights, conv_groups="fc=2")
