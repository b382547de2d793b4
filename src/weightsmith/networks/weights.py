"""Weight files: names and shapes at once, values one tensor at a time.

:func:`open_weights` finds the format by content, checks every declared size against the size of the file before
anything is allocated, and refuses files that could run code, leave their folder or exhaust memory. One interface for
all formats:

    weights.entries     name → shape and type, in file order, without reading a value
    weights.tensor(n)   a copy of the values of one tensor, float32 (float64 stays)
    weights.left_out    other contents of the file that could not be read as weights, with the reason
"""

from __future__ import annotations

import difflib
import math
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, UnknownName
from weightsmith.core.memory import bytes_text, free_memory

__all__ = ["Entry", "LeftOut", "Weights", "as_float", "open_weights"]


@dataclass(frozen=True)
class Entry:
    """One stored tensor, known without reading its values.

    >>> entry = Entry("fc.weight", (10, 512), "bfloat16")
    >>> entry.parameters, entry.nbytes
    (5120, 10240)
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def parameters(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the stored values in bytes."""
        return self.parameters * self.torch_dtype.itemsize

    @property
    def torch_dtype(self) -> torch.dtype:
        """The stored type as a torch type."""
        found = getattr(torch, self.dtype, None)
        if not isinstance(found, torch.dtype):
            raise UnknownName("tensor type", self.dtype, ["float32", "float64", "float16", "bfloat16", "int8"])
        return found

    @property
    def is_float(self) -> bool:
        """Whether the values are real numbers, not integers or truth values."""
        return self.torch_dtype.is_floating_point


@dataclass(frozen=True)
class LeftOut:
    """Something that was not read or not graded: how many parameters it has, and why."""

    name: str
    shape: tuple[int, ...]
    parameters: int
    reason: str


