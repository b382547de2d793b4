"""One map over tasks: in this process, on worker processes, or on a Dask cluster, with the same bytes each time.

    parallel_map(function, tasks)                                      one after another, here
    parallel_map(function, tasks, workers=4)                           on four processes of this machine
    parallel_map(function, tasks, cluster="tcp://127.0.0.1:8786")      on the workers of a Dask scheduler
    with spread(workers=4): ...                                        the same for all maps inside without workers=

Each task runs with one thread wherever it runs (results of torch differ between thread counts), and the function must
be pure: its random numbers come from its own stream (:mod:`weightsmith.core.seeds`), its inputs from its task.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from weightsmith.core._processes import in_processes
from weightsmith.core.errors import OptionError
from weightsmith.core.seeds import pinned_threads

if TYPE_CHECKING:
    from weightsmith.core._cluster import Cluster

__all__ = ["completed", "is_spread", "parallel_map", "spread"]


Task = TypeVar("Task")
Result = TypeVar("Result")


class _Workforce:
    """Where tasks run; a cluster is connected on first use."""

    def __init__(self, workers: int, cluster: str | None) -> None:
        _check_count("workers", workers)
        self.workers, self.address = workers, cluster
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The connection."""
        if self._cluster is None:
            from weightsmith.core._cluster import Cluster

            assert self.address is not None
            self._cluster = Cluster(self.address)
        return self._cluster

    def close(self) -> None:
        """Disconnect from the cluster; worker processes are kept for the next call."""
        if self._cluster is not None:
            self._cluster.close()


@contextlib.contextmanager
def spread(workers: int = 1, cluster: str | None = None) -> Iterator[None]:
    """Run the maps inside the block on these workers, unless they set their own; ``spread()`` changes nothing."""
    if workers == 1 and cluster is None:
        yield
        return
    force = _Workforce(workers, cluster)
    token = _around.set(force)
    try:
        yield
    finally:
        _around.reset(token)
        force.close()


def is_spread() -> bool:
    """Whether maps run on workers here, so that splitting work into tasks is worthwhile."""
    return _around.get() is not None


def parallel_map(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int = 1,
    cluster: str | None = None,
    attempts: int = 3,
) -> list[Result]:
    """``[function(task) for task in tasks]``, computed by :func:`completed`, in the order of the tasks.

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

    With ``workers=1`` tasks run here, or on the workers of an enclosing :func:`spread`. With more, each worker is a
    process, and function, tasks and results must pickle (closures and lambdas do). With ``cluster``, the address of a
    Dask scheduler, the cluster determines ``workers`` and ``attempts``; start its workers with ``--nthreads 1``, since
    a process runs one task at a time. The function, with all the data it holds, is sent to a worker once, tasks one by
    one (to a cluster in batches): large data that all tasks share should be held by the function.

    A killed worker is replaced and its task, no other, runs again. A task that killed ``attempts`` workers is given up,
    the others are finished, and then a ``WorkerLost`` error names it. The first exception of the function is raised
    here and stops everything else, as closing the iterator does.
    """
    _check_count("attempts", attempts)
    items = list(tasks)
    force = _Workforce(workers, cluster)
    around = _around.get() if workers == 1 and cluster is None else None
    force = force if around is None else around
    if force.address is not None and items:
        return _on_cluster(function, items, force, leave=around is None)
    if force.workers > 1:
        return in_processes(function, items, min(force.workers, len(items)), attempts)
    return _here(functools.partial(_pinned, function), items)


def _check_count(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise OptionError(f"{name} must be a whole number ≥ 1, not {number!r}")


_around: ContextVar[_Workforce | None] = ContextVar("workforce", default=None)


def _here(run: Callable[[Task], Result], tasks: Sequence[Task]) -> Generator[tuple[int, Result]]:
    for index, task in enumerate(tasks):
        yield index, run(task)


def _pinned(function: Callable[[Task], Result], task: Task) -> Result:
    with pinned_threads():
        return function(task)


def _on_cluster(
    function: Callable[[Any], Any], tasks: Sequence[Any], force: _Workforce, *, leave: bool
) -> Generator[tuple[int, Any]]:
    try:
        yield from force.cluster.completed(function, tasks)
    finally:
        if leave:
            force.close()
