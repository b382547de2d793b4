"""Angles between units as a stage of a chain leaves them: the record, and the matrices in ``arrays.npz`` beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.npz import NpzWeights
from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles

__all__ = ["ARRAYS", "read_angles"]

ARRAYS = "arrays.npz"


@dataclass(frozen=True, repr=False)
class _StoredAngles(UnitAngles):
    """Angles that were kept instead of the Gram matrices they were read from."""

    stored: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def degrees(self, site: str) -> NDArray[np.float64]:
        """The angle of every pair of units of ``site``."""
        return self.stored[site]


def read_angles(path: Path, record: AnglesRecord) -> UnitAngles:
    """The angles of ``record`` with the matrices in ``path``, each checked against its site."""
    arrays = NpzWeights(path)
    stored = {}
    for site in record.sites:
        entry = arrays.stored.get(site.name)
        if entry is None or entry.shape != (site.units, site.units):
            raise FileRefused(path, f"holds no angles of the {site.units} units of {site.name!r}, which the record has")
        degrees = arrays.tensor(site.name).double().numpy()
        if not ((degrees >= 0) & (degrees <= 180)).all():
            raise FileRefused(path, f"holds numbers for {site.name!r} that are no angles")
        stored[site.name] = degrees
    return _StoredAngles(record, {}, stored)
