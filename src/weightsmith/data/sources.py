"""The option family of user data: a kind, a path, and how to read it, with one text form.

``folder:photos,size=32`` and ``table:sfew.csv,label=emotion`` are written on the command line just as in Python.
"""

from __future__ import annotations

from abc import abstractmethod

from weightsmith.core.options import Option
from weightsmith.data.arrays import Arrays

__all__ = ["Source"]


class Source(Option):
    """A family: data of the user's own."""

    path: str

    @abstractmethod
    def read(self) -> dict[str, Arrays]:
        """Every split the source has; one that is not divided is all ``train``."""
