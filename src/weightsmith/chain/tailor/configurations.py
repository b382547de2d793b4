"""A configuration: which cut is applied to a network, and how the result is converted to spikes.

>>> config = Configuration(PruningStep("groups", "params", 0.25), Conversion("constant", "percentile", 32))
>>> config.kind, str(config)
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
    """A reduction: the method, the target, the plan for the layers, and the recovery (text forms)."""

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
        """A readable and unique name for the folder of the reduction."""
        words = f"{self.by}-{self.target}-{self.plan}" + ("" if self.recover is None else "-tuned")
        return f"{re.sub(r'[^A-Za-z0-9.]+', '-', words)[:60]}-{digest_of(self.to_json())[:8]}"

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.by, self.target, self.plan, self.recover)))


@dataclasses.dataclass(frozen=True, eq=False)
class Conversion(Record):
    """A conversion to a spiking network: input encoding, thresholds, adjustment, and the number of steps."""

    encode: str
    balance: str
    steps: int
    adjust: str | None = None

    def __str__(self) -> str:
        return ", ".join(filter(None, ("spiking", self.encode, self.balance, self.adjust)))


@dataclasses.dataclass(frozen=True, eq=False)
class Configuration(Record):
    """The steps applied to the network; none leaves it whole."""

    cut: PruningStep | None = None
    conversion: Conversion | None = None

    @property
    def kind(self) -> Kind:
        """Which of the four kinds of network results."""
        if self.cut is None:
            return "whole" if self.conversion is None else "spiking"
        return "reduced" if self.conversion is None else "reduced and spiking"

    @property
    def key(self) -> str:
        """Its key in a journal."""
        return self.to_json()

    def __str__(self) -> str:
        return "; ".join(str(part) for part in (self.cut, self.conversion) if part is not None) or "whole"
