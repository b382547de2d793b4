from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from weightsmith.core import _cluster, _processes
from weightsmith.core.errors import OptionError, UsageError, WorkerLost
from weightsmith.core.parallel import completed, parallel_map
from weightsmith.core.seeds import stream

# Functions for workers are made inside functions: they then travel by value, and no worker has to import this file.


def numerical():
    """A task whose bytes depend on the number of threads, and on nothing but its own stream."""

    def work(index):
        import torch

        from weightsmith.core.seeds import stream, torch_stream

        generator = torch_stream(7, "matrix", index)
        matrix = torch.randn(160, 160, generator=generator)
        images, kernels = torch.randn(2, 8, 20, 20, generator=generator), torch.randn(8, 8, 3, 3, generator=generator)
        parts = (torch.linalg.eigvalsh(matrix @ matrix.T), torch.nn.functional.conv2d(images, kernels))
        drawn = stream(7, "draw", index).normal(size=3).tobytes()
        return b"".join(part.numpy().tobytes() for part in parts) + drawn, torch.get_num_threads()

    return work


def deadly(folder, poison, deaths):
    """A task that notes each run in ``folder``; ``poison`` kills its worker in its first ``deaths`` runs."""
    folder = str(folder)

    def work(index):
        import os
        import signal
        from pathlib import Path

        runs = len(list(Path(folder).glob(f"{index}-*")))
        Path(folder, f"{index}-{runs}").touch()
        if index == poison and runs < deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return index * index

    return work


def runs_of(folder, index):
    return len(list(Path(folder).glob(f"{index}-*")))


# Here


def test_one_worker_maps_in_this_process_in_order():
    seen = []
    results = parallel_map(lambda task: (seen.append(task), os.getpid())[1], "abc")
    assert seen == ["a", "b", "c"]
    assert results == [os.getpid()] * 3


def test_a_task_runs_with_one_thread_and_the_count_is_restored():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        counts = []
        for _, inside in completed(lambda _: torch.get_num_threads(), range(2)):
            counts.append((inside, torch.get_num_threads()))  # between tasks the caller has his own count
        assert counts == [(1, 3), (1, 3)]
    finally:
        torch.set_num_threads(before)


def test_results_come_one_by_one():
    started = []
    steps = completed(started.append, range(3))
    assert started == []
    next(steps)
    assert started == [0]


@pytest.mark.parametrize("workers", [1, 4])
def test_no_tasks_no_results(workers):
    assert parallel_map(abs, [], workers=workers) == []


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2", None])
def test_counts_must_be_whole_and_positive(number):
    with pytest.raises(OptionError, match="workers must be a whole number ≥ 1"):
        completed(abs, [1], workers=number)
    with pytest.raises(OptionError, match="attempts must be a whole number ≥ 1"):
        parallel_map(abs, [1], attempts=number)


def test_an_exception_here_is_unchanged():
    error = KeyError("mine")

    def work(task):
        if task:
            raise error

    with pytest.raises(KeyError) as caught:
        parallel_map(work, [0, 1])
    assert caught.value is error


# Processes


@pytest.mark.slow
def test_the_same_bytes_from_one_two_and_four_workers():
    one = parallel_map(numerical(), range(6))
    assert len({result for result, _ in one}) == 6
    assert {threads for _, threads in one} == {1}
    for workers in (2, 4):
        assert parallel_map(numerical(), range(6), workers=workers) == one


@pytest.mark.slow
def test_only_the_task_of_a_killed_worker_runs_again(tmp_path):
    results = parallel_map(deadly(tmp_path, poison=3, deaths=1), range(12), workers=2)
    assert results == [index * index for index in range(12)]
    assert [runs_of(tmp_path, index) for index in range(12)] == [1, 1, 1, 2] + [1] * 8


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_named_after_the_others_are_done(tmp_path):
    delivered = []
    with pytest.raises(WorkerLost, match=r"^task 1 \(1\) ended the worker process in each of 2 attempt") as caught:
        delivered.extend(completed(deadly(tmp_path, poison=1, deaths=99), range(6), workers=2, attempts=2))
    assert "\n" not in str(caught.value)
    assert sorted(delivered) == [(index, index * index) for index in (0, 2, 3, 4, 5)]
    assert runs_of(tmp_path, 1) == 2
    assert [runs_of(tmp_path, index) for index in (0, 2, 3, 4, 5)] == [1] * 5


