"""What a method of reduction decides: which units go, and what stands in for them.

Every method speaks this one language, so that surgery need not know where a decision came from. A unit that goes is
replaced, for the layers that read it, by

    h_j  →  Σ_k factors[k] · h_{into[k]} + constant

which covers the plain cut (nothing), the similar unit (one factor near 1), the complementary one (a factor near −1 and
a constant), the constant unit (a constant alone) and the member of a group (several factors).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record

__all__ = ["Choice", "Decision", "FrontPoint", "Removal", "Trace", "TraceRow"]


@dataclasses.dataclass(frozen=True, eq=False)
class Removal(Record):
    """One unit that goes, and what replaces it for its readers.

    ``inputs`` says what becomes of the kept unit's own input weights and bias: they stay, or those of the removed unit
    are added to them or averaged with them (the paper's sentence can be read so). ``angle`` is the angle in degrees to
    what it was merged into.
    """

    unit: int
    into: tuple[int, ...] = ()
    factors: tuple[float, ...] = ()
    constant: float = 0.0
    inputs: Literal["keep", "sum", "mean"] = "keep"
    reason: str = ""
    angle: float | None = None

    def __post_init__(self) -> None:
        if len(self.into) != len(self.factors):
            raise UsageError(f"unit {self.unit} goes into {len(self.into)} units with {len(self.factors)} factors")
        if not all(map(math.isfinite, (*self.factors, self.constant))):
            raise UsageError(f"unit {self.unit} would be replaced by something that is not finite")


@dataclasses.dataclass(frozen=True, eq=False)
class Choice(Record):
    """What is done at one site: removals in order, so that what was merged into a unit goes on with it later.

    >>> Choice("dense1", 4, (Removal(3, (1,), (1.0,)), Removal(1, (0,), (1.0,)))).kept
    (0, 2)
    """

    site: str
    units: int
    removals: tuple[Removal, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        gone: set[int] = set()
        for removal in self.removals:
            for unit in (removal.unit, *removal.into):
                if not 0 <= unit < self.units:
                    raise UsageError(f"{self.site}: has no unit {unit}, only 0 to {self.units - 1}")
                if unit in gone:
                    raise UsageError(f"{self.site}: unit {unit} is gone already")
            if removal.unit in removal.into:
                raise UsageError(f"{self.site}: unit {removal.unit} cannot stand in for itself")
            gone.add(removal.unit)
        if len(gone) >= self.units:
            raise UsageError(f"{self.site}: no unit would be left of {self.units}; at least one must stay")

    @property
    def kept(self) -> tuple[int, ...]:
        """The units that stay, ascending."""
        gone = {removal.unit for removal in self.removals}
        return tuple(unit for unit in range(self.units) if unit not in gone)


@dataclasses.dataclass(frozen=True, eq=False)
class TraceRow(Record):
    """One generation of a search; ``evaluated`` counts the distinct masks that had to be computed for it."""

    generation: int
    best: float
    mean: float
    best_units: int
    mean_units: float
    evaluated: int


@dataclasses.dataclass(frozen=True, eq=False)
class Trace(Record):
    """How a search went; ``fitness`` says what ``best`` and ``mean`` are."""

    fitness: str
    rows: tuple[TraceRow, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class FrontPoint(Record):
    """A network on the front of accuracy (in percent, on the rows the search saw) and units: none is better in both."""

    accuracy: float
    units: int
    kept: dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True, eq=False)
class Decision(Record):
    """A choice per site, how the search went, and the front if it was a search for one."""

    choices: tuple[Choice, ...]
    trace: Trace | None = None
    front: tuple[FrontPoint, ...] = ()
    notes: tuple[str, ...] = ()
