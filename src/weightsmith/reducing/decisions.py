"""The decision of a pruning method: which units are removed, and what replaces them.

All methods return this one representation, so surgery does not depend on the method. For the layers that read it, a
removed unit is replaced by

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
    """A removed unit, and what replaces it for its readers.

    ``inputs`` sets the kept unit's own input weights and bias: unchanged, or those of the removed unit are added or
    averaged (two readings of the paper's sentence), or it becomes the mean of all that are folded into it
    (``surgery/merging.py``). ``angle`` is the angle in degrees to the unit it was merged into.
    """

    unit: int
    into: tuple[int, ...] = ()
    factors: tuple[float, ...] = ()
    constant: float = 0.0
    inputs: Literal["keep", "sum", "mean", "fold"] = "keep"
    reason: str = ""
    angle: float | None = None

    def __post_init__(self) -> None:
        if len(self.into) != len(self.factors):
            raise UsageError(f"unit {self.unit} is merged into {len(self.into)} units with {len(self.factors)} factors")
        if not all(map(math.isfinite, (*self.factors, self.constant))):
            raise UsageError(f"unit {self.unit}: a factor or the constant is not finite")


@dataclasses.dataclass(frozen=True, eq=False)
class Choice(Record):
    """The removals at one site, in order: units merged into a unit follow it if it is merged later.

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
                    raise UsageError(f"{self.site}: unit {unit} is already removed")
            if removal.unit in removal.into:
                raise UsageError(f"{self.site}: unit {removal.unit} cannot be merged into itself")
            gone.add(removal.unit)
        if len(gone) >= self.units:
            raise UsageError(f"{self.site}: all {self.units} units would be removed; keep at least one")

    @property
    def kept(self) -> tuple[int, ...]:
        """The units that are kept, ascending."""
        gone = {removal.unit for removal in self.removals}
        return tuple(unit for unit in range(self.units) if unit not in gone)


@dataclasses.dataclass(frozen=True, eq=False)
class TraceRow(Record):
    """One generation of a search; ``evaluated`` counts the distinct masks newly evaluated for it."""

    generation: int
    best: float
    mean: float
    best_units: int
    mean_units: float
    evaluated: int


@dataclasses.dataclass(frozen=True, eq=False)
class Trace(Record):
    """The history of a search; ``fitness`` describes ``best`` and ``mean``."""

    fitness: str
    rows: tuple[TraceRow, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class FrontPoint(Record):
    """A Pareto-optimal network in accuracy (percent, on the rows of the search) and number of units."""

    accuracy: float
    units: int
    kept: dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True, eq=False)
class Decision(Record):
    """A choice per site, the history of the search, and its front if it has one."""

    choices: tuple[Choice, ...]
    trace: Trace | None = None
    front: tuple[FrontPoint, ...] = ()
    notes: tuple[str, ...] = ()
