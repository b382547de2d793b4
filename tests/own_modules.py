"""Modules as people write them, tiny: what ``test_own_modules.py`` sends through every verb.

Images are 3×16×16, rows have 24 values (sequences: 8 steps of 3 that the module lays out itself), and there are 3
classes.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["IMAGES", "ROWS"]

CLASSES = 3


class LeNet(nn.Module):
    """``view`` behind convolutions, ReLU and pooling as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 8, 5)
        self.fc1 = nn.Linear(8, 12)
        self.fc2 = nn.Linear(12, 10)
        self.fc3 = nn.Linear(10, CLASSES)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), (2, 2))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = x.view(-1, self.num_flat_features(x))
        x = functional.relu(self.fc1(x))
        x = functional.relu(self.fc2(x))
        return self.fc3(x)

    def num_flat_features(self, x):
        features = 1
        for size in x.size()[1:]:
            features *= size
        return features


class LeNetTanh(nn.Module):
    """The original: tanh and average pooling; ``reshape``."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c3 = nn.Conv2d(3, 4, 5, padding=2), nn.Conv2d(4, 6, 5)
        self.pool = nn.AvgPool2d(2, 2)
        self.f5, self.f6 = nn.Linear(24, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.pool(torch.tanh(self.c1(x)))
        x = self.pool(torch.tanh(self.c3(x)))
        return self.f6(torch.tanh(self.f5(x.reshape(x.shape[0], -1))))


class AlexNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, kernel_size=5, stride=2, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(8, 12, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(12, 8, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(16, CLASSES)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


def vgg_layers(cfg, batch_norm):
    layers: list[nn.Module] = []
    channels = 3
    for v in cfg:
        if v == "M":
            layers += [nn.MaxPool2d(2, 2)]
        else:
            conv = nn.Conv2d(channels, v, 3, padding=1)
            layers += [conv, nn.BatchNorm2d(v), nn.ReLU(True)] if batch_norm else [conv, nn.ReLU(True)]
            channels = v
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, batch_norm=False) -> None:
        super().__init__()
        self.features = vgg_layers([4, "M", 8, "M", 8, 8, "M"], batch_norm)
        self.classifier = nn.Linear(32, CLASSES)

    def forward(self, x):
        out = self.features(x)
        out = out.view(out.size(0), -1)
        return self.classifier(out)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or inplanes != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return functional.relu(out)


class ResNet(nn.Module):
    """The CIFAR ResNet of many repositories: ``+=``, ``view`` after ``avg_pool2d``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2))
        self.linear = nn.Linear(16, CLASSES)

    def forward(self, x):
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.layer2(self.layer1(out))
        out = functional.avg_pool2d(out, 8)
        out = out.view(out.size(0), -1)
        return self.linear(out)


