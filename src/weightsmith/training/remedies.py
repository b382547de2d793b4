"""What to do when reusing a network did not work out: cut more of it off, or draw its top afresh.

The slides (seed 002): if freezing and unfreezing "do not produce an accurate DNN", then with too little data drop the
top hidden layers and repeat; otherwise replace them rather than drop them. A dropped block is gone; a replaced one
stays where it is, but its weights are drawn anew and trained from the start together with the head.

>>> Drop().after(Cut(10), images=100), Replace(layers=2).after(Cut(10), images=5000)
(Cut(reuse=9, fresh=0), Cut(reuse=10, fresh=2))
>>> [ByData(enough=500).after(Cut(10), images) for images in (100, 5000)]
[Cut(reuse=9, fresh=0), Cut(reuse=10, fresh=1)]
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from weightsmith.core.options import Option, param

__all__ = ["ByData", "Cut", "Drop", "Remedy", "Replace"]


@dataclass(frozen=True)
class Cut:
    """How much of the base is used: ``reuse`` blocks, the top ``fresh`` of them with weights drawn anew."""

    reuse: int
    fresh: int = 0

    @property
    def taken(self) -> int:
        """The blocks whose weights come from the base."""
        return self.reuse - self.fresh


class Remedy(Option):
    """The family of remedies."""

    layers: int = param(default=1, ge=1, doc="top blocks that are dropped or replaced each time", kw_only=True)
    rounds: int = param(default=1, ge=1, doc="how many times at most", kw_only=True)

    @abstractmethod
    def drops(self, images: float) -> bool:
        """Whether blocks are dropped (else replaced) with that many training images per class."""

    def after(self, cut: Cut, images: float) -> Cut | None:
        """What to try after ``cut``; None if no block of the base would be left."""
        if cut.taken <= self.layers:
            return None
        return Cut(cut.reuse - self.layers, 0) if self.drops(images) else Cut(cut.reuse, cut.fresh + self.layers)


class Drop(Remedy, name="drop"):
    """Drop the top blocks: fewer weights, for little data."""

    def drops(self, images: float) -> bool:
        """Always."""
        del images
        return True


class Replace(Remedy, name="replace"):
    """Replace the weights of the top blocks: as many weights as before, for enough data."""

    def drops(self, images: float) -> bool:
        """Never."""
        del images
        return False


class ByData(Remedy, name="by-data"):
    """Drop with fewer than ``enough`` training images per class, else replace.

    The slides do not say how much data is sufficient; 500 images per class is what CIFAR-100 has.
    """

    enough: float = param(default=500.0, gt=0, doc="training images per class from which blocks are replaced")

    def drops(self, images: float) -> bool:
        """With fewer than ``enough``."""
        return images < self.enough