class Weights(ABC):
    """A weight file. A reader passes its stored tensors to ``__init__`` and implements ``_read`` for one of them.

    ``kinds`` are the kinds of tensors that the format itself states: a form of
    :mod:`weightsmith.networks.layers.forms` such as ``Conv2d(groups=2)``, or ``Bias``, ``Scale``, ``Buffer``.
    ``aliases`` maps a name to the earlier name whose values it shares (tied weights); both are entries.
    """

    format: ClassVar[str]

    path: Path
    metadata: Mapping[str, str]
    entries: Mapping[str, Entry]
    left_out: tuple[LeftOut, ...]
    kinds: Mapping[str, str]
    aliases: Mapping[str, str]

    def __init__(
        self,
        path: Path,
        stored: Iterable[Entry],
        *,
        metadata: Mapping[str, str] | None = None,
        left_out: Iterable[LeftOut] = (),
        kinds: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
        scaled_by_name: bool = True,
    ) -> None:
        from weightsmith.networks.readers.quantised import Scaling, split_quantised

        self.path = path
        self._signature = _signature(path)
        self.metadata = dict(metadata or {})
        self.kinds = dict(kinds or {})
        self.stored: Mapping[str, Entry] = {entry.name: entry for entry in stored}
        self._scalings: Mapping[str, Scaling] = {}
        left_out = list(left_out)
        for entry in self.stored.values():
            _check_plausible(path, entry.name, entry.shape)
        for item in left_out:
            _check_plausible(path, item.name, item.shape)
        if scaled_by_name:
            self.entries, self._scalings, more = split_quantised(self.stored)
            left_out += more
        else:
            self.entries = dict(self.stored)
        self.left_out = tuple(left_out)
        self.aliases = {n: first for n, first in (aliases or {}).items() if n in self.entries and first in self.entries}

    @abstractmethod
    def _read(self, name: str) -> Tensor:
        """A copy of the stored tensor ``name`` with its shape and type."""

    def tensor(self, name: str) -> Tensor:
        """A copy of the values of ``name``: float32 (float64 stays), integers and booleans as stored.

        Quantised values are multiplied by their scale. Nothing else of the file stays in memory.
        """
        if name not in self.entries:
            near = difflib.get_close_matches(name, self.entries, n=5, cutoff=0.3) or list(self.entries)[:5]
            raise UnknownName(f"tensor of {self.path.name}", name, near)
        entry = self.entries[name]
        self.check_memory(f"tensor {name!r}", entry.parameters * max(4, entry.torch_dtype.itemsize))
        self.check_unchanged()
        scaling = self._scalings.get(name)
        raw = self._read(name)
        if scaling is not None:
            zero = None if scaling.zero_point is None else self._read(scaling.zero_point)
            return scaling.apply(raw, self._read(scaling.scale), zero)
        return as_float(raw)

    def check_unchanged(self) -> None:
        """Refuse a file that was written since it was opened: its entries may no longer be right."""
        if self._signature is not None and _signature(self.path) != self._signature:
            raise FileRefused(self.path, "was changed or removed since it was opened: open it again")

    def check_memory(self, what: str, needed: int) -> None:
        """Refuse an allocation that needs more bytes than are free, before it is made."""
        if needed > (free := free_memory()):
            raise FileRefused(
                self.path, f"{what} needs {bytes_text(needed)} of memory, and {bytes_text(free)} are free"
            )

    def is_real(self, name: str) -> bool:
        """Whether the values of ``name`` are real numbers, possibly after scaling; otherwise it is a buffer."""
        return self.entries[name].is_float or name in self._scalings

    def tensor_as_stored(self, name: str) -> Tensor:
        """The values of ``name`` in the type they are stored in; quantised ones scaled, as float32."""
        values = self.tensor(name)
        return values if name in self._scalings else values.to(self.entries[name].torch_dtype)

    def as_written(self, name: str) -> Tensor:
        """The tensor ``name`` exactly as stored, also a scale; quantised integers are not scaled."""
        if name not in self.stored:
            raise UnknownName(f"tensor of {self.path.name}", name, list(self.stored)[:5])
        self.check_unchanged()
        return self._read(name)

    def state_dict(self) -> dict[str, Tensor]:
        """All entries at once, by name; tied names share one tensor."""
        values: dict[str, Tensor] = {}
        for name in self.entries:
            first = self.aliases.get(name)
            values[name] = values[first] if first in values else self.tensor(name)
        return values

    def __repr__(self) -> str:
        parameters = sum(entry.parameters for entry in self.entries.values())
        return f"<{self.format} {self.path.name}: {len(self.entries)} tensors, {parameters:,} values>"


def as_float(values: Tensor) -> Tensor:
    """Real numbers as float32 (float64 stays); integers and truth values as they are."""
    if not values.is_floating_point() or values.dtype in (torch.float32, torch.float64):
        return values
    return values.to(torch.float32)


def open_weights(path: str | Path) -> Weights:
    """Open a weight file or a folder of them; :class:`FileRefused` gives the reason if that fails.

    safetensors, sharded folders (``*.index.json``), torch files (``.pt .pth .th .bin .tar``), ``.npz``, ONNX and Keras
    (``.keras``, ``.weights.h5``, ``.h5``). The content decides, not the suffix; nothing in a file can run code.
    """
    from weightsmith.networks.readers.detect import open_path

    weights = open_path(Path(path))
    if not weights.entries and not weights.left_out:
        raise FileRefused(path, "holds no tensors")
    return weights


def _signature(path: Path) -> tuple[int, int, int] | None:
    """The modification signature of a file; None for a folder or a state dict."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _check_plausible(path: Path, name: str, shape: tuple[int, ...]) -> None:
    """Refuse names with control characters, and impossibly large shapes."""
    if not name.isprintable():
        raise FileRefused(path, f"the name of a tensor has control characters: {name[:60]!r}")
    if len(shape) > 64 or math.prod(max(1, size) for size in shape) >= 1 << 60:
        raise FileRefused(path, f"tensor {name[:60]!r} has an impossible shape")
