"""One map over tasks: in this process, on worker processes, or on a Dask cluster, with the same bytes each time.

    parallel_map(function, tasks)                                      one after another, here
    parallel_map(function, tasks, workers=4)                           on four processes of this machine
    parallel_map(function, tasks, cluster="tcp://127.0.0.1:8786")      on the workers of a Dask scheduler

Each task runs with one thread wherever it runs (results of torch differ between thread counts), and the function must
be pure: what it draws comes from a stream of its own (:mod:`weightsmith.core.seeds`), what it reads from its task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from weightsmith.core._cluster import on_cluster
from weightsmith.core._processes import in_processes
from weightsmith.core.errors import OptionError
from weightsmith.core.seeds import pinned_threads

__all__ = ["completed", "parallel_map"]

Task = TypeVar("Task")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int = 1,
    cluster: str | None = None,
    attempts: int = 3,
) -> list[Result]:
    """``[function(task) for task in tasks]``, computed as :func:`completed` says, in the order of the tasks.

    >>> parallel_map(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    items = list(tasks)
    results: dict[int, Result] = dict(completed(function, items, workers=workers, cluster=cluster, attempts=attempts))
    return [results[index] for index in range(len(items))]


def completed(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int = 1,
    cluster: str | None = None,
    attempts: int = 3,
) -> Generator[tuple[int, Result]]:
    """Yield ``(index, function(task))`` as the tasks finish.

    With ``workers=1`` tasks run here. With more, each worker is a process, and function, tasks and results must pickle
    (closures and lambdas do). With ``cluster``, the address of a Dask scheduler, ``workers`` and ``attempts`` are the
    cluster's own affair; start its workers with ``--nthreads 1``, since a process runs one task at a time.

    A worker that is killed is replaced and its task runs again; no other is repeated. A task that ended ``attempts``
    workers is given up, the others are finished, and then a ``WorkerLost`` error names it. What the function raises is
    raised here, the first by time, and everything else is stopped, as it is when the iterator is closed.
    """
    _check_count("workers", workers)
    _check_count("attempts", attempts)
    items = list(tasks)
    pinned = functools.partial(_pinned, function)
    if cluster is not None and items:
        return on_cluster(pinned, items, cluster)
    if workers > 1:
        return in_processes(function, items, min(workers, len(items)), attempts)
    return _here(pinned, items)


def _check_count(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise OptionError(f"{name} must be a whole number ≥ 1, not {number!r}")


def _here(run: Callable[[Task], Result], tasks: Sequence[Task]) -> Generator[tuple[int, Result]]:
    for index, task in enumerate(tasks):
        yield index, run(task)


def _pinned(function: Callable[[Task], Result], task: Task) -> Result:
    with pinned_threads():
        return function(task)