class Bottleneck(nn.Module):
    def __init__(self, planes) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(planes, planes // 2, 1, bias=False), nn.BatchNorm2d(planes // 2)
        self.conv2, self.bn2 = (
            nn.Conv2d(planes // 2, planes // 2, 3, padding=1, groups=2, bias=False),
            nn.BatchNorm2d(planes // 2),
        )
        self.conv3, self.bn3 = nn.Conv2d(planes // 2, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNeXt(nn.Module):
    """Bottlenecks with grouped convolutions, one ReLU module used three times."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.blocks = nn.Sequential(Bottleneck(8), Bottleneck(8))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean([2, 3]))


class DenseLayer(nn.Module):
    def __init__(self, channels, growth) -> None:
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(self.relu(self.norm(x)))], 1)


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                [
                    ("conv0", nn.Conv2d(3, 6, 3, padding=1, bias=False)),
                    ("dense1", DenseLayer(6, 4)),
                    ("dense2", DenseLayer(10, 4)),
                    ("transition", nn.Sequential(nn.BatchNorm2d(14), nn.ReLU(), nn.Conv2d(14, 8, 1), nn.AvgPool2d(2))),
                    ("norm5", nn.BatchNorm2d(8)),
                ]
            )
        )
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, x):
        out = functional.relu(self.features(x), inplace=True)
        out = functional.adaptive_avg_pool2d(out, (1, 1))
        return self.classifier(torch.flatten(out, 1))


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand) -> None:
        super().__init__()
        hidden = inp * expand
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(
            nn.Conv2d(inp, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, oup, 1, bias=False),
            nn.BatchNorm2d(oup),
        )

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)),
            InvertedResidual(8, 8, 1, 2),
            InvertedResidual(8, 12, 2, 2),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(12, CLASSES))

    def forward(self, x):
        return self.classifier(self.features(x).mean(3).mean(2))


class SqueezeExcite(nn.Module):
    def __init__(self, channels) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        scale = functional.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.fc2(functional.silu(self.fc1(scale), inplace=True)))


class EfficientNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU(inplace=True))
        self.depthwise = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.SiLU(inplace=True)
        )
        self.se, self.project = SqueezeExcite(8), nn.Conv2d(8, 12, 1)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = self.project(self.se(self.depthwise(self.stem(x))))
        return self.head(x.mean((2, 3)))


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branch1 = nn.Conv2d(3, 4, 1)
        self.branch3 = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1))
        self.branch5 = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 5, padding=2))
        self.pool = nn.MaxPool2d(3, 1, 1)
        self.project = nn.Conv2d(3, 2, 1)
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        parts = [self.branch1(x), self.branch3(x), self.branch5(x), self.project(self.pool(x))]
        x = functional.relu(torch.cat(parts, dim=1))
        return self.fc(functional.adaptive_avg_pool2d(x, 1).view(x.size(0), -1))


class AuxiliaryInception(Inception):
    """Two outputs in training mode, as GoogLeNet has them."""

    def __init__(self) -> None:
        super().__init__()
        self.aux = nn.Linear(3, CLASSES)

    def forward(self, x):
        scores = super().forward(x)
        return (scores, self.aux(x.mean((2, 3)))) if self.training else scores


class UNet(nn.Module):
    """Skips and a transposed convolution, with a head that says which image it is."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.merge = nn.Conv2d(8, 4, 3, padding=1)
        self.head = nn.Conv2d(4, CLASSES, 1)

    def forward(self, x):
        one = functional.relu(self.down1(x))
        two = functional.relu(self.down2(functional.max_pool2d(one, 2)))
        x = torch.cat((one, self.up(two)), dim=1)
        return self.head(functional.relu(self.merge(x))).mean(dim=(-2, -1))


class Segmenter(nn.Module):
    """A score for every pixel: not a classifier of images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, CLASSES, 1)

    def forward(self, x):
        return self.out(functional.relu(self.conv(x)))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.cls = nn.Parameter(torch.zeros(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 5, 16) * 0.02)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.encoder(x))[:, 0])


class Attention(nn.Module):
    """Written by hand: ``chunk``, ``view``, ``transpose``, ``softmax``."""

    def __init__(self, dim=12, heads=2) -> None:
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).contiguous().view(b, n, d))


class HandViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attention = nn.Linear(3 * 8 * 8, 12), Attention()
        self.norm1, self.norm2 = nn.LayerNorm(12), nn.LayerNorm(12)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        b = x.size(0)
        x = x.view(b, 3, 2, 8, 2, 8).permute(0, 2, 4, 1, 3, 5).reshape(b, 4, -1)
        x = self.embed(x)
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.head(x.mean(1))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.tokens = nn.Sequential(nn.Linear(16, 12), nn.GELU(), nn.Linear(12, 16))
        self.channels = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.patch(x).flatten(2)
        x = x + self.tokens(x)
        x = x.transpose(1, 2)
        x = x + self.channels(x)
        return self.head(x.mean(dim=1))


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.gamma = nn.Parameter(torch.full((8,), 0.1))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = (self.gamma * self.narrow(functional.gelu(self.wide(y)))).permute(0, 3, 1, 2)
        return self.head((x + y).mean([-2, -1]))


class ShuffleNet(nn.Module):
    """``chunk`` and a channel shuffle by ``view``."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.branch = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = functional.relu(self.stem(x))
        left, right = x.chunk(2, dim=1)
        x = torch.cat((left, functional.relu(self.branch(right))), 1)
        b, c, h, w = x.size()
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)
        return self.fc(x.mean([2, 3]))


class SharedConv(nn.Module):
    """One convolution used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv, self.fc = (
            nn.Conv2d(3, 6, 3, padding=1),
            nn.Conv2d(6, 6, 3, padding=1),
            nn.Linear(6, CLASSES),
        )

    def forward(self, x):
        x = functional.relu(self.stem(x))
        x = functional.relu(self.conv(x))
        x = functional.relu(self.conv(x))
        return self.fc(x.mean((2, 3)))


class Functional(nn.Module):
    """Parameters of its own and nothing but functions."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 3, 3, 3) * 0.2)
        self.weight, self.bias = nn.Parameter(torch.randn(CLASSES, 4) * 0.2), nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x):
        x = functional.relu(functional.conv2d(x, self.kernel, padding=1))
        return functional.linear(x.amax((2, 3)), self.weight, self.bias)


class WeightStandardised(nn.Conv2d):
    def forward(self, x):
        weight = self.weight
        mean = weight.view(weight.size(0), -1).mean(1).view(-1, 1, 1, 1)
        weight = weight - mean
        std = weight.view(weight.size(0), -1).std(dim=1).view(-1, 1, 1, 1) + 1e-5
        return functional.conv2d(x, weight / std, self.bias, self.stride, self.padding)


class GroupNormNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = WeightStandardised(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.fc = nn.Linear(8 * 4 * 4, CLASSES)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv(x)))
        return self.fc(functional.max_pool2d(x, 4).view(len(x), -1))


class Buffers(nn.Module):
    """Normalises by buffers of its own and counts its calls in one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("scratch", torch.ones(1), persistent=False)
        self.conv, self.fc = nn.Conv2d(3, 6, 3, 2), nn.Linear(6, CLASSES)

    def forward(self, x):
        self.calls += 1
        x = torch.relu(self.conv((x - self.mean) * self.scratch))
        return self.fc(x.mean((2, 3)))


class Branches(nn.Module):
    """``ModuleDict``, ``ModuleList`` and a choice by name."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.ModuleDict({"conv": nn.Conv2d(3, 6, 3, 2), "act": nn.ReLU()})
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.heads = nn.ModuleDict({"coarse": nn.Linear(6, 2), "fine": nn.Linear(6, CLASSES)})

    def forward(self, x, head="fine"):
        x = self.stem["act"](self.stem["conv"](x)).flatten(2).mean(-1)
        for layer in self.layers:
            x = functional.relu(layer(x)) + x
        return self.heads[head](x)


class MultiHead(nn.Module):
    """Two answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.one, self.two = nn.Linear(768, 8), nn.Linear(8, CLASSES), nn.Linear(8, 2)

    def forward(self, x):
        x = functional.relu(self.body(x.flatten(1)))
        return {"species": self.one(x), "age": self.two(x)}


class DataDependent(nn.Module):
    """A branch on a value, a loop on a size, an assertion: what cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 6, 3, 2), nn.Linear(6, CLASSES)

    def forward(self, x):
        assert x.shape[1] == 3, "RGB only"
        if x.mean() > 1e6:
            x = x / 255
        x = functional.relu(self.conv(x))
        while x.shape[-1] > 2:
            x = functional.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))


