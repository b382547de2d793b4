"""A way through the chain: what is cut out of a network, and how what is left is made spiking.

>>> way = Configuration(Cut("groups", "params", 0.25), Conversion("constant", "percentile", 32))
>>> way.kind, str(way)
('reduced and spiking', 'groups, params:0.25, uniform; spiking, constant, percentile')
"""

from __future__ import annotations

import dataclasses
import re
from typing import Literal

from weightsmith.core.records import Record, digest_of

__all__ = ["KINDS", "Configuration", "Conversion", "Kind", "PruningStep"]

Kind = Literal["whole", "reduced", "spiking", "reduced and spiking"]
KINDS: tuple[Kind, ...] = ("whole", "reduced", "spiking", "reduced and spiking")


@dataclasses.dataclass(frozen=True, eq=False)
class PruningStep(Record):
    """A reduction: by which method, to which share of what, shared out by which plan, recovered how (text forms)."""

    by: str
    measure: Literal["params", "macs"]
    keep: float
    plan: str = "uniform"
    recover: str | None = None

    @property
    def target(self) -> str:
        """The text form of the target."""
        return f"{self.measure}:{self.keep:g}"

    @property
    def folder(self) -> str:
        """A name for the folder of the reduction: readable, and no two are alike."""
        words = f"{self.by}-{self.target}-{self.plan}" + ("" if self.recover is None else "-tuned")
        return f"{re.sub(r'[^A-Za-z0-9.]+', '-', words)[:60]}-{digest_of(self.to_json())[:8]}"

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.by, self.target, self.plan, self.recover)))


@dataclasses.dataclass(frozen=True, eq=False)
class Conversion(Record):
    """A conversion to a spiking network: its input, its thresholds, the adjustment, and the steps it is run for."""

    encode: str
    balance: str
    steps: int
    adjust: str | None = None

    def __str__(self) -> str:
        return ", ".join(filter(None, ("spiking", self.encode, self.balance, self.adjust)))


@dataclasses.dataclass(frozen=True, eq=False)
class Configuration(Record):
    """What is done to the network; nothing at all leaves it whole."""

    cut: PruningStep | None = None
    conversion: Conversion | None = None

    @property
    def kind(self) -> Kind:
        """Which of the four kinds of network comes out."""
        if self.cut is None:
            return "whole" if self.conversion is None else "spiking"
        return "reduced" if self.conversion is None else "reduced and spiking"

    @property
    def key(self) -> str:
        """Its name in a journal."""
        return self.to_json()

    def __str__(self) -> str:
        return "; ".join(str(part) for part in (self.cut, self.conversion) if part is not None) or "whole"
