"""A small scene without a network, for the searches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FakeContext", "FakeSite"]


@dataclasses.dataclass(frozen=True)
class FakeSite:
    name: str
    units: int


@dataclasses.dataclass
class FakeContext:
    """Two sites, and an accuracy that grows with the worth of the units left; ``evaluated`` counts masks."""

    sites: tuple[FakeSite, ...] = (FakeSite("first", 12), FakeSite("second", 8))
    seed: int = 0
    fitness: Callable[..., Any] | None = None
    price: Callable[..., Any] | None = None
    folder: Path | None = None
    identity: dict[str, str] = dataclasses.field(default_factory=lambda: {"network": "n1", "data": "d1"})
    progress: Callable[[int, int], None] | None = None
    evaluated: int = 0
    rows: list[int | None] = dataclasses.field(default_factory=list)

    @property
    def bits(self) -> int:
        return sum(site.units for site in self.sites)

    @property
    def site_slices(self) -> tuple[slice, ...]:
        ends = np.cumsum([site.units for site in self.sites]).tolist()
        return tuple(slice(end - site.units, end) for site, end in zip(self.sites, ends, strict=True))

    def split(self, mask: np.ndarray) -> dict[str, np.ndarray]:
        return {site.name: mask[position] for site, position in zip(self.sites, self.site_slices, strict=True)}

    @property
    def worth(self) -> np.ndarray:
        """Of each unit; three in four are of no use at all."""
        units = np.arange(self.bits)
        return np.where(units % 4 == 0, 1.0 + units, 0.0)

    def accuracy(self, masks: np.ndarray) -> np.ndarray:
        return 100 * (masks @ self.worth) / self.worth.sum()

    def evaluator(self, rows: int | None) -> Callable[[np.ndarray], np.ndarray]:
        self.rows.append(rows)

        def evaluate(masks: np.ndarray) -> np.ndarray:
            assert all(part.any(axis=1).all() for part in (masks[:, position] for position in self.site_slices))
            self.evaluated += len(masks)
            return self.accuracy(masks)

        return evaluate
