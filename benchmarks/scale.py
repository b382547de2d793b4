"""How cost grows: three sizes of everything that can be large, the exponent fitted, and what fits into an hour.

    python -m benchmarks.scale                    writes docs/results/scale.md and scale.json
    python -m benchmarks.scale --only workers     the other parts keep what the JSON file says of them

Times are CPU seconds of this process, best of three. The tasks of workers and of the Dask cluster sleep, so that what
is measured is the distribution: the CPU seconds of all processes, which a busy machine hardly changes, and the wall
clock, which it does.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weightsmith as ws
from benchmarks.trust.machines import DaskProcesses
from weightsmith.core.journal import Journal, read_journal
from weightsmith.core.parallel import parallel_map, spread
from weightsmith.core.storage import write_atomic

__all__ = ["exponent", "fits", "main"]

_ROOT = Path(__file__).resolve().parents[1]
_TASK = 0.05  # seconds
_TASKS = 200
_CORES = (2, 64, 1024)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log sizes, by least squares: 1 grows in proportion, 2 with the square.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def fits(seconds: float, cores: int, efficiency: float) -> float:
    """How many pieces of work of ``seconds`` fit into an hour on ``cores``, of which ``efficiency`` is used.

    >>> fits(36.0, 2, 0.5)
    100.0
    """
    return 3600 * cores * efficiency / seconds


def _cpu(run: Callable[[], object], times: int = 3) -> float:
    found = []
    for _ in range(times):
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


def _grade(layers: int, width: int) -> float:
    generator = torch.Generator().manual_seed(0)
    state = {f"layer{i}.weight": torch.randn(width, width, generator=generator) for i in range(layers)}
    return _cpu(lambda: ws.grade(state))


@functools.cache
def _network(hidden: str) -> Any:
    return ws.train(f"mlp:{hidden}", "digits", epochs=2).network


def _spike(images: int, steps: int) -> float:
    data = ws.data.load("digits")
    options: dict[str, Any] = {"neuron": "if", "balance": "percentile", "watch": 0}
    snn = ws.spike(_network("128,64"), data, steps=2, test_rows=8, **options).network
    x = torch.cat([data.split("train").x, data.split("test").x])[:images]
    return _cpu(lambda: snn.run(x, steps))


def _genetic(population: int) -> float:
    by = f"genetic:50,generations=5,population={population}"
    return _cpu(lambda: ws.reduce(_network("24,16"), "digits", by=by, latency=False, random=0, rows=200), times=2)


def _train(rows: int) -> float:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(rows, 64, generator=generator), torch.arange(rows) % 10
    return _cpu(lambda: ws.train("mlp:64", (x, y), epochs=4, stop=None))


GROWTH: dict[str, tuple[str, tuple[int, int, int], Callable[[int], float]]] = {
    "grade, layers": ("layers of 200 × 200", (8, 16, 32), lambda size: _grade(size, 200)),
    "grade, width": ("columns of one square layer", (256, 512, 1024), lambda size: _grade(1, size)),
    "spike, images": ("images of 64 pixels, mlp:128,64, 64 steps", (400, 800, 1600), lambda size: _spike(size, 64)),
    "spike, steps": ("steps, 800 images", (32, 64, 128), lambda size: _spike(800, size)),
    "genetic search, population": ("masks, 5 generations, mlp:24,16, 200 rows", (20, 40, 80), _genetic),
    "train, rows": ("rows of 64 features, mlp:64, 4 epochs", (4_000, 8_000, 16_000), _train),
}


def growth() -> list[dict[str, Any]]:
    """Seconds at three sizes of each, and the exponent."""
    rows = []
    for name, (of, sizes, run) in GROWTH.items():
        run(sizes[0])  # compiles, and fills caches
        seconds = [run(size) for size in sizes]
        rows.append({"name": name, "of": of, "sizes": sizes, "seconds": seconds, "exponent": exponent(sizes, seconds)})
        print(rows[-1], flush=True)
    return rows


def _nap(_: int) -> tuple[int, float]:
    time.sleep(_TASK)
    return os.getpid(), time.process_time()


def workers() -> list[dict[str, Any]]:
    """What 200 tasks of 50 ms cost beyond their share of them, on processes and on a cluster."""
    rows = []
    for count in (1, 2, 4):
        with spread(count):
            rows.append(_overhead("processes", count, lambda: 0.0))
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, 2, 4):
            cluster = DaskProcesses(Path(folder))
            try:
                cluster.start(count)
                with spread(cluster=cluster.address):
                    rows.append(_overhead("Dask cluster", count, cluster.scheduler_seconds))
            finally:
                cluster.end()
    return rows


def _overhead(where: str, count: int, scheduler: Callable[[], float]) -> dict[str, Any]:
    taken, sender, every = [], [], []
    for _ in range(4):  # the first starts them
        begin, used, before = time.monotonic(), time.process_time(), scheduler()
        found = parallel_map(_nap, range(_TASKS))
        taken.append(time.monotonic() - begin)
        sender.append(time.process_time() - used)
        times: dict[int, list[float]] = {}
        for pid, seconds in found:
            times.setdefault(pid, []).append(seconds)
        own = sum(max(each) - min(each) for pid, each in times.items() if pid != os.getpid())
        every.append(sender[-1] + own + scheduler() - before)
    row = {
        "where": where,
        "workers": count,
        "seconds": min(taken),
        "ideal": _TASK * _TASKS / count,
        "sender": min(sender) / _TASKS,
        "overhead": min(every) / _TASKS / _TASK,
        "load": os.getloadavg()[0],
    }
    print(row, flush=True)
    return row


def large() -> list[dict[str, Any]]:
    """A page of 200 networks, the ancestry among 5,000 files, a journal of 100,000 rows."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = time.process_time()
        with Journal(folder / "journal.jsonl", {"x": 1}) as journal:
            for number in range(100_000):
                journal.append(str(number), {"accuracy": number / 7}, 0.1)
        rows.append(_row("a journal of 100,000 rows, written row by row", time.process_time() - begin))
        begin = time.process_time()
        assert len(read_journal(folder / "journal.jsonl").values) == 100_000
        rows.append(_row("the same read and checked", time.process_time() - begin))
        network = ws.networks.mlp(8, 4, 2, seed=0)
        runs = folder / "runs"
        for number in range(200):
            data = (torch.randn(20, 8, generator=torch.Generator().manual_seed(number)), torch.arange(20) % 2)
            ws.train(network, data, epochs=1, seed=number, out=runs / str(number))
        begin = time.process_time()
        ws.report(runs, folder / "page.html")
        rows.append(_row("a page of 200 networks", time.process_time() - begin))
        many = folder / "many"
        for number in range(5_000):
            ws.save(network, many / f"{number}" / "network.safetensors")
        rows.append(_row("`log` of a folder with 5,000 networks", _log(many)))
    return rows


