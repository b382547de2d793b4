"""A torch Dataset as rows that are read when needed, by worker processes (its code need not be safe for threads).

A row has the same values each time: torch's, NumPy's and Python's global generators are seeded by its number before it
is read, so that a random transform draws the same for the row, whichever process reads it.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from weightsmith.core.errors import WeightsmithError
from weightsmith.data.streams.rows import Rows, worker_count

__all__ = ["DatasetRows", "Pair", "fixed_draws"]

Pair = Callable[[int, Any], tuple[Tensor, Tensor]]
"""Converts a row number and its item to input and label, each with a first dimension of one, or refuses the item."""


@dataclass(frozen=True, eq=False)
class DatasetRows:
    """The inputs of a map-style data set; ``pair`` checks an item, ``digest`` was taken while its labels were read."""

    dataset: Any
    pair: Pair
    shape: tuple[int, ...]
    dtype: torch.dtype
    workers: int = 0
    digest: str = ""

    def read(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """The inputs of each batch."""
        return (x for x, _ in self.pairs(batches))

    def pairs(self, batches: Iterable[Rows]) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels of each batch; a single batch is read here, more by worker processes."""
        waiting = iter(batches)
        first = list(itertools.islice(waiting, 2))
        if len(first) < 2:
            for rows in first:
                with fixed_draws():
                    yield _stacked([self.item(int(row)) for row in rows])
            return
        loader: DataLoader[Any] = DataLoader(
            _Items(self),
            batch_sampler=_Batches(itertools.chain(first, waiting)),
            num_workers=self.workers or worker_count(),
            collate_fn=_stacked_or_error,
            generator=torch.Generator().manual_seed(0),  # otherwise each pass draws from the global generator
        )
        for made in loader:
            if isinstance(made, WeightsmithError):
                raise made
            yield made

    def item(self, row: int) -> tuple[Tensor, Tensor]:
        """Input and label of a row, its draws seeded by its number."""
        _seed_all(row)
        return self.pair(row, self.dataset[row])

    def identity(self) -> str:
        """The digest of all values."""
        return self.digest


class _Batches:
    """Lists of row numbers, made on demand."""

    def __init__(self, batches: Iterable[Rows]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return (rows.tolist() for rows in self._batches)


class _Items(Dataset[Any]):
    """The checked items; an error is returned, not raised, because a worker would wrap it into its traceback."""

    def __init__(self, rows: DatasetRows) -> None:
        self._rows = rows

    def __getitem__(self, row: int) -> Any:
        try:
            return self._rows.item(row)
        except WeightsmithError as error:
            return error


def _stacked_or_error(items: list[Any]) -> Any:
    wrong = next((item for item in items if isinstance(item, WeightsmithError)), None)
    return _stacked(items) if wrong is None else wrong


def _stacked(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.cat([x for x, _ in items]), torch.cat([y for _, y in items])


@contextlib.contextmanager
def fixed_draws() -> Iterator[None]:
    """Seed the global generators for random transforms while data are read, and restore their state."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng(devices=[]):
            _seed_all(0)
            yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)


def _seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # not torch.manual_seed: it would seed other devices for good
    random.seed(seed)
    np.random.seed(seed % (1 << 32))  # the generator that transforms draw from