def test_an_exception_in_a_worker_is_unchanged_and_stops_the_rest(tmp_path):
    folder = str(tmp_path)

    def work(task):
        import time
        from pathlib import Path

        Path(folder, str(task)).touch()
        while task == 1:
            if Path(folder, "go").exists():
                raise LookupError("no", 7)
            time.sleep(0.01)
        time.sleep(60 if task else 0)
        return task

    steps = completed(work, range(9), workers=2)
    assert next(steps) == (0, 0)
    Path(folder, "go").touch()
    start = time.monotonic()
    with pytest.raises(LookupError) as caught:
        next(steps)
    assert type(caught.value) is LookupError
    assert caught.value.args == ("no", 7)
    assert time.monotonic() - start < 30
    assert not Path(folder, "5").exists()


def test_a_worker_killed_while_idle_is_replaced_and_blames_no_task():
    pool = _processes._Pool(abs, [-1], workers=1, attempts=1)
    assert pool._idle[0].submit(_processes._Packed(os._exit), 3).exception() is not None
    try:
        pool.start_waiting()
        assert pool.next_ready() == [(0, 1)]
        pool.raise_if_failed()
    finally:
        pool.stop(kill=True)


def test_what_cannot_be_unpickled_is_named():
    class Sealed:
        def __reduce__(self):
            return exec, ("raise ImportError('only at home')",)

        def __repr__(self):
            return "Sealed(\n)"

    with pytest.raises(UsageError, match=r"task 0 \(Sealed\( \)\) or its result cannot be sent .*only at home"):
        parallel_map(lambda task: task, [Sealed()], workers=2)


@pytest.mark.slow
def test_closing_early_ends_the_workers_at_once():
    def work(task):
        import os
        import time

        if task:
            time.sleep(60)
        return os.getpid()

    steps = completed(work, range(4), workers=2)
    _, process = next(steps)
    start = time.monotonic()
    steps.close()
    assert time.monotonic() - start < 30  # and not the minute that the tasks would sleep
    _wait_until(lambda: not _is_alive(process), "the worker has ended")


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_an_interrupted_or_killed_parent(tmp_path, blow):
    script = f"""
import signal
from weightsmith.core.parallel import parallel_map

# A test run started in the background of a shell ignores interrupts, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

def work(task):
    import os, pathlib, time
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(60)

parallel_map(work, range(4), workers=2)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    try:
        _wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both workers work", parent)
        parent.send_signal(blow)
        _, text = parent.communicate(timeout=20)
    finally:
        parent.kill()
        parent.wait()
    if blow == signal.SIGINT:
        assert b"KeyboardInterrupt" in text
    for process in tmp_path.iterdir():
        _wait_until(lambda pid=int(process.name): not _is_alive(pid), "the worker has ended")


def _is_alive(process: int) -> bool:
    try:
        # A worker whose parent is gone may stay as a zombie where nobody collects it.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until(holds, what, process=None, seconds=30.0):
    end = time.monotonic() + seconds
    while not holds():
        assert process is None or process.poll() is None, f"{process.args} has ended"
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


# Cluster


class Cluster:
    """A Dask scheduler and its workers as processes of their own, all ended with the test."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self):
        file = self.folder / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        self.scheduler = self._start("dask_scheduler", options)
        _wait_until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler runs", self.scheduler)
        self.address = json.loads(file.read_text())["address"]

    def add_worker(self, threads=1):
        options = ["--no-nanny", "--nthreads", str(threads), "--no-dashboard", "--local-directory", str(self.folder)]
        return self._start("dask_worker", [self.address, *options])

    def _start(self, tool, options):
        command = [sys.executable, "-m", f"distributed.cli.{tool}", *options]
        with (self.folder / f"{len(self.processes)}-{tool}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def end(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    processes = Cluster(folder)
    try:
        processes.start()
        yield processes
    finally:
        processes.end()


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes_though_a_worker_is_killed(cluster, tmp_path):
    work, folder = numerical(), str(tmp_path)

    def slowly(index):
        import os
        import time
        from pathlib import Path

        Path(folder, f"{index}-{os.getpid()}").touch()
        time.sleep(0.4)
        return work(index)

    victim, _ = cluster.add_worker(), cluster.add_worker()
    results, mine = {}, f"-{victim.pid}"
    for index, result in completed(slowly, range(10), cluster=cluster.address):
        results[index] = result
        if victim.poll() is None and any(path.name.endswith(mine) for path in tmp_path.iterdir()):
            victim.send_signal(signal.SIGKILL)
            victim.wait()
    assert victim.returncode == -signal.SIGKILL
    assert [results[index] for index in range(10)] == parallel_map(work, range(10))


@pytest.mark.slow
def test_cluster_tasks_run_one_at_a_time_in_a_process_and_errors_are_unchanged(cluster):
    cluster.add_worker(threads=4)

    def work(task):
        import time

        import torch

        if task == "stop":
            raise LookupError("no", 7)
        start = time.monotonic()
        time.sleep(0.1)
        return start, time.monotonic(), torch.get_num_threads()

    # A tuple that begins with a function is a call to Dask, unless it is kept closed.
    spans = sorted(parallel_map(work, [(abs, -1), 2, 3, 4], cluster=cluster.address))
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    assert {threads for _, _, threads in spans} == {1}
    with pytest.raises(LookupError) as caught:
        parallel_map(work, ["stop", *range(50)], cluster=cluster.address)
    assert caught.value.args == ("no", 7)


@pytest.mark.slow
def test_a_task_that_kills_the_cluster_s_workers_is_named(cluster, tmp_path):
    folder = str(tmp_path)

    def work(index):
        import os
        import signal
        import time
        from pathlib import Path

        while index == 1:
            if Path(folder, "go").exists():
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.02)
        return index * index

    for _ in range(5):  # Dask gives up at the fourth worker
        cluster.add_worker()
    steps = completed(work, range(3), cluster=cluster.address)
    # Dask suspects every task that a dead worker had, also those it had not begun: let the others finish first.
    assert sorted([next(steps), next(steps)]) == [(0, 0), (2, 4)]
    Path(folder, "go").touch()
    with pytest.raises(WorkerLost, match=r"^workers of tcp://127.0.0.1:\d+ died each time they ran task 1 \(1\)"):
        next(steps)


