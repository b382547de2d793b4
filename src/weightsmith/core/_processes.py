"""Run tasks on worker processes of this machine and survive the death of a worker.

Each worker is a one-process executor of loky, the pool beneath joblib. In the shared pool of ``joblib.Parallel``, one
dead worker ends all the others and their tasks. With one executor each, a death costs only the task that was running,
which is named; the other workers and all finished results are not affected.

A new process must import torch, which takes seconds, so workers are kept for the next call for a minute, unless the
folder, the environment or the import path of this process has changed since they were started.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import reprlib
import signal
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from weightsmith.core.errors import UsageError, WorkerLost
from weightsmith.core.seeds import pinned_threads

__all__ = ["in_processes", "task_name"]

# Thread pools that libraries open on import; inside a task `pinned_threads` sets their size.
_IDLE_SECONDS = 60.0
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def in_processes(
    run: Callable[[Any], Any], tasks: Sequence[Any], workers: int, attempts: int
) -> Generator[tuple[int, Any]]:
    """Yield ``(index, run(task))`` as tasks finish; see :func:`weightsmith.core.parallel.completed`."""
    pool = _Pool(run, tasks, workers, attempts)
    finished = False
    try:
        ready: list[tuple[int, Any]] = []
        while not pool.is_done:
            pool.start_waiting()  # before yielding results: the caller may be slow
            yield from ready
            ready = pool.next_ready()
        yield from ready
        pool.raise_if_failed()
        finished = True
    finally:
        pool.stop(kill=not finished)


def task_name(index: int, task: Any) -> str:
    """The name of a task in messages: its number and a short repr, on one line."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return f"task {index} ({' '.join(short.repr(task).split())})"


