"""Residual networks for small images, as He et al. (2016) built them for CIFAR.

They have a 3×3 stem, three stages of n basic blocks (depth 6n + 2) and a dense layer. If a stage halves
the image, the shortcut either takes every second pixel and pads the missing channels with zeros (``pad``, option A of
the paper) or is a 1×1 convolution with batch norm (``conv``, option B). Two options describe pruned networks:

- ``inner``: the channels between the two convolutions of each block, which can be pruned freely;
- ``removed``: convolutions that are removed entirely, by name (``layer1.0.conv1``). A removed convolution is skipped
  together with its batch norm (and, for conv1, its activation): its input is passed on unchanged and *then added* to
  the shortcut, so a block without both convolutions computes relu(2x). That is how distiller's layer removal behaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from torch import Tensor, nn

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.networks.models.architecture import Architecture, WidthSlot
from weightsmith.networks.models.batchnorm import batch_norm

__all__ = ["Resnet", "ZeroPad", "resnet"]


class Resnet(Architecture, name="resnet"):
    """CIFAR ResNet of depth 6n + 2: 20, 32, 44, 56, 110 …"""

    depth: int = param(ge=8, le=1202, doc="6n + 2")
    shortcut: Literal["pad", "conv"] = param(default="pad", doc="zero-padded (option A) or 1×1 convolution (option B)")
    widths: tuple[int, ...] = param(default=(16, 32, 64), ge=1, doc="channels of the three stages")
    inner: tuple[int, ...] = param(default=(), ge=1, doc="channels inside each block; empty: the stage's own")
    removed: tuple[str, ...] = param(default=(), doc="convolutions that are skipped, as layer1.0.conv1")
    statistics: Literal["torch", "seed"] = param(default="torch", doc="running averages of the batch norms")

    def check(self) -> None:
        """Depth 6n + 2, three stages, one inner width per block, removals that keep shapes."""
        super().check()
        if (self.depth - 2) % 6:
            raise OptionError(f"resnet: depth must be 6n + 2 (20, 32, 44, 56, 110 …), not {self.depth}")
        if len(self.widths) != 3:
            raise OptionError(f"resnet: widths must be three, one per stage, not {self.widths}")
        if self.shortcut == "pad" and list(self.widths) != sorted(self.widths):
            raise OptionError(f"resnet: widths must not fall ({self.widths}): shortcut=pad can only add channels")
        if self.inner and len(self.inner) != 3 * self.blocks:
            raise OptionError(f"resnet: inner needs {3 * self.blocks} values, one per block, not {len(self.inner)}")
        if self.input_shape and len(self.input_shape) != 3:
            raise OptionError(f"resnet: input_shape must be channels, height, width, not {self.input_shape}")

    @property
    def blocks(self) -> int:
        """Blocks per stage."""
        return (self.depth - 2) // 6

    def assemble(self) -> nn.Module:
        """Stem, three stages, dense layer."""
        inner = iter(self.widths_in_use()["inner"])
        layers, channels = [], self.widths[0]
        for stage, width in enumerate(self.widths, start=1):
            blocks = []
            for block in range(self.blocks):
                name = f"layer{stage}.{block}"
                kept = [f"{name}.{conv}" not in self.removed for conv in ("conv1", "conv2")]
                stride = 2 if stage > 1 and block == 0 else 1
                blocks.append(_Block(self, (channels, next(inner), width), stride, kept, name))
                channels = width
            layers.append(nn.Sequential(*blocks))
        known = {f"layer{s}.{b}.conv{c}" for s in (1, 2, 3) for b in range(self.blocks) for c in (1, 2)}
        for name in self.removed:
            if name not in known:
                raise OptionError(f"resnet: removed names {name!r}, which depth {self.depth} does not have")
        return _Resnet(self, layers)

    def width_slots(self) -> dict[str, WidthSlot]:
        """The first convolution of a block is free; layers on the residual stream share the stage's width."""
        slots = {"conv1": WidthSlot("widths", 0)}
        for index, (stage, block) in enumerate(self._positions()):
            name = f"layer{stage + 1}.{block}"
            free = f"{name}.conv2" not in self.removed  # without conv2, the output of conv1 is added to the shortcut
            slots[f"{name}.conv1"] = WidthSlot("inner", index) if free else WidthSlot("widths", stage)
            slots[f"{name}.conv2"] = WidthSlot("widths", stage)
            if stage and block == 0 and self.shortcut == "conv":
                slots[f"{name}.downsample.0"] = WidthSlot("widths", stage)
        return {layer: slot for layer, slot in slots.items() if layer not in self.removed}

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """The stages, and the inside of every block."""
        inner = self.inner or tuple(self.widths[stage] for stage, _ in self._positions())
        return {"widths": self.widths, "inner": inner}

    def with_widths(self, widths: Mapping[str, tuple[int, ...]]) -> Self:
        """As for every spec; in a block with a removed convolution the inner width is that of the stage."""
        inner = [
            widths["widths"][stage] if self._is_cut(stage, block) else width
            for (stage, block), width in zip(self._positions(), widths["inner"], strict=True)
        ]
        return super().with_widths({**widths, "inner": tuple(inner)})

    def _positions(self) -> list[tuple[int, int]]:
        """Stage and block of every block, counted from zero."""
        return [(stage, block) for stage in range(3) for block in range(self.blocks)]

    def _is_cut(self, stage: int, block: int) -> bool:
        return any(f"layer{stage + 1}.{block}.{conv}" in self.removed for conv in ("conv1", "conv2"))


