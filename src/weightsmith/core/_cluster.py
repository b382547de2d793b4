"""Run tasks on an existing Dask cluster: ``dask scheduler`` and ``dask worker`` on any machines.

Dask itself reruns the tasks of a dead worker elsewhere. Added here: an address without a scheduler is refused in
seconds, and so are workers whose package versions could round differently; small tasks are sent in batches of half a
second; the function, with the data it holds, is sent to every worker once; a worker that is silent for half a minute is
reported and its tasks go to others; a cluster that has lost all its workers raises an error.
"""

from __future__ import annotations

import asyncio
import functools
import math
import platform
import queue
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from weightsmith.core._processes import task_name
from weightsmith.core.errors import MissingExtra, UsageError, WorkerLost
from weightsmith.core.seeds import pinned_threads

__all__ = ["Cluster", "WorkerStalled"]

_CONNECT_SECONDS = 4.0
_BEAT_SECONDS = 2.0
_PATIENCE_SECONDS = 60.0  # how long a cluster may be without workers, as during a restart
_STALL_SECONDS = 30.0  # how long a worker may be silent: it sends a heartbeat about every second, even at work
_BATCH_SECONDS = 0.5
_AHEAD = 2  # batches per worker: it starts the second while the results of the first are sent
_ROUNDING = ("weightsmith", "torch", "numpy", "scipy", "numba")  # the packages results depend on

_alone = threading.Lock()


class WorkerStalled(UserWarning):
    """A worker of a cluster has been silent for too long, and its tasks went to others."""


