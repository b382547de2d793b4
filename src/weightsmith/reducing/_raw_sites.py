"""What both finders of sites give: layers by name with the places of each unit, before they are checked and named."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["RawSite", "RawSites"]

_Place = tuple[str, NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class RawSite:
    """One site: (layer, indices of shape (units, places per unit)) for each writer, carrier and reader."""

    units: int
    activation: str | None
    writers: list[_Place]
    carriers: list[_Place]
    readers: list[_Place]


@dataclasses.dataclass(frozen=True)
class RawSites:
    """The sites and why other layers have none."""

    sites: list[RawSite]
    obstacles: dict[str, str]
