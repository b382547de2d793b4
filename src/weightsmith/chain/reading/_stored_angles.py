"""Angles between units on disk: the record, and the matrices in ``arrays.npz`` next to it."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.errors import FileRefused
from weightsmith.core.records import write_record
from weightsmith.core.storage import write_atomic
from weightsmith.networks.readers.npz import NpzWeights
from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles

__all__ = ["ARRAYS", "RECORD", "read_angles", "write_angles"]

ARRAYS, RECORD = "arrays.npz", "record.json"
_SINCE = (1980, 1, 1, 0, 0, 0)  # a fixed date for every entry: equal angles give equal bytes


@dataclass(frozen=True, repr=False)
class _StoredAngles(UnitAngles):
    """Stored angles, instead of the Gram matrices they were computed from."""

    stored: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def degrees(self, site: str) -> NDArray[np.float64]:
        """The angle of every pair of units of ``site``."""
        return self.stored[site]


def write_angles(folder: Path, found: UnitAngles) -> list[Path]:
    """Write the matrices in single precision and then the record, which marks the result as complete; return the paths.

    ``numpy.savez`` is not used: it interprets some names as its own options.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for site in found.record.sites:
            with archive.open(zipfile.ZipInfo(f"{site.name}.npy", _SINCE), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, found.degrees(site.name).astype(np.float32), allow_pickle=False)
    arrays = write_atomic(folder / ARRAYS, content.getvalue())
    return [arrays, write_record(folder / RECORD, found.record)]


def read_angles(path: Path, record: AnglesRecord) -> UnitAngles:
    """The angles of ``record`` with the matrices in ``path``, each checked against its site."""
    arrays = NpzWeights(path)
    stored = {}
    for site in record.sites:
        entry = arrays.stored.get(site.name)
        if entry is None or entry.shape != (site.units, site.units):
            raise FileRefused(path, f"holds no angles of the {site.units} units of {site.name!r} in the record")
        degrees = arrays.tensor(site.name).double().numpy()
        if not ((degrees >= 0) & (degrees <= 180)).all():
            raise FileRefused(path, f"holds numbers for {site.name!r} that are not angles")
        stored[site.name] = degrees
    return _StoredAngles(record, {}, stored)