class Cluster:
    """A connection to the scheduler at ``address``; refused in seconds if none answers."""

    def __init__(self, address: str) -> None:
        self.address, self.client = address, _connect(address)
        self._sent: tuple[Any, Any] = None, None
        try:
            _check_versions(address, self.client.run(_other_versions, _versions()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect; the scheduler drops tasks that no client waits for."""
        self._sent = None, None
        self.client.close()

    def completed(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Generator[tuple[int, Any]]:
        """Yield ``(index, function(task))`` as tasks finish; see :func:`weightsmith.core.parallel.completed`."""
        calls = _Calls(self, self._shared(function), tasks)
        try:
            yield from calls.completed()
        finally:
            calls.cancel()

    def _shared(self, function: Callable[[Any], Any]) -> Any:
        """The function as a task's result: sent once to each worker and recomputed if lost, unlike scattered data."""
        if self._sent[0] is not function:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                self._sent = function, self.client.submit(_same, function, pure=False)
        return self._sent[1]


@dataclass(frozen=True)
class _OpaqueTasks:
    """An opaque wrapper of tasks, because Dask searches tuples and strings for its own calls and keys."""

    tasks: tuple[Any, ...]


def _same(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def _call(
    function: Callable[[Any], Any], parcel: _OpaqueTasks, versions: Mapping[str, str]
) -> tuple[_OpaqueTasks, float]:
    """On the worker: the results of a batch up to the first task that raises, and the seconds it took.

    If the first task raises, the call raises. A process runs one task at a time, since its threads share one limit.
    """
    _check_versions("this cluster", {platform.node(): _other_versions(versions)})  # a worker that joined later
    with _alone, pinned_threads():
        start, results = time.perf_counter(), []
        for task in parcel.tasks:
            try:
                results.append(function(task))
            except Exception:
                if not results:
                    raise
                break
        return _OpaqueTasks(tuple(results)), time.perf_counter() - start


class _Calls:
    """The waiting and running calls, the last heartbeat of each worker, and how long a task takes."""

    def __init__(self, cluster: Cluster, function: Any, tasks: Sequence[Any]) -> None:
        self._client, self._address, self._tasks = cluster.client, cluster.address, tasks
        self._function, self._versions = function, _versions()
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting = deque(range(len(tasks)))
        self._alone: set[int] = set()  # from a batch that killed a worker or raised: sent alone from now on
        self._under_way: dict[Any, list[int]] = {}
        self._seconds, self._done = 0.0, 0
        self._checked = self._workers_seen = time.monotonic()
        self._heard: dict[str, tuple[float, float]] = {}
        self._workers = 1
        self._check_workers()

    def completed(self) -> Iterator[tuple[int, Any]]:
        """Yield ``(index, result)`` as calls end, then raise an error that names the calls that no worker survived."""
        from distributed import KilledWorker

        lost: list[int] = []
        while self._waiting or self._under_way:
            self._submit()
            future = self._next_ended()
            try:
                parcel, seconds = self._result(future)
            except KilledWorker:
                batch = self._under_way.pop(future)
                lost += batch if len(batch) == 1 else []
                self._again(batch if len(batch) > 1 else [])
            except CancelledError as error:
                raise WorkerLost(
                    f"the Dask scheduler at {self._address} has gone, with {self._open} task(s) open; a call with a "
                    "folder keeps what is done: repeat it when the scheduler is back"
                ) from error
            else:
                batch, results = self._under_way.pop(future), parcel.tasks
                self._seconds, self._done = self._seconds + seconds, self._done + len(results)
                self._again(batch[len(results) :])
                self._submit()  # before yielding results: the caller may be slow
                yield from zip(batch, results, strict=False)
        if lost:
            names = ", ".join(task_name(index, self._tasks[index]) for index in sorted(lost))
            raise WorkerLost(
                f"workers of {self._address} died each time they ran {names} (out of memory, or a crash in native code)"
            )

    def cancel(self) -> None:
        """Cancel the running calls."""
        if self._under_way:
            self._client.cancel(list(self._under_way), force=True)

    @property
    def _open(self) -> int:
        return len(self._waiting) + sum(map(len, self._under_way.values()))

    def _again(self, indices: Sequence[int]) -> None:
        self._alone.update(indices)
        self._waiting.extendleft(reversed(indices))

    def _submit(self) -> None:
        while self._waiting and len(self._under_way) < _AHEAD * self._workers:
            batch = [self._waiting.popleft()]
            while len(batch) < self._size and self._waiting and self._alone.isdisjoint({batch[0], self._waiting[0]}):
                batch.append(self._waiting.popleft())
            parcel = _OpaqueTasks(tuple(self._tasks[index] for index in batch))
            future = self._client.submit(_call, self._function, parcel, self._versions, pure=False)
            self._under_way[future] = batch
            future.add_done_callback(self._ended.put)

    @property
    def _size(self) -> int:
        """The number of tasks in a batch: half a second of work, but few enough to leave work for every worker."""
        if not self._done:
            return 1
        wanted = _BATCH_SECONDS * self._done / max(self._seconds, 1e-9)
        return max(1, min(int(wanted), math.ceil(self._open / (_AHEAD * self._workers))))

    def _next_ended(self) -> Any:
        while True:
            if time.monotonic() - self._checked > _BEAT_SECONDS:
                self._check_workers()
                self._submit()
            try:
                return self._ended.get(timeout=_BEAT_SECONDS)
            except queue.Empty:
                pass

    def _result(self, future: Any) -> Any:
        """The result, or raise what the function raised; if the worker that holds it dies, Dask computes it again."""
        while True:
            try:
                return future.result(timeout=_BEAT_SECONDS)
            except TimeoutError:
                if future.status == "error":  # raised by the function
                    raise
                self._check_workers()

    def _check_workers(self) -> None:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        now = self._checked = time.monotonic()
        for name, worker in workers.items():
            if self._heard.get(name, (None,))[0] != worker["last_seen"]:
                self._heard[name] = worker["last_seen"], now
        silent = [name for name in workers if now - self._heard[name][1] > _STALL_SECONDS]
        for name in silent:
            warnings.warn(
                f"the worker {name} of {self._address} has not answered for {_STALL_SECONDS:.0f} s: its tasks go to "
                "other workers",
                WorkerStalled,
                stacklevel=2,
            )
            self._client.run_on_scheduler(_dismiss, name)
        self._workers = max(1, len(workers) - len(silent))
        if len(workers) > len(silent):
            self._workers_seen = now
        elif now - self._workers_seen > _PATIENCE_SECONDS:
            raise WorkerLost(
                f"the cluster {self._address} has had no workers for {_PATIENCE_SECONDS:.0f} s, with "
                f"{self._open} task(s) open; start some with: dask worker {self._address}"
            )


async def _dismiss(name: str, dask_scheduler: Any) -> None:
    """On the scheduler: remove a worker, so that its tasks run elsewhere."""
    await dask_scheduler.remove_worker(name, stimulus_id="weightsmith-stalled", expected=True)


@functools.cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _ROUNDING}}


def _other_versions(expected: Mapping[str, str]) -> dict[str, str]:
    """On a worker: the versions that differ from those of the process that sends it work."""
    return {name: found for name, found in _versions().items() if found != expected[name]}


def _check_versions(address: str, others: Mapping[str, Mapping[str, str]]) -> None:
    for worker, found in others.items():
        if found:
            ours = ", ".join(f"{name} {_versions()[name]}" for name in found)
            theirs = ", ".join(f"{name} {version}" for name, version in found.items())
            raise UsageError(
                f"the worker {worker} of {address} has {theirs}, but this process has {ours}: results could differ; "
                "install the same versions on both"
            )


def _connect(address: str) -> Any:
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
    # MemoryError: a server with another protocol, whose first bytes were read as a huge length.
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
