"""Random changes of training images that keep their class.

An augmentation is applied to one batch at a time and draws from the generator handed in, nothing else:

>>> import torch
>>> batch = torch.arange(4.0).view(1, 1, 1, 4)
>>> CropFlip(pad=0, flip=1)(batch, torch.Generator())
tensor([[[[3., 2., 1., 0.]]]])
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from weightsmith.core.errors import DataMismatch
from weightsmith.core.options import Option, param

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Augment", "CropFlip", "NoAugment"]


class Augment(Option):
    """A family: how a training batch is changed each time it is used."""

    @abstractmethod
    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """The changed batch, of the same shape and type; ``batch`` itself is not modified."""


class NoAugment(Augment, name="none"):
    """Images as they are."""

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG002 (the family's call)
        """The batch itself."""
        return batch


class CropFlip(Augment, name="crop-flip"):
    """Shift each image by up to ``pad`` pixels both ways (zeros move in), then randomly mirror it left to right.

    The standard augmentation for CIFAR (He et al. 2016, section 4.2): pad by 4, crop at random, flip with
    probability ½. Per batch it draws the row offsets, the column offsets and the flips, in this order.
    """

    pad: int = param(default=4, ge=0, doc="pixels added on each side before cropping")
    flip: float = param(default=0.5, ge=0, le=1, doc="probability of mirroring")

    def __call__(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Crop and flip every image of ``batch`` (n, c, h, w) on its own."""
        import torch
        from torch.nn import functional as F

        if batch.ndim != 4:
            raise DataMismatch(f"{self}: images (n, c, h, w) are needed, not inputs of shape {tuple(batch.shape)}")
        count, _, height, width = batch.shape
        top = torch.randint(0, 2 * self.pad + 1, (count, 1), generator=generator)
        left = torch.randint(0, 2 * self.pad + 1, (count, 1), generator=generator)
        flipped = torch.rand((count, 1), generator=generator) < self.flip

        rows = top + torch.arange(height)
        columns = torch.arange(width).expand(count, width)
        columns = left + torch.where(flipped, width - 1 - columns, columns)
        padded = F.pad(batch, (self.pad,) * 4)
        image = torch.arange(count).view(-1, 1, 1)
        # Indexing (n, h, w) at once puts the channels last; permute brings them back without a copy.
        picked = padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]]
        return picked.permute(0, 3, 1, 2).contiguous()