@pytest.mark.slow
def test_a_stopped_worker_is_told_of_and_its_tasks_go_to_others(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(_cluster, "_STALL_SECONDS", 5.0)
    folder = str(tmp_path)

    def slowly(index):
        import os
        import time
        from pathlib import Path

        Path(folder, f"{index}-{os.getpid()}").touch()
        time.sleep(0.3)
        return index

    victim, _ = cluster.add_worker(), cluster.add_worker()
    _wait_for_workers(cluster, 2)
    found, stopped = [], False
    with pytest.warns(_cluster.WorkerStalled, match=r"the worker tcp://\S+ of tcp://\S+ has not answered for 5 s"):  # noqa: PT031
        for index, _result in completed(slowly, range(8), cluster=cluster.address):
            found.append(index)
            if not stopped and any(path.name.endswith(f"-{victim.pid}") for path in tmp_path.iterdir()):
                victim.send_signal(signal.SIGSTOP)
                stopped = True
    assert stopped
    assert sorted(found) == list(range(8))


@pytest.mark.slow
def test_small_tasks_travel_in_batches_and_what_raises_is_its_own(cluster):
    cluster.add_worker()

    def work(task):
        if task == 150:
            raise LookupError("no", 7)
        return task

    steps, calls = completed(work, range(200), cluster=cluster.address), []
    real = _cluster._Calls._submit

    def counting(self):
        real(self)
        calls.append({len(batch) for batch in self._under_way.values()})

    _cluster._Calls._submit = counting
    try:
        with pytest.raises(LookupError) as caught:
            delivered = []
            for pair in steps:
                delivered.append(pair)
    finally:
        _cluster._Calls._submit = real
    assert caught.value.args == ("no", 7)
    assert max(max(sizes, default=0) for sizes in calls) > 10
    assert set(range(100)) <= {index for index, _ in delivered}


@pytest.mark.slow
def test_workers_with_other_versions_are_refused(cluster, monkeypatch):
    cluster.add_worker()
    _wait_for_workers(cluster, 1)
    monkeypatch.setattr(_cluster, "_versions", lambda: {**real, "torch": "1.0"})
    with pytest.raises(
        UsageError, match=r"the worker tcp://\S+ of tcp://\S+ has torch \S+, but this process has torch 1.0"
    ):
        parallel_map(abs, [1], cluster=cluster.address)


real = dict(_cluster._versions())


def _wait_for_workers(cluster, count):
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


@pytest.mark.slow
def test_an_error_of_the_function_is_its_own_on_a_cluster_too(cluster):
    cluster.add_worker()

    def work(task):
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="^mine$"):
        parallel_map(work, [1], cluster=cluster.address)


