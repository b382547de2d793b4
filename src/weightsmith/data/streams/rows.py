"""Inputs that are not loaded: a tensor whose values are read when its rows are indexed.

    x = StreamedRows(reader)        shape and type are known, no value is read
    x[:100], x[rows]                these rows, read now
    batches_of(x, numbers)          batch after batch, read a few ahead by workers, in constant memory
    view(x, rows)                   some of the rows, still unread
    x.mean()                        anything else reads all of it, if it fits into memory, and is refused if not

So code that takes a few rows, or goes through them in batches, need not know whether they are in memory. A reader
gives the same values for a row each time, so that a run has the same bytes whether its data are streamed or not.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map

from weightsmith.core.errors import DataMismatch
from weightsmith.core.memory import bytes_text, free_memory
from weightsmith.core.records import digest_of
from weightsmith.data.arrays import LIMIT

__all__ = [
    "Reader",
    "StreamedRows",
    "batches_of",
    "fits",
    "in_memory_or_streamed",
    "in_threads",
    "slices_of",
    "values_digest",
    "view",
    "worker_count",
]

_SHARE = 0.5  # of the free memory that data may take: a network has to run beside them
_MOST_WORKERS = 8
_PIECE = 256  # rows per piece when all rows are read

Rows = NDArray[np.int64]


class Reader(Protocol):
    """Rows of inputs, all of one shape and type, stored outside memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first, then the shape of one."""

    @property
    def dtype(self) -> torch.dtype:
        """uint8 or float32."""

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The rows of each batch, in their order; read ahead by workers."""

    def identity(self) -> str:
        """A digest of what the rows are read from."""


def fits(size: int) -> bool:
    """Whether data of ``size`` bytes are read into memory: up to 2 GB, and half of what is free."""
    return size <= min(LIMIT, _SHARE * free_memory())


