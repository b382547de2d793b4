"""HDF5 without the library in this process: a child process lists the file, values are read directly by offset.

Plain datasets (all that Keras writes) are byte ranges, read straight from the file. Only packed ones go through the
child again. If it crashes, hangs or is refused memory, the file is refused and nothing else happens.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.readers.ranges import read_tensor, shown

__all__ = ["Dataset", "Hdf5File"]

_SCRIPT = Path(__file__).with_name("h5listing.py")
_PATIENCE = 60.0


@dataclass(frozen=True)
class Dataset:
    """One dataset: its path, shape and type; ``offset`` is None when it is packed."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    offset: int | None
    same: str

    @property
    def torch_name(self) -> str | None:
        """The type as torch calls it, None if it has no such type."""
        if self.dtype == "bfloat16":
            return self.dtype
        kind = np.dtype(self.dtype)
        known = kind.kind in "fiub" and isinstance(getattr(torch, kind.newbyteorder("=").name, None), torch.dtype)
        return kind.newbyteorder("=").name if known else None


class Hdf5File:
    """An HDF5 file, or a byte range of a file that is one."""

    def __init__(self, path: Path, begin: int, length: int) -> None:
        if importlib.util.find_spec("h5py") is None:
            raise MissingExtra("reading Keras and HDF5 files", "keras")
        self.path = path
        self._begin, self._length = begin, length
        listing = self._parsed(self._child())
        self.groups: Mapping[str, Mapping[str, Any]] = listing["groups"]
        self.datasets: dict[str, Dataset] = {}
        for item in listing["datasets"]:
            shape = tuple(item["shape"])
            found = Dataset(item["path"], shape, item["dtype"], item["offset"], item["same"])
            self.datasets[found.path] = found

    def texts(self, group: str, attribute: str) -> list[str]:
        """An attribute that is a list of texts, put together again if Keras had to cut it."""
        attributes = self.groups.get(group, {})
        if attribute in attributes:
            value = attributes[attribute]
            return [str(item) for item in value] if isinstance(value, list) else [str(value)]
        pieces: list[str] = []
        for number in itertools.count():
            piece = attributes.get(f"{attribute}{number}")
            if not isinstance(piece, list):
                break
            pieces += [str(item) for item in piece]
        return pieces

    def text(self, group: str, attribute: str) -> str | None:
        """An attribute that is a text."""
        value = self.groups.get(group, {}).get(attribute)
        return value if isinstance(value, str) else None

    def read(self, dataset: Dataset) -> Tensor:
        """A copy of the values of a dataset as stored."""
        name = dataset.torch_name
        if name is None:
            raise FileRefused(self.path, f"dataset {shown(dataset.path)} is of type {dataset.dtype}")
        dtype: torch.dtype = getattr(torch, name)
        if dataset.offset is not None:
            values = read_tensor(self.path, self._begin + dataset.offset, dataset.shape, dtype)
        else:
            size = math.prod(dataset.shape) * dtype.itemsize
            content = bytearray(self._child(dataset.path, str(size)))
            if len(content) != size:
                raise FileRefused(self.path, f"dataset {shown(dataset.path)} is damaged")
            values = torch.frombuffer(content, dtype=torch.uint8).view(dtype).reshape(dataset.shape)
        if dataset.dtype.startswith(">"):
            # torch has no byte order; NumPy swaps the bytes in place.
            turned = values.contiguous().view(-1).view(torch.uint8).numpy().view(dataset.dtype)
            values = torch.from_numpy(turned.astype(turned.dtype.newbyteorder("="))).reshape(dataset.shape)
        return values

    def _child(self, *dataset: str) -> bytes:
        section = [str(self.path), str(self._begin), str(self._length)]
        # -P keeps this folder off the child's path, where files are called like the packages they read.
        command = [sys.executable, "-P", str(_SCRIPT), *section, *dataset]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, env=environment, check=False)
        except subprocess.TimeoutExpired as error:
            raise FileRefused(self.path, f"could not be listed by the HDF5 library in {_PATIENCE:.0f} s") from error
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            reason = "crashed on it" if done.returncode < 0 else f"says {shown(last[:100])}"
            raise FileRefused(self.path, f"is a damaged or cut-off HDF5 file (the library {reason})")
        return done.stdout

    def _parsed(self, output: bytes) -> dict[str, Any]:
        try:
            listing: dict[str, Any] = json.loads(output)
        except ValueError as error:
            raise FileRefused(self.path, "could not be listed by the HDF5 library") from error
        if "refused" in listing:
            raise FileRefused(self.path, " ".join(str(listing["refused"]).split()))
        return listing
