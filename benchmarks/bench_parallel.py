"""What a parallel map costs beyond its tasks: ``parallel_map`` against joblib, 200 small tasks on two processes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from benchmarks.measure import Case
from weightsmith.core.parallel import parallel_map

__all__ = ["cases"]

_TASKS = range(200)
_WORKERS = 2


def cases() -> list[Case]:
    """Both keep their processes between calls; joblib is measured with new ones as well, as a first call would be."""
    return [
        _on_processes("two processes, torch tasks", "200 spectra of 48 × 48 matrices", spectrum_task),
        _on_processes("two processes, plain tasks", "200 sums of 10,000 squares", plain_task),
        _in_this_process("this process, torch tasks", "200 spectra of 48 × 48 matrices", spectrum_task),
        _in_this_process("this process, plain tasks", "200 sums of 10,000 squares", plain_task),
    ]


def spectrum_task(shift: int) -> list[float]:
    """What a grading task does in small: singular values of a fixed matrix. The worker has to import torch for it."""
    import torch

    rows = torch.arange(48, dtype=torch.float64)
    return torch.linalg.svdvals(torch.cos(torch.outer(rows, rows + shift))).tolist()  # type: ignore[no-any-return]


def plain_task(start: int) -> int:
    """About half a millisecond of plain Python; a worker needs no torch for it."""
    return sum(number * number for number in range(start, start + 10_000))


def _on_processes(name: str, work: str, task: Callable[[int], Any]) -> Case:
    def joblib_kept() -> list[Any]:
        return list(Parallel(n_jobs=_WORKERS)(delayed(task)(number) for number in _TASKS))

    def joblib_new() -> list[Any]:
        results = joblib_kept()
        get_reusable_executor().shutdown(wait=True)
        return results

    arms = {
        "weightsmith parallel_map": lambda: parallel_map(task, _TASKS, workers=_WORKERS),
        "joblib.Parallel, new processes": joblib_new,
        "joblib.Parallel, processes kept": joblib_kept,
    }
    whole = f"{work} on {_WORKERS} worker processes, results in order"
    return Case(name, whole, arms, operator.eq, packages=("joblib",), children=True, repeats=3)


def _in_this_process(name: str, work: str, task: Callable[[int], Any]) -> Case:
    arms = {
        "weightsmith parallel_map": lambda: parallel_map(task, _TASKS),
        "joblib.Parallel, n_jobs=1": lambda: list(Parallel(n_jobs=1)(delayed(task)(number) for number in _TASKS)),
        "list comprehension": lambda: [task(number) for number in _TASKS],
    }
    return Case(name, f"{work} one after another, without workers", arms, operator.eq, packages=("joblib",))
