"""A configuration: which cut is applied to a network, and how the result computes: in float32, in int8, or by spikes.

>>> config = Configuration(PruningStep("error", "params", 0.25, "error"), numbers="int8")
>>> config.kind, str(config)
('reduced, int8', 'cut to 25 % of the parameters; int8')
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from weightsmith.core.records import Record

__all__ = ["KINDS", "Configuration", "Conversion", "Kind", "Measure", "PruningStep"]

Kind = Literal["whole", "reduced", "int8", "reduced, int8", "spiking", "reduced and spiking"]
KINDS: tuple[Kind, ...] = ("whole", "reduced", "int8", "reduced, int8", "spiking", "reduced and spiking")
Measure = Literal["params", "macs"]
_MEASURES = {"params": "parameters", "macs": "operations"}


@dataclasses.dataclass(frozen=True, eq=False)
class PruningStep(Record):
    """A reduction: the method, the target, the plan for the layers, and the recovery (text forms)."""

    by: str
    measure: Measure
    keep: float
    plan: str = "uniform"
    recover: str | None = None
    multiple: int = 1

    @property
    def target(self) -> str:
        """The text form of the target."""
        return f"{self.measure}:{self.keep:g}" + (f",multiple={self.multiple}" if self.multiple > 1 else "")

    def __str__(self) -> str:
        distilled = (self.recover or "").startswith("distill")
        if (self.by, self.plan) == ("error", "error") and (distilled or self.recover is None):
            channels = f", in multiples of {self.multiple} channels" if self.multiple > 1 else ""
            words = f"cut to {100 * self.keep:.4g} % of the {_MEASURES[self.measure]}{channels}"
            return f"{words}, distilled" if distilled else words
        return ", ".join(filter(None, (self.by, self.target, self.plan, self.recover)))


@dataclasses.dataclass(frozen=True, eq=False)
class Conversion(Record):
    """A conversion to a spiking network: input encoding, thresholds, adjustment, the number of steps, and neurons."""

    encode: str
    balance: str
    steps: int
    adjust: str | None = None
    neuron: str | None = None
    calibrate: str | None = None

    def __str__(self) -> str:
        if self.neuron is not None:
            return f"{self.neuron}, {self.steps} step{'s' * (self.steps != 1)}"
        return ", ".join(filter(None, ("spiking", self.encode, self.balance, self.adjust)))


@dataclasses.dataclass(frozen=True, eq=False)
class Configuration(Record):
    """The steps applied to the network; none leaves it whole."""

    cut: PruningStep | None = None
    conversion: Conversion | None = None
    numbers: Literal["float32", "int8"] = "float32"

    @property
    def kind(self) -> Kind:
        """Which of the six kinds of network results."""
        if self.conversion is not None:
            return "spiking" if self.cut is None else "reduced and spiking"
        if self.numbers == "int8":
            return "int8" if self.cut is None else "reduced, int8"
        return "whole" if self.cut is None else "reduced"

    @property
    def key(self) -> str:
        """Its key in a journal."""
        return self.to_json()

    def __str__(self) -> str:
        words = [str(part) for part in (self.cut, self.conversion) if part is not None]
        return "; ".join([*words, *(["int8"] if self.numbers == "int8" else [])]) or "whole"
