"""The batches of a split: their order, their normalisation, their augmentation.

Inputs that take little room as floats are normalised once; others, and those that are augmented, batch by batch in a
thread beside the training, one batch ahead. Rows that do not fit into memory are read there too. The order of an epoch
comes from the seed and the epoch's number alone, so a resumed run needs no state of a generator.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch
from weightsmith.core.seeds import torch_stream
from weightsmith.data.augment import Augment, NoAugment
from weightsmith.data.normalise import Normalisation
from weightsmith.data.streams.rows import StreamedRows, batches_of, slices_of
from weightsmith.data.tensors import Split

__all__ = ["Batch", "Feed", "Layout", "Weighted"]

_ROOM = 1 << 29  # bytes of floats that are kept in memory: Fashion-MNIST takes 0.19 GB, CIFAR-10 0.61 GB
_VALUES = 1 << 20  # input values of a batch that is only measured
_AHEAD = 2  # batches prepared before they are needed


@dataclass(frozen=True)
class Layout:
    """The layout of inputs: shape (empty: as they are), type, device, and whether channels come last."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    channels_last: bool

    def arrange(self, x: Tensor) -> Tensor:
        """Normalised inputs as the network takes them."""
        x = x.to(device=self.device, dtype=self.dtype)
        if self.shape and 1 in (len(self.shape), x.dim() - 1):
            if math.prod(self.shape) != math.prod(x.shape[1:]):
                raise DataMismatch(
                    f"the network takes inputs of shape {self.shape}, the data have {tuple(x.shape[1:])}"
                )
            x = x.reshape(len(x), *self.shape)
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last and x.dim() == 4 else x


class Weighted(NamedTuple):
    """The targets of a batch, and the weights of its rows."""

    targets: Tensor
    weights: Tensor

    def index_select(self, _: int, rows: Tensor) -> Weighted:
        """These rows of both."""
        return Weighted(self.targets.index_select(0, rows), self.weights.index_select(0, rows))


Batch = tuple[Tensor, Tensor | Weighted]


class Feed:
    """A split as batches for one network; where its rows have weights, targets come as :class:`Weighted`."""

    def __init__(
        self, split: Split, normalisation: Normalisation, layout: Layout, augment: Augment | None = None
    ) -> None:
        self._x, self._normalisation, self._layout = split.x, normalisation, layout
        self._augment = None if augment is None or isinstance(augment, NoAugment) else augment
        self._targets = split.y.to(layout.device)
        self._y: Tensor | Weighted = self._targets
        if split.weights is not None:
            self._y = Weighted(self._targets, split.weights.to(layout.device, torch.float32))
        self.comfortable = max(1, _VALUES // (split.x.numel() // len(split)))  # rows at a time, to measure
        small = split.x.numel() * layout.dtype.itemsize <= _ROOM and not isinstance(split.x, StreamedRows)
        self.ready = self._augment is None and small
        if self.ready:
            # Floats that need no normalisation are not copied.
            as_given = split.x.is_floating_point() and not normalisation.mean
            self._x = layout.arrange(split.x if as_given else normalisation.apply(split.x))
            # Rows of a channels-last image lie together: picked as (n, h, w, c), they need no rearranging afterwards.
            self._last = layout.channels_last and self._x.dim() == 4
            self._rows = self._x.permute(0, 2, 3, 1) if self._last else self._x

    def __len__(self) -> int:
        return len(self._targets)

    def in_order(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Every row once, from first to last, neither augmented nor weighted."""
        start = 0
        for rows in slices_of(self._x, size):
            # Copied, because a network may begin with an in-place operation, and these may be the user's own rows.
            x = rows.clone() if self.ready else self._layout.arrange(self._normalisation.apply(rows))
            yield x, self._targets[start : start + len(x)]
            start += len(x)

    @contextmanager
    def shuffled(self, batches: tuple[Tensor, ...], seed: int, *names: int) -> Iterator[Iterator[Batch]]:
        """The batches whose rows are given; augmentation draws from ``seed`` and ``names`` (epoch and process)."""
        if self.ready:
            yield self._picked(batches)
            return
        with _ahead(self._prepared(batches, torch_stream(seed, "augment", *names))) as prepared:
            yield prepared

    def _picked(self, batches: tuple[Tensor, ...]) -> Iterator[Batch]:
        for rows in batches if self._targets.is_cpu else (rows.to(self._targets.device) for rows in batches):
            x = self._rows.index_select(0, rows)
            yield (x.permute(0, 3, 1, 2) if self._last else x), self._y.index_select(0, rows)

    def _prepared(self, batches: tuple[Tensor, ...], generator: torch.Generator) -> Iterator[Batch]:
        for rows, plain in zip(batches, batches_of(self._x, batches), strict=True):
            x = plain if self._augment is None else self._augment(plain, generator)
            yield self._layout.arrange(self._normalisation.apply(x)), self._y.index_select(0, rows)


@contextmanager
def _ahead(items: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """Let a thread make the items, a few ahead; its errors are raised here, and it ends with the block."""
    made: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=_AHEAD)
    ended = threading.Event()

    def hand(item: Batch | BaseException | None) -> bool:
        while not ended.is_set():
            try:
                made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not hand(item):
                    return
            hand(None)
        except BaseException as error:  # noqa: BLE001 (raised again where the items are taken)
            hand(error)

    def taken() -> Iterator[Batch]:
        while (item := made.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    thread = threading.Thread(target=work, name="weightsmith-feed", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        ended.set()
        thread.join()
