"""The residual network of the L4-norm paper, built to be converted into a spiking one."""

from __future__ import annotations

from torch import Tensor, nn

from weightsmith.core.errors import OptionError
from weightsmith.core.options import param
from weightsmith.networks.models.activations import Activation
from weightsmith.networks.models.architecture import Architecture, WidthSlot
from weightsmith.networks.models.dropout import Dropout

__all__ = ["PaperResnet", "paper_resnet"]


class PaperResnet(Architecture, name="paper-resnet"):
    """The L4-norm paper's "ResNet-20" (seed 000; Rathi et al. 2020), which is not He's.

    Three 3×3 stem convolutions of 64 channels and a 2×2 average pool, four stages of two basic blocks with 64, 128,
    256, 512 channels and 1×1 convolutions as shortcuts where the shape changes, one dense layer; neither bias nor
    batch norm, so that it converts into a spiking network.
    """

    widths: tuple[int, ...] = param(default=(64, 128, 256, 512), ge=1, min_length=1, doc="channels of the stages")
    inner: tuple[int, ...] = param(default=(), ge=1, doc="channels inside each block; empty: the stage's own")
    stem: tuple[int, ...] = param(
        default=(), ge=1, doc="channels of the first two convolutions; empty: the first stage's own"
    )
    dropout: float = param(default=0.2, ge=0, lt=1, doc="rate in the stem and inside the blocks")

    def check(self) -> None:
        """Images that survive the pool and the strides; one inner width per block, two in the stem."""
        super().check()
        least = 2 ** len(self.widths)
        if self.input_shape and (len(self.input_shape) != 3 or min(self.input_shape[1:]) < least):
            raise OptionError(
                f"paper-resnet: input_shape must be channels and at least {least}×{least}, not {self.input_shape}"
            )
        if self.inner and len(self.inner) != 2 * len(self.widths):
            raise OptionError(f"paper-resnet: inner needs {2 * len(self.widths)} values, one per block")
        if len(self.stem) not in (0, 2):
            raise OptionError(
                f"paper-resnet: stem needs 2 values (the third convolution has {self.widths[0]} channels)"
            )

    def assemble(self) -> nn.Module:
        """``stem``, ``stages``, ``classifier``."""
        act, (channels, height, width) = self.activation_option, self.input_shape
        stem: list[nn.Module] = []
        widths = self.widths_in_use()
        for number, leaving in enumerate((*widths["stem"], self.widths[0])):
            stem += [nn.Conv2d(channels, leaving, 3, padding=1, bias=False), act.module()]
            stem.append(Dropout(self.dropout, self.activation_option.dropout) if number < 2 else nn.AvgPool2d(2))
            channels = leaving
        height, width = height // 2, width // 2
        stages, inner = nn.Sequential(), iter(widths["inner"])
        for stage, leaving in enumerate(self.widths):
            for block in range(2):
                stride = 2 if stage and block == 0 else 1
                dropout = Dropout(self.dropout, self.activation_option.dropout)
                stages.append(_PlainBlock(act, (channels, next(inner), leaving), stride, dropout))
                channels = leaving
            if stage:
                height, width = (height + 1) // 2, (width + 1) // 2
        dense = nn.Linear(channels * height * width, self.classes or 0, bias=False)
        return _PaperResnet(nn.Sequential(*stem), stages, nn.Sequential(nn.Flatten(), dense))

    def width_slots(self) -> dict[str, WidthSlot]:
        """Layers on a stage's residual stream share its width; the stem's start and inner widths are free."""
        slots = {"stem.0": WidthSlot("stem", 0), "stem.3": WidthSlot("stem", 1), "stem.6": WidthSlot("widths", 0)}
        for index in range(2 * len(self.widths)):
            stage, block = divmod(index, 2)
            slots[f"stages.{index}.residual.0"] = WidthSlot("inner", index)
            slots[f"stages.{index}.residual.3"] = WidthSlot("widths", stage)
            if stage and block == 0:
                slots[f"stages.{index}.identity"] = WidthSlot("widths", stage)
        return slots

    def widths_in_use(self) -> dict[str, tuple[int, ...]]:
        """The stages, the inside of every block, and the start of the stem."""
        inner = self.inner or tuple(width for width in self.widths for _ in range(2))
        return {"widths": self.widths, "inner": inner, "stem": self.stem or (self.widths[0],) * 2}


class _PlainBlock(nn.Module):
    """out = act(identity(x) + conv2(dropout(act(conv1(x)))))."""

    def __init__(self, act: Activation, channels: tuple[int, int, int], stride: int, dropout: Dropout) -> None:
        super().__init__()
        entering, inner, leaving = channels
        self.residual = nn.Sequential(
            nn.Conv2d(entering, inner, 3, stride, padding=1, bias=False),
            act.module(),
            dropout,
            nn.Conv2d(inner, leaving, 3, padding=1, bias=False),
        )
        changes = stride != 1 or entering != leaving
        self.identity = nn.Conv2d(entering, leaving, 1, stride, bias=False) if changes else nn.Identity()
        self.activation = act.module()

    def forward(self, x: Tensor) -> Tensor:
        """Residual branch plus shortcut."""
        out: Tensor = self.activation(self.residual(x) + self.identity(x))
        return out


class _PaperResnet(nn.Sequential):
    def __init__(self, stem: nn.Sequential, stages: nn.Sequential, classifier: nn.Sequential) -> None:
        super().__init__()
        self.stem, self.stages, self.classifier = stem, stages, classifier


def paper_resnet(
    input_shape: tuple[int, ...] = (3, 32, 32), classes: int = 10, seed: int = 0, **options: object
) -> nn.Module:
    """The paper's ResNet-20; further parameters of :class:`PaperResnet` by name.

    >>> paper_resnet().classifier[1]
    Linear(in_features=2048, out_features=10, bias=False)
    """
    return PaperResnet.from_values({"input_shape": input_shape, "classes": classes, **options}).build(seed)
