"""One map over tasks: in this process, on worker processes, or on a Dask cluster, with the same bytes each time.

    parallel_map(function, tasks)                                      one after another, here
    parallel_map(function, tasks, workers=4)                           on four processes of this machine
    parallel_map(function, tasks, cluster="tcp://127.0.0.1:8786")      on the workers of a Dask scheduler

Each task runs with one thread wherever it runs (results of torch differ between thread counts), and the function must
be pure: what it draws comes from a stream of its own (:mod:`weightsmith.core.seeds`), what it reads from its task.
"""

from __future__ import annotations

import asyncio
import functools
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from weightsmith.core._processes import in_processes, task_name
from weightsmith.core.errors import MissingExtra, OptionError, UsageError, WorkerLost
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
        return _on_cluster(pinned, items, cluster)
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


# Run tasks on an existing Dask cluster: ``dask scheduler`` and ``dask worker`` on any machines.
#
# Dask itself runs the tasks of a dead worker again elsewhere. This module adds two timeouts: an address where
# nobody answers is refused in seconds, and a cluster that has lost all its workers ends the wait.


_CONNECT_SECONDS = 4.0
_BEAT_SECONDS = 2.0
_PATIENCE_SECONDS = 60.0  # how long a cluster may be without workers, as when it is being restarted

_alone = threading.Lock()


def _on_cluster(run: Callable[[Any], Any], tasks: Sequence[Any], address: str) -> Generator[tuple[int, Any]]:
    """Yield ``(index, run(task))`` as tasks finish; see :func:`weightsmith.core.parallel.completed`."""
    client = _connect(address)
    try:
        yield from _Calls(client, address, run, tasks).completed()
    finally:
        # The scheduler drops tasks that no client waits for any more.
        client.close()


@dataclass(frozen=True)
class _OpaqueTask:
    """An opaque wrapper of a task: Dask would search tuples and strings for calls and keys of its own."""

    task: Any


def _call(run: Callable[[Any], Any], parcel: _OpaqueTask) -> Any:
    """On the worker: one task at a time in a process, since the thread count belongs to the process."""
    with _alone:
        return run(parcel.task)


def _same(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """On a worker: the function as a task result, sent once and, unlike scattered data, recomputed if lost."""
    return run


class _Calls:
    """The calls under way, and how long the cluster has been without workers."""

    def __init__(self, client: Any, address: str, run: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        self._client, self._address, self._tasks = client, address, tasks
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._workers_seen = time.monotonic()
        shared = client.submit(_same, run, pure=False)
        self._index = {client.submit(_call, shared, _OpaqueTask(task), pure=False): i for i, task in enumerate(tasks)}
        for future in self._index:
            future.add_done_callback(self._ended.put)

    def completed(self) -> Iterator[tuple[int, Any]]:
        """Yield ``(index, result)`` as calls end, then raise an error that names the calls that no worker survived."""
        from distributed import KilledWorker

        lost: list[int] = []
        while self._index:
            future = self._next_ended()
            try:
                result = self._result(future)
            except KilledWorker:
                lost.append(self._index.pop(future))
            except CancelledError as error:
                raise WorkerLost(
                    f"the Dask scheduler at {self._address} has gone, with {len(self._index)} task(s) open"
                ) from error
            else:
                yield self._index.pop(future), result
        if lost:
            names = ", ".join(task_name(index, self._tasks[index]) for index in sorted(lost))
            raise WorkerLost(
                f"workers of {self._address} died each time they had {names} (out of memory, or a crash in native code)"
            )

    def _next_ended(self) -> Any:
        while True:
            try:
                return self._ended.get(timeout=_BEAT_SECONDS)
            except queue.Empty:
                self._check_workers()

    def _result(self, future: Any) -> Any:
        """The result, or raise what the function raised; if the worker that holds it dies, Dask computes it again."""
        while True:
            try:
                return future.result(timeout=_BEAT_SECONDS)
            except TimeoutError:
                if future.status == "error":  # the function's own
                    raise
                self._check_workers()

    def _check_workers(self) -> None:
        if self._client.scheduler_info()["workers"]:
            self._workers_seen = time.monotonic()
        elif time.monotonic() - self._workers_seen > _PATIENCE_SECONDS:
            raise WorkerLost(
                f"the cluster {self._address} has had no workers for {_PATIENCE_SECONDS:.0f} s, with "
                f"{len(self._index)} task(s) open; start some with: dask worker {self._address}"
            )


def _connect(address: str) -> Any:
    """A client of the scheduler at ``address``; refused in seconds if none answers."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtra("running on a Dask cluster", "cluster") from error
    _check_address(address)
    dask: Any = distributed  # its functions are not typed
    try:
        # A thread, because this one may run an event loop already, as it does in a notebook.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _check_connection(address)).result()
        return dask.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    # A server that speaks another protocol: its first bytes are taken for a length, which no memory can hold.
    except (OSError, MemoryError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); start one with: dask scheduler"
        ) from error


async def _check_connection(address: str) -> None:
    """Test the connection with a timeout: a Dask client waits for ever for a server that listens and never answers."""
    import distributed.comm

    dask: Any = distributed  # its functions are not typed
    arguments = dask.Security().get_connection_args("client")
    answer = dask.comm.connect(address, timeout=_CONNECT_SECONDS, **arguments)
    greeting = await asyncio.wait_for(answer, _CONNECT_SECONDS)
    await greeting.close()


def _check_address(address: str) -> None:
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        complete = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port
    except ValueError:  # a port that is not a number
        complete = None
    if not complete:
        raise UsageError(f"cluster must be an address such as tcp://127.0.0.1:8786, not {address!r}")
