"""Random streams with names, and threads with a fixed count.

One seed feeds every part of a run through named streams, so that adding a draw in one part never shifts the
numbers drawn in another, and so that a task gets the same stream whichever worker runs it:

    stream(seed, "init")            numpy.random.Generator
    torch_stream(seed, "dropout")   torch.Generator

The stream is seeded by SHA-256 of the seed and the names. Global random state is neither read nor changed.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from weightsmith.core.errors import OptionError

if TYPE_CHECKING:
    import torch

__all__ = ["pinned_threads", "read_seeds", "stream", "subseed", "torch_stream"]


_MOST_THREADS = 1024  # torch crashes when the system cannot start more threads


def read_seeds(given: Iterable[int] | str) -> tuple[int, ...]:
    """Seeds from ``0,1,2`` or ``0-2``. A single number other than 0 is refused: it could be meant as a count.

    >>> read_seeds("0,1,2"), read_seeds("0-2"), read_seeds("7-7"), read_seeds(range(2))
    ((0, 1, 2), (0, 1, 2), (7,), (0, 1))
    """
    if not isinstance(given, str):
        return tuple(given)
    first, dash, last = (part.strip() for part in given.partition("-"))
    if dash and first.isdigit() and last.isdigit() and int(first) <= int(last):
        return tuple(range(int(first), int(last) + 1))
    if first.isdigit() and not dash and int(first):
        count = int(first)
        raise OptionError(
            f"seeds {count} could be one seed or a count: write 0-{count - 1}, or {count}-{count} for one"
        )
    numbers = [part.strip() for part in given.split(",")]
    if dash or not all(number.isdigit() for number in numbers):
        raise OptionError(f"seeds are a list such as 0,1,2, or 0-9 for ten, not {given!r}")
    return tuple(map(int, numbers))


def subseed(seed: int, *names: str | int) -> int:
    """The 63-bit seed of the stream ``names`` under ``seed``.

    >>> subseed(0, "init") == subseed(0, "init"), subseed(0, "init") == subseed(0, "order")
    (True, False)
    """
    try:
        whole = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        whole = -1
    if whole < 0:
        raise OptionError(f"seed must be a whole number ≥ 0, not {seed!r}")
    # Kind and length are part of the text, so that 1 and "1", or "ab" and "a", "b", name different streams.
    parts = [f"str{len(name)}:{name}" if isinstance(name, str) else f"int:{operator.index(name)}" for name in names]
    text = "\0".join([str(whole), *parts])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator of its own for the stream ``names`` under ``seed``."""
    return np.random.Generator(np.random.PCG64(subseed(seed, *names)))


def torch_stream(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    """A torch generator of its own for the stream ``names`` under ``seed``."""
    import torch

    return torch.Generator(device=device).manual_seed(subseed(seed, *names))


@contextmanager
def pinned_threads(count: int = 1) -> Iterator[None]:
    """Run the block with ``count`` threads in torch and in the BLAS libraries; restore the old counts after it.

    Two reasons: results of eigenvalue and convolution routines differ in the last bits between thread counts,
    and two threads on a busy two-core machine were measured 13 to 19 times slower than one.
    """
    import torch

    if not 1 <= count <= _MOST_THREADS:
        raise OptionError(f"threads must be ≥ 1 and ≤ {_MOST_THREADS}, not {count}")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _libraries(len(sys.modules)).limit(limits=count):
            yield
    finally:
        torch.set_num_threads(before)


@functools.lru_cache(maxsize=1)
def _libraries(_modules: int) -> Any:
    """The BLAS and OpenMP libraries in this process; looked for again (a millisecond) only after new imports."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