class InPlace(nn.Module):
    """Begins with operations in place on its input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 6, 3, 2), nn.Linear(6, CLASSES)

    def forward(self, x):
        x.sub_(0.1).mul_(2)
        return self.fc(functional.relu_(self.conv(x)).mean((2, 3)))


class SpectralNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 6, 3, 2))
        self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(6, CLASSES))

    def forward(self, x):
        return self.fc(functional.relu(self.conv(x)).mean((2, 3)))


class Dilated(nn.Module):
    """Dilation, padding modes, leaky ReLU, bilinear upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, padding=2, dilation=2, padding_mode="reflect"), nn.Conv2d(6, 6, 3)
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = functional.leaky_relu(self.a(x), 0.1)
        x = functional.interpolate(functional.elu(self.b(x)), scale_factor=0.5, mode="bilinear", align_corners=False)
        return self.fc(x.mean((2, 3)))


class Siamese(nn.Module):
    """Left and right half through the same encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(12, CLASSES)

    def forward(self, x):
        left, right = torch.split(x, 8, dim=3)
        return self.fc(torch.cat([self.encoder(left), self.encoder(right)], 1))


def sequential_cnn():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 7 * 7, 8),
        nn.ReLU(),
        nn.Linear(8, CLASSES),
    )


def bare_batch_norm():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False),
        nn.BatchNorm2d(6, affine=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, CLASSES),
    )


def first_batch_norm():
    return nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 6, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 49, CLASSES))


def softmax_cnn():
    return nn.Sequential(nn.Conv2d(3, 4, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(16, CLASSES), nn.Softmax(dim=1))


def scripted():
    return torch.jit.script(sequential_cnn())


def traced():
    return torch.jit.trace(LeNet().eval(), torch.rand(2, 3, 16, 16))


def compiled():
    return torch.compile(LeNet(), backend="eager")


def symbolic():
    return torch.fx.symbolic_trace(ResNet())


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(24, 16), nn.Linear(16, 12), nn.Linear(12, CLASSES)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        x = x.view(x.shape[0], -1)
        x = self.dropout(functional.relu(self.fc1(x)))
        return self.fc3(functional.relu(self.fc2(x)))


class LogSoftmaxMLP(MLP):
    """Dropout and log-softmax as functions, as in old examples."""

    def __init__(self) -> None:
        super().__init__()
        del self.dropout

    def forward(self, x):
        x = functional.dropout(functional.relu(self.fc1(x)), p=0.2, training=self.training)
        return functional.log_softmax(self.fc3(functional.relu(self.fc2(x))), dim=1)


class TiedAutoencoder(nn.Module):
    """The decoder is the encoder's weight transposed; a head classifies the code."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head = nn.Linear(24, 8), nn.Linear(24, CLASSES)

    def forward(self, x):
        code = torch.sigmoid(self.encoder(x))
        return self.head(functional.linear(code, self.encoder.weight.t()))


class ResidualMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inp = nn.Linear(24, 12)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 12), nn.SiLU()) for _ in range(2)])
        self.out = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


class Gated(nn.Module):
    """``chunk`` and a product of halves."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.out = nn.Linear(24, 16), nn.Linear(8, CLASSES)

    def forward(self, x):
        value, gate = self.wide(x).chunk(2, dim=-1)
        return self.out(value * torch.sigmoid(gate))


class GRUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(3, 8, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, x):
        out, _ = self.gru(x.view(len(x), 8, 3))
        return self.fc(out[:, -1, :])


class LSTMNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 6, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.fc = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = x.reshape(x.size(0), 8, 3)
        h0, c0 = torch.zeros(4, x.size(0), 6), torch.zeros(4, x.size(0), 6)
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out.mean(1))


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.fc = nn.RNNCell(3, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        hidden = x.new_zeros(x.size(0), 6)
        for step in x.view(-1, 8, 3).unbind(1):
            hidden = self.cell(step, hidden)
        return self.fc(hidden)


class Conv1dNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 6, 3, padding=1), nn.Conv1d(6, 8, 3)
        self.bn, self.fc = nn.BatchNorm1d(6), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = x.view(x.size(0), 3, 8)
        x = functional.relu(self.bn(self.conv1(x)))
        x = functional.relu(self.conv2(functional.max_pool1d(x, 2)))
        return self.fc(x.mean(-1))


class Tokens(nn.Module):
    """Whole numbers in, looked up in an embedding: the rows are taken for their rounded values."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = nn.Embedding(10, 6), nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.fc(self.embedding(x.long().clamp(0, 9)).mean(1))


class OneOutput(nn.Module):
    """A single logit, as binary classifiers often have."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(24, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def double_precision():
    return nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, CLASSES)).double()


def shared_activation():
    act = nn.ReLU()
    return nn.Sequential(nn.Linear(24, 12), act, nn.Linear(12, 8), act, nn.Linear(8, CLASSES))


def shared_linear():
    same = nn.Linear(12, 12)
    return nn.Sequential(nn.Linear(24, 12), nn.ReLU(), same, nn.ReLU(), same, nn.ReLU(), nn.Linear(12, CLASSES))


IMAGES: dict[str, Callable[[], nn.Module]] = {
    "lenet": LeNet,
    "lenet tanh": LeNetTanh,
    "alexnet": AlexNet,
    "vgg": VGG,
    "vgg batch norm": lambda: VGG(batch_norm=True),
    "resnet": ResNet,
    "resnext": ResNeXt,
    "densenet": DenseNet,
    "mobilenet": MobileNetV2,
    "efficientnet": EfficientNet,
    "inception": Inception,
    "inception auxiliary": AuxiliaryInception,
    "unet": UNet,
    "segmenter": Segmenter,
    "vit": ViT,
    "vit by hand": HandViT,
    "mixer": Mixer,
    "convnext": ConvNeXt,
    "shufflenet": ShuffleNet,
    "shared convolution": SharedConv,
    "functional": Functional,
    "group norm": GroupNormNet,
    "buffers": Buffers,
    "module dict": Branches,
    "multi-head": MultiHead,
    "data dependent": DataDependent,
    "in place": InPlace,
    "spectral norm": SpectralNet,
    "dilated": Dilated,
    "siamese": Siamese,
    "sequential": sequential_cnn,
    "bare batch norm": bare_batch_norm,
    "first batch norm": first_batch_norm,
    "softmax": softmax_cnn,
    "scripted": scripted,
    "traced": traced,
    "compiled": compiled,
    "symbolic": symbolic,
}

ROWS: dict[str, Callable[[], nn.Module]] = {
    "mlp": MLP,
    "log softmax": LogSoftmaxMLP,
    "tied": TiedAutoencoder,
    "residual mlp": ResidualMLP,
    "gated": Gated,
    "gru": GRUNet,
    "lstm": LSTMNet,
    "cell loop": CellLoop,
    "conv1d": Conv1dNet,
    "tokens": Tokens,
    "one output": OneOutput,
    "double": double_precision,
    "shared activation": shared_activation,
    "shared linear": shared_linear,
}