class StreamedRows(Tensor):
    """A tensor without values in memory; see the top of this file."""

    reader: Reader
    rows: Rows | None

    @staticmethod
    def __new__(cls, reader: Reader, rows: Rows | None = None) -> StreamedRows:
        """A tensor of that shape and type, without memory."""
        shape = reader.shape if rows is None else (len(rows), *reader.shape[1:])
        made = Tensor._make_wrapper_subclass(cls, shape, dtype=reader.dtype)
        made.reader, made.rows = reader, rows
        return made

    def __init__(self, reader: Reader, rows: Rows | None = None) -> None:
        """All rows of a reader, or some of them in any order."""

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"StreamedRows({tuple(self.shape)}, {self.dtype}, from {type(self.reader).__name__})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return StreamedRows, (self.reader, self.rows)

    def __deepcopy__(self, memo: Any) -> StreamedRows:
        return self

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """All values, if they fit into memory."""
        return self.values().numpy(force=force)

    def values(self) -> Tensor:
        """All rows as a plain tensor; refused with the needed size if they do not fit into memory."""
        return self.taken(np.arange(len(self)))

    def taken(self, numbers: Rows) -> Tensor:
        """These rows as a plain tensor, in this order."""
        size = len(numbers) * math.prod(self.shape[1:]) * self.dtype.itemsize
        if size > _SHARE * (free := free_memory()):
            raise DataMismatch(
                f"{len(numbers):,} rows of {tuple(self.shape[1:])} would take {bytes_text(size)} of memory at once, "
                f"but {bytes_text(free)} are free; take fewer rows (x[:1000], images=…) or smaller ones (size=…)"
            )
        values = torch.empty((len(numbers), *self.shape[1:]), dtype=self.dtype)
        start = 0
        for piece in batches_of(self, [numbers[i : i + _PIECE] for i in range(0, len(numbers), _PIECE)]):
            values[start : start + len(piece)] = piece
            start += len(piece)
        return values

    def digest(self) -> str:
        """The digest of the values, as for a tensor in memory; beyond 2 GB that of their source and the row numbers."""
        if self.numel() * self.dtype.itemsize <= LIMIT:
            return values_digest(self.shape, self.dtype, slices_of(self, _PIECE))
        rows = np.arange(len(self)) if self.rows is None else self.rows
        return digest_of(self.reader.identity() + digest_of(np.ascontiguousarray(rows, np.int64)))

    def __getitem__(self, index: Any) -> Tensor:
        """The indexed rows, read now: by number, slice, list or mask; further indices choose within them."""
        first, *rest = index if isinstance(index, tuple) else (index,)
        if first is None or first is Ellipsis:
            return self.values()[index]
        numbers = np.arange(len(self))[first.numpy() if isinstance(first, Tensor) else first]
        rows = self.taken(np.atleast_1d(numbers))
        rows = rows if np.ndim(numbers) else rows[0]
        return rows[(slice(None), *rest)] if rest and np.ndim(numbers) else rows[tuple(rest)] if rest else rows

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Rows by number."""
        return self[index] if dim == 0 else self.values().index_select(dim, index)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Functions that only describe the tensor do not read it; all others read all rows."""
        if func in _DESCRIBING:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        args, kwargs = tree_map(_plain, (args, kwargs or {}))
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Read the rows of tensors that reach an operator unread."""
        args, kwargs = tree_map(_plain, (args, kwargs or {}))
        return func(*args, **kwargs)


def _plain(value: Any) -> Any:
    return value.values() if isinstance(value, StreamedRows) else value


_DESCRIBING = {
    *(
        getattr(Tensor, name).__get__
        for name in ("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_cuda", "is_meta", "is_sparse")
    ),
    *(getattr(Tensor, name) for name in ("size", "dim", "numel", "nelement", "is_floating_point", "is_complex")),
    *(getattr(Tensor, name) for name in ("__len__", "element_size", "is_inference", "get_device", "stride")),
}


def in_memory_or_streamed(reader: Reader) -> Tensor:
    """The rows of a reader: read now if they fit into memory, else a tensor that is read when needed."""
    x = StreamedRows(reader)
    return x.values() if fits(x.numel() * x.dtype.itemsize) else x


def view(x: Tensor, index: Any) -> Tensor:
    """``x[index]``; streamed rows stay unread."""
    if not isinstance(x, StreamedRows):
        return x[index]
    rows = np.arange(len(x)) if x.rows is None else x.rows
    return StreamedRows(x.reader, rows[index if isinstance(index, slice) else np.asarray(index)])


def batches_of(x: Tensor, batches: Iterable[Any]) -> Iterator[Tensor]:
    """The rows of ``x`` that each batch numbers, streamed rows read a few batches ahead."""
    if not isinstance(x, StreamedRows):
        return (x.index_select(0, torch.as_tensor(rows)) for rows in batches)
    own = x.rows
    numbers = (np.asarray(rows, np.int64) for rows in batches)
    return x.reader.read(numbers if own is None else (own[rows] for rows in numbers))


def slices_of(x: Tensor, size: int) -> Iterator[Tensor]:
    """All rows of ``x`` in order, ``size`` at a time."""
    starts = range(0, len(x), size)
    if not isinstance(x, StreamedRows):
        return (x[start : start + size] for start in starts)
    return batches_of(x, (np.arange(start, min(start + size, len(x))) for start in starts))


def values_digest(shape: Iterable[int], dtype: torch.dtype, pieces: Iterable[Tensor]) -> str:
    """The :func:`digest_of` of the array that the pieces make up, without holding it in memory."""
    kind = np.empty(0, np.uint8 if dtype == torch.uint8 else np.float32).dtype.str
    digest = hashlib.sha256(f"{kind}{tuple(shape)}".encode())
    for piece in pieces:
        digest.update(piece.contiguous().view(torch.uint8).reshape(-1).numpy().data)
    return digest.hexdigest()


def worker_count() -> int:
    """The number of threads or processes that read ahead: one per core, at most eight; results do not depend on it."""
    try:
        return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    except AttributeError:  # not Linux
        return min(os.cpu_count() or 1, _MOST_WORKERS)


def in_threads(
    function: Callable[[Rows], Tensor], batches: Iterable[Rows], workers: int | None = None
) -> Iterator[Tensor]:
    """``function`` of every batch in order, computed by threads, at most one batch per worker ahead."""
    workers = workers or worker_count()
    waiting = iter(batches)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="weightsmith-rows")
    try:
        ahead = deque(pool.submit(function, rows) for _, rows in zip(range(workers + 1), waiting, strict=False))
        while ahead:
            made = ahead.popleft().result()
            following = next(waiting, None)
            if following is not None:
                ahead.append(pool.submit(function, following))
            yield made
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