def _log(folder: Path) -> float:
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "weightsmith", "log", str(folder), "--json"], check=True, stdout=subprocess.DEVNULL
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _row(name: str, seconds: float) -> dict[str, Any]:
    print(name, round(seconds, 2), flush=True)
    return {"name": name, "seconds": seconds}


PARTS: Mapping[str, Callable[[], list[dict[str, Any]]]] = {"growth": growth, "workers": workers, "large": large}


def page(results: Mapping[str, list[dict[str, Any]]]) -> str:
    """The Markdown page."""
    lines = ["# How cost grows", "", "Made by `python -m benchmarks.scale`; what it means: [scale](../scale.md).", ""]
    if "growth" in results:
        lines += ["| | of | sizes | CPU seconds | exponent |", "|---|---|---|---|---:|"]
        for row in results["growth"]:
            sizes = " · ".join(f"{value:,}" for value in row["sizes"])
            seconds = " · ".join(f"{value:,.3g}" for value in row["seconds"])
            lines.append(f"| {row['name']} | {row['of']} | {sizes} | {seconds} | {row['exponent']:.2f} |")
    if "workers" in results:
        what = "overhead: the CPU time of all processes (sender, scheduler, workers) as a share of the tasks' own time"
        what += f"; load: that of the machine, of {os.cpu_count()} cores, which the seconds depend on"
        lines += ["", f"{_TASKS} tasks of {1000 * _TASK:.0f} ms, best of three; {what}:", ""]
        lines += ["| where | workers | overhead | of it the sender, per task | seconds | tasks alone | load |"]
        lines += ["|---|---:|---:|---:|---:|---:|---:|"]
        for row in results["workers"]:
            lines.append(
                f"| {row['where']} | {row['workers']} | {100 * row['overhead']:.1f} % | {1000 * row['sender']:.2f} ms "
                f"| {row['seconds']:.2f} | {row['ideal']:.2f} | {row['load']:.0f} |"
            )
    if "large" in results:
        lines += ["", "| large | CPU seconds |", "|---|---:|"]
        lines += [f"| {row['name']} | {row['seconds']:.2f} |" for row in results["large"]]
    if {"growth", "workers"} <= results.keys():
        lines += ["", *_hour(results)]
    return "\n".join(lines) + "\n"


def _hour(results: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """What fits into an hour, from the largest size measured and the overhead of the largest cluster measured."""
    last = [row for row in results["workers"] if row["where"] == "Dask cluster"][-1]
    efficiency = 1 / (1 + max(0.0, last["overhead"]))
    lines = [
        "## In an hour",
        "",
        f"By these measurements, with the overhead of {last['workers']} workers ({100 * (1 - efficiency):.1f} % of the "
        "time), in pieces of the largest size above:",
        "",
        f"| | {' | '.join(f'{cores:,} cores' for cores in _CORES)} |",
        "|---|" + "---:|" * len(_CORES),
    ]
    for row in results["growth"]:
        numbers = (f"{fits(row['seconds'][-1], cores, efficiency):,.0f}" for cores in _CORES)
        lines.append(f"| {row['name']}: {row['sizes'][-1]:,} {row['of']} | {' | '.join(numbers)} |")
    busy = _TASK / last["sender"]
    return [
        *lines,
        "",
        f"One process hands out the work: it spends {1000 * last['sender']:.2f} ms on a task of {1000 * _TASK:.0f} ms, "
        f"so that such tasks keep {busy:,.0f} workers busy at most; {_CORES[-1]:,} need tasks of "
        f"{_CORES[-1] * last['sender']:.1f} s or more. Beyond {last['workers']} workers nothing was measured.",
    ]


def main() -> None:
    """Measure the parts asked for and write the page of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results")
    given = parser.parse_args()
    torch.set_num_threads(1)
    stored = given.out / "scale.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    for part in given.only or PARTS:
        results[part] = PARTS[part]()
        write_atomic(stored, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        write_atomic(given.out / "scale.md", page(results))


if __name__ == "__main__":
    main()