def _process_context() -> tuple[Any, ...]:
    """The state that a process inherits from its parent at start: folder, environment, import path."""
    return os.getpid(), Path.cwd(), dict(os.environ), tuple(sys.path)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C while processes are started: they inherit the mask, so that only this process is interrupted.

    A terminal sends Ctrl-C to all processes; a worker would print a traceback, or die and count as lost.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """One process; it is started by its first task, and ends on request, when idle for long, or with its parent."""

    def __init__(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self.context = _process_context()

        # Nothing is ever sent: the pipe only closes, and the worker notices, when this process ends for any reason.
        theirs, self._ours = multiprocessing.Pipe(duplex=False)
        self._theirs = theirs
        self._future: Future[Any] | None = None
        self._knows: str | None = None
        with _interrupts_held():
            self._executor = ProcessPoolExecutor(
                max_workers=1, timeout=_IDLE_SECONDS, initializer=_exit_with_parent, initargs=(theirs,), env=_ONE_THREAD
            )

    def submit(self, function: _Packed, task: Any) -> Future[Any]:
        """Start the function on the task; raises loky's BrokenProcessPool if the process died while idle."""
        known = function.name == self._knows
        with _interrupts_held():
            future: Future[Any] = self._executor.submit(
                _in_worker, function.name, None if known else function.content, task
            )
        self._future, self._knows = future, function.name
        return future

    def forget(self) -> None:
        """The process has lost its function: send it again with the next task."""
        self._knows = None

    def stop(self, *, kill: bool) -> None:
        """End the process: after its work is done, or now and without waiting for it."""
        if kill:
            self._settle()
        self._executor.shutdown(wait=not kill, kill_workers=kill)
        self._ours.close()
        self._theirs.close()

    def _settle(self) -> None:
        """Wait until loky has passed the last task to the process; if it is killed earlier, loky prints a traceback."""
        end = time.monotonic() + 1.0
        while self._future is not None and not (self._future.running() or self._future.done()):
            if time.monotonic() > end:
                return
            time.sleep(0.001)


class _IdleWorkers:
    """Idle workers between calls."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()

    def hire(self) -> _Worker:
        """A worker with the current folder, environment and import path: a kept one, or a new one."""
        now = _process_context()
        while True:
            with self._lock:
                worker = self._workers.pop() if self._workers else None
            if worker is None:
                return _Worker()
            if worker.context == now:
                return worker
            if worker.context[0] == now[0]:  # after a fork they belong to the parent
                worker.stop(kill=False)

    def keep(self, worker: _Worker) -> None:
        """Keep a worker for the next call; at most as many as there are processors."""
        with self._lock:
            room = len(self._workers) < (os.cpu_count() or 1)
            if room:
                self._workers.append(worker)
        if not room:
            worker.stop(kill=False)


_spare = _IdleWorkers()


class _Packed:
    """A pickled function with all the data it holds, to be sent once to each worker."""

    _last: _Packed | None = None

    def __init__(self, function: Callable[[Any], Any]) -> None:
        from joblib.externals.loky.backend.reduction import dumps

        self.function, self.name = function, uuid.uuid4().hex
        try:
            self.content = bytes(dumps(function))
        except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as error:
            raise _unpicklable("the function", error) from error

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> _Packed:
        """The packed function, reused if the last call had the same function, as in the generations of a search."""
        if cls._last is None or cls._last.function is not function:
            cls._last = cls(function)
        return cls._last


class _Forgotten:
    """The answer of a process that replaced one that timed out while idle: it needs the function again."""


_received: dict[str, Callable[[Any], Any]] = {}


def _in_worker(name: str, content: bytes | None, task: Any) -> Any:
    """On the worker: limit torch to one thread if it is imported already."""
    if content is not None:
        _received.clear()
        _received[name] = pickle.loads(content)  # noqa: S301 (from the process that started this one)
    if name not in _received:
        return _Forgotten()
    function = _received[name]
    if "torch" not in sys.modules:
        return function(task)
    with pinned_threads():
        return function(task)


class _Pool:
    """The state of all tasks (waiting, running, failed attempts) and the first error."""

    def __init__(self, run: Callable[[Any], Any], tasks: Sequence[Any], workers: int, attempts: int) -> None:
        self._run, self._tasks, self._attempts = _Packed.of(run), tasks, attempts
        self._waiting = deque(range(len(tasks)))
        self._idle = [_spare.hire() for _ in range(workers)]
        self._running: dict[Future[Any], tuple[int, _Worker]] = {}
        self._deaths: Counter[int] = Counter()
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Nothing waits or runs, or a task has raised."""
        return self._error is not None or not (self._waiting or self._running)

    def start_waiting(self) -> None:
        """Give each idle worker a task."""
        from joblib.externals.loky import BrokenProcessPool

        while self._waiting and self._idle:
            worker = self._idle.pop()
            try:
                future = worker.submit(self._run, self._tasks[self._waiting[0]])
            except BrokenProcessPool:  # killed while idle: no task is to blame
                self._replace(worker)
                continue
            self._running[future] = self._waiting.popleft(), worker

    def next_ready(self) -> list[tuple[int, Any]]:
        """Wait until at least one task ends; return the results of those that succeeded."""
        from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

        ready = []
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            index, worker = self._running.pop(future)
            match future.exception():
                case None if isinstance(future.result(), _Forgotten):
                    worker.forget()
                    self._waiting.appendleft(index)
                    self._idle.append(worker)
                case None:
                    ready.append((index, future.result()))
                    self._idle.append(worker)
                case TerminatedWorkerError():
                    self._replace(worker)
                    self._deaths[index] += 1
                    if self._deaths[index] < self._attempts:
                        self._waiting.append(index)  # last, when there may be more memory
                case BrokenProcessPool() as error:
                    self._replace(worker)
                    self._error = self._error or _unpicklable(task_name(index, self._tasks[index]), error)
                case error:
                    self._idle.append(worker)
                    self._error = self._error or error
        return ready

    def raise_if_failed(self) -> None:
        """Raise the first error of a task, else :class:`WorkerLost` for the tasks that no worker survived."""
        if self._error is not None:
            raise self._error
        lost = [index for index, deaths in sorted(self._deaths.items()) if deaths >= self._attempts]
        if lost:
            names = ", ".join(task_name(index, self._tasks[index]) for index in lost)
            raise WorkerLost(
                f"{names} ended the worker process in each of {self._attempts} attempt(s) (out of memory, or a crash "
                "in native code); try fewer workers or a smaller task"
            )

    def stop(self, *, kill: bool) -> None:
        """Release all workers: keep them for the next call, or end them now."""
        for worker in [*self._idle, *(worker for _, worker in self._running.values())]:
            if kill:
                worker.stop(kill=True)
            else:
                _spare.keep(worker)

    def _replace(self, worker: _Worker) -> None:
        worker.stop(kill=True)
        self._idle.append(_Worker())


def _unpicklable(name: str, error: BaseException) -> UsageError:
    lines = str(error.__cause__ or error).replace('"""', "").split("\n")
    reason = next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")
    refusal = UsageError(f"{name} or its result cannot be sent between processes ({reason}); try workers=1")
    refusal.__cause__ = error
    return refusal


def _exit_with_parent(pipe: Connection) -> None:
    """Initialiser of each worker: exit at once when the parent is killed instead of waiting for work for ever."""

    def watch() -> None:
        try:
            pipe.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, name="leave-with-parent", daemon=True).start()
