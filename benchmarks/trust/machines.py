"""A Dask cluster of four worker processes: the bytes of one process, though a worker is killed or stopped.

Every command that has ``--cluster`` runs in one process and on the cluster. Then a sweep is disturbed: one of its
workers is killed, another stopped (SIGSTOP), and at last the scheduler is ended and started again, after which the same
command must go on from its journal. All processes run on this machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.trust import kills

__all__ = ["COMMANDS", "DaskProcesses", "machines"]

COMMANDS = {
    "grade": "grade deep",
    "genetic": "reduce deep --data digits --by genetic:50,generations=3,population=12 --no-latency --rows 300",
    "study": "study digits --hidden 6,8 --by angles:45 --epochs 2 --folds 2 --repeats 2 --no-scratch",
    "spike": "spike deep --data digits --neuron if --steps 16",
    "spike-sweep": "spike-sweep base --data digits --leaks 1,0.9 --resets soft --factors 0.8,1.0 --smoothings 1 "
    "--steps 6 --balance percentile --rows 32 --test-rows 40",
    "sweep": "sweep train digits --network mlp:8 --vary rate=0.1,0.2 --epochs 2 --seeds 0,1",
    "tailor": "tailor deep --data digits --energy 0.5 --spiking",
    "reproduce": "reproduce membrane --quick",
}
_DISTURBED = "sweep train digits --network mlp:64 --vary rate=0.1,0.2,0.3,0.4 --epochs 60 --seeds 0-3"
_WORKERS = 4
_STARTING = 90.0  # seconds


class DaskProcesses:
    """A scheduler and its workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._scheduler: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"

    def start(self, workers: int = _WORKERS) -> None:
        """Start a scheduler at the address, and workers; wait for all."""
        self._scheduler = self._begin("dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port))
        self.workers = [self._begin("dask_worker", self.address, *_OPTIONS) for _ in range(workers)]
        end = time.monotonic() + _STARTING
        while self._joined() < workers:
            if time.monotonic() > end:
                raise SystemExit(f"the cluster did not start in {_STARTING:.0f} s")

    def scheduler_seconds(self) -> float:
        """The CPU seconds of the scheduler so far."""
        assert self._scheduler is not None
        fields = Path(f"/proc/{self._scheduler.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End the scheduler and all workers."""
        for process in (self._scheduler, *self.workers):
            if process is not None:
                process.kill()
                process.wait()

    def _joined(self) -> int:
        from distributed import Client

        try:
            with Client(self.address, timeout=5, set_as_default=False) as client:  # type: ignore[no-untyped-call]
                return len(client.scheduler_info(n_workers=-1)["workers"])
        except OSError:
            return 0

    def _begin(self, tool: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{tool}", "--no-dashboard", *options]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder)


_OPTIONS = ("--no-nanny", "--nthreads", "1")


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[DaskProcesses]:
    cluster = DaskProcesses(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def machines() -> dict[str, Any]:
    """Try all of it; once each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kills.prepare(folder)
        kills.ended(kills.begin("train digits --network mlp:24,16 --epochs 6", folder, "deep"))
        same = _same_bytes(folder)
        kills.ended(kills.begin(_DISTURBED, folder, "whole"))
        want = kills.contents(folder / "whole")
        killed, _ = _disturbed(folder, want, lambda cluster: cluster.workers[0].kill())
        stopped, said = _disturbed(folder, want, lambda cluster: os.kill(cluster.workers[0].pid, signal.SIGSTOP))
        told = "has not answered for 30 s: its tasks go to other workers" in said
        restarted = _restarted(folder, want)
    return {
        "promises": [
            [f"{_WORKERS} workers of a Dask cluster: the bytes of one process", len(COMMANDS), same.count(False)],
            ["a worker of the cluster killed: the same bytes", 1, int(not killed)],
            ["a worker of the cluster stopped: told after 30 s, and the same bytes", 1, int(not (stopped and told))],
            [
                "the scheduler ended and started again: the same command goes on to the same bytes",
                1,
                int(not restarted),
            ],
        ],
        "notes": [f"On a Dask cluster of {_WORKERS} processes of this machine: {', '.join(COMMANDS)}."],
    }


def _same_bytes(folder: Path) -> list[bool]:
    found = []
    with _cluster(folder) as cluster:
        for name, command in COMMANDS.items():
            codes = [kills.ended(kills.begin(command, folder, "one"))]
            codes.append(kills.ended(kills.begin(f"{command} --cluster {cluster.address}", folder, "spread")))
            one, spread = (kills.contents(folder / each) for each in ("one", "spread"))
            found.append(codes == [0, 0] and one == spread)
            print(name, codes, "same" if found[-1] else [key for key in one if one[key] != spread.get(key)], flush=True)
            if not found[-1]:
                print((folder / "spread.log").read_text()[-800:], flush=True)
            for each in ("one", "spread"):
                shutil.rmtree(folder / each, ignore_errors=True)
    return found


def _disturbed(folder: Path, want: dict[str, str], blow: Callable[[DaskProcesses], object]) -> tuple[bool, str]:
    """Whether the sweep ended as undisturbed, though ``blow`` fell after its first rows; and what it said."""
    with _cluster(folder) as cluster:
        process = _begun(folder, cluster)
        blow(cluster)
        code = kills.ended(process)
    same = code == 0 and kills.contents(folder / "out") == want
    said = (folder / "out.log").read_text()
    print("disturbed:", code, same, said[-300:], flush=True)
    shutil.rmtree(folder / "out")
    return same, said


def _restarted(folder: Path, want: dict[str, str]) -> bool:
    with _cluster(folder) as cluster:
        process = _begun(folder, cluster)
        cluster.end()
        lost = kills.ended(process)
        rows = _rows(folder)
        cluster.start()
        code = kills.ended(kills.begin(f"{_DISTURBED} --cluster {cluster.address}", folder, "out"))
    same = kills.contents(folder / "out") == want
    print("restarted:", lost, rows, code, same, (folder / "out.log").read_text()[-300:], flush=True)
    return lost != 0 and rows > 0 and code == 0 and same


def _begun(folder: Path, cluster: DaskProcesses) -> int:
    """The sweep on the cluster, when its first two rows are written."""
    process = kills.begin(f"{_DISTURBED} --cluster {cluster.address}", folder, "out")
    end = time.monotonic() + _STARTING
    while _rows(folder) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    return process


def _rows(folder: Path) -> int:
    path = folder / "out" / "journal.jsonl"
    return max(0, len(path.read_text().splitlines()) - 1) if path.exists() else 0
