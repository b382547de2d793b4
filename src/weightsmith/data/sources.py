"""The option family of user data: a kind, a path, and how to read it, with one text form.

``folder:photos,size=32`` and ``table:sfew.csv,label=emotion`` are written on the command line just as in Python.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from weightsmith.core.options import Option, param
from weightsmith.data.arrays import Arrays
from weightsmith.data.normalise import NONE, Normalisation

__all__ = ["Source", "held_back"]


def held_back(split: str) -> Any:
    """The option for a share of the training rows that becomes a split."""
    return param(
        default=0.0,
        ge=0,
        lt=1,
        kw_only=True,
        doc=f"share of the training rows that becomes the {split} split, stratified",
    )


class Source(Option):
    """A family: the user's own data."""

    path: str
    test: float
    validation: float
    normalisation: ClassVar[Normalisation] = NONE
    """The default normalisation in training."""

    @abstractmethod
    def read(self) -> dict[str, Arrays]:
        """Every split of the source; an undivided source is all ``train``."""