class _Block(nn.Module):
    """out = act(shortcut(x) + bn2(conv2(act(bn1(conv1(x)))))); a removed convolution passes its input on."""

    def __init__(self, spec: Resnet, channels: tuple[int, int, int], stride: int, kept: list[bool], name: str) -> None:
        super().__init__()
        entering, inner, leaving = channels
        self.conv1 = self.bn1 = self.conv2 = self.bn2 = None
        if kept[0]:
            self.conv1 = nn.Conv2d(entering, inner, 3, stride, padding=1, bias=False)
            self.bn1 = batch_norm(inner, 2, spec.statistics)
        elif stride != 1 or entering != (inner if kept[1] else leaving):
            raise OptionError(f"resnet: {name}.conv1 changes the shape of what passes and cannot be removed")
        if kept[1]:
            self.conv2 = nn.Conv2d(inner, leaving, 3, padding=1, bias=False)
            self.bn2 = batch_norm(leaving, 2, spec.statistics)
        elif kept[0] and inner != leaving:
            raise OptionError(f"resnet: {name}.conv2 changes the shape of what passes and cannot be removed")
        self.activation1 = spec.activation_option.module()
        self.activation2 = spec.activation_option.module()
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or entering != leaving:
            self.downsample = (
                ZeroPad(leaving - entering, stride)
                if spec.shortcut == "pad"
                else nn.Sequential(
                    nn.Conv2d(entering, leaving, 1, stride, bias=False), batch_norm(leaving, 2, spec.statistics)
                )
            )

    def forward(self, x: Tensor) -> Tensor:
        """Residual branch plus shortcut."""
        out = x
        if self.conv1 is not None and self.bn1 is not None:
            out = self.activation1(self.bn1(self.conv1(out)))
        if self.conv2 is not None and self.bn2 is not None:
            out = self.bn2(self.conv2(out))
        result: Tensor = self.activation2(out + self.downsample(x))
        return result


class ZeroPad(nn.Module):
    """The parameter-free shortcut: every ``stride``-th pixel, and ``extra`` zero channels, half on each side."""

    def __init__(self, extra: int, stride: int) -> None:
        super().__init__()
        self.extra, self.stride = extra, stride

    def forward(self, x: Tensor) -> Tensor:
        """Subsample and pad."""
        before = self.extra // 2
        return nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.extra - before))

    def extra_repr(self) -> str:
        """What ``print(network)`` shows."""
        return f"extra={self.extra}, stride={self.stride}"


class _Resnet(nn.Module):
    def __init__(self, spec: Resnet, stages: list[nn.Sequential]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(spec.input_shape[0], spec.widths[0], 3, padding=1, bias=False)
        self.bn1 = batch_norm(spec.widths[0], 2, spec.statistics)
        self.activation = spec.activation_option.module()
        self.layer1, self.layer2, self.layer3 = stages
        self.fc = nn.Linear(spec.widths[-1], spec.classes or 0)

    def forward(self, x: Tensor) -> Tensor:
        """Stem, stages, mean over positions, dense layer."""
        out = self.activation(self.bn1(self.conv1(x)))
        out = self.layer3(self.layer2(self.layer1(out)))
        scores: Tensor = self.fc(out.mean(dim=(2, 3)))
        return scores


def resnet(
    depth: int, input_shape: tuple[int, ...] = (3, 32, 32), classes: int = 10, seed: int = 0, **options: object
) -> nn.Module:
    """A CIFAR ResNet of that depth; further parameters of :class:`Resnet` by name.

    >>> sum(p.numel() for p in resnet(20).parameters())
    269722
    """
    return Resnet.from_values({"depth": depth, "input_shape": input_shape, "classes": classes, **options}).build(seed)