@pytest.mark.slow
def test_a_cluster_without_workers_or_scheduler_does_not_hang(cluster, monkeypatch):
    monkeypatch.setattr(_cluster, "_PATIENCE_SECONDS", 1.0)
    with pytest.raises(WorkerLost, match=f"{cluster.address} has had no workers for 1 s, with 2 task"):
        parallel_map(abs, [1, 2], cluster=cluster.address)
    steps = completed(abs, [1, 2], cluster=cluster.address)
    threading.Timer(1.0, cluster.scheduler.kill).start()
    monkeypatch.setattr(_cluster, "_PATIENCE_SECONDS", 60.0)
    with pytest.raises(WorkerLost, match=f"the Dask scheduler at {cluster.address} has gone, with 2 task"):
        next(steps)


@pytest.mark.parametrize("listens", [False, True])
def test_an_address_where_no_scheduler_answers_is_refused_in_seconds(listens, monkeypatch):
    monkeypatch.setattr(_cluster, "_CONNECT_SECONDS", 1.0)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()  # takes connections and never says a word
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(UsageError, match=f"no Dask scheduler answers at {address} .*start one with") as caught:
            parallel_map(abs, [1], cluster=address)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 30


def test_a_server_of_another_kind_is_refused(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def banner():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6 and more words than a length has bytes")
                connection.recv(1000)

        threading.Thread(target=banner, daemon=True).start()
        with pytest.raises(UsageError, match=f"no Dask scheduler answers at {address}"):
            parallel_map(abs, [1], cluster=address)


@pytest.mark.parametrize("address", ["here", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "http://127.0.0.1:80", ""])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match=f"cluster must be an address such as .*, not '{address}'"):
        parallel_map(abs, [1], cluster=address)


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install .*\[cluster\]"):
        parallel_map(abs, [1], cluster="tcp://127.0.0.1:8786")


def test_streams_do_not_depend_on_the_order_of_tasks():
    backwards = parallel_map(lambda index: stream(0, index).integers(1 << 60), [2, 1, 0])
    assert backwards[::-1] == parallel_map(lambda index: stream(0, index).integers(1 << 60), [0, 1, 2])


def test_workers_are_kept_for_the_next_call_unless_the_environment_changed(tmp_path, monkeypatch):
    def where_am_i(_):
        return os.getpid(), str(Path.cwd()), os.environ.get("WEIGHTSMITH_PROBE")

    def seen():
        return parallel_map(where_am_i, range(6), workers=2)

    first, second = {pid for pid, *_ in seen()}, {pid for pid, *_ in seen()}
    assert first & second
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEIGHTSMITH_PROBE", "here")
    third = seen()
    assert not {pid for pid, *_ in third} & (first | second)
    assert {(folder, probe) for _, folder, probe in third} == {(str(tmp_path), "here")}


def test_kept_workers_do_not_hold_up_the_end_of_the_program():
    code = "from weightsmith.core.parallel import parallel_map\nprint(parallel_map(abs, [-1, 2, -3], workers=2))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (answer.stdout, answer.stderr) == ("[1, 2, 3]\n", "")


@pytest.mark.slow
def test_a_worker_imports_torch_only_for_tasks_that_do():
    code = (
        "from weightsmith.core.parallel import parallel_map\n"
        "def loaded(_):\n    import sys\n    return 'torch' in sys.modules\n"
        "def threads(_):\n    import torch\n    return torch.get_num_threads()\n"
        "print(parallel_map(loaded, range(4), workers=2), parallel_map(threads, range(4), workers=2))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == "[False, False, False, False] [1, 1, 1, 1]\n"
