"""Run the benchmarks: ``python -m benchmarks.run [--only NAME …] [--out FOLDER]``, in the peers' environment.

Each ``bench_NAME.py`` beside this file has ``cases() -> list[Case]``. A result is ``FOLDER/NAME.json`` and ``NAME.md``.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

import benchmarks
from benchmarks.measure import Case, Results, Unavailable, UnequalWork, machine, measure
from benchmarks.tables import page, table
from weightsmith.core.storage import write_atomic

__all__ = ["NAMES", "main"]

_ROOT = Path(__file__).resolve().parents[1]
_PREFIX = "bench_"
NAMES = tuple(
    sorted(
        module.name.removeprefix(_PREFIX)
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if module.name.startswith(_PREFIX)
    )
)


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for (default: all), print and write it; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results", help="default: docs/results")
    asked = parser.parse_args(arguments)
    failed = 0
    for name in asked.only:
        try:
            results, failures = run(name)
        except Unavailable as reason:
            print(f"{name}: left out, {reason}", flush=True)
            continue
        except (ModuleNotFoundError, UnequalWork) as error:
            print(f"{name}: FAILED, {error}", file=sys.stderr)
            failed = 1
            continue
        for failure in failures:
            print(f"{name}: FAILED, {failure}", file=sys.stderr)
            failed = 1
        if results.measurements:
            print(f"{name}\n{table(results.measurements)}\n", flush=True)
            write_atomic(asked.out / f"{name}.json", results.to_json(indent=1) + "\n")
            write_atomic(asked.out / f"{name}.md", page(results) + "\n")
    return failed


def run(name: str) -> tuple[Results, list[UnequalWork]]:
    """Measure every case of ``bench_NAME.py``; cases whose arms differ in what they compute are given as errors."""
    cases: list[Case] = importlib.import_module(f"benchmarks.{_PREFIX}{name}").cases()
    measured, failures = [], []
    for case in cases:
        try:
            measured.append(measure(case))
        except UnequalWork as error:
            failures.append(error)
    return Results(name, f"python -m benchmarks.run --only {name}", machine(), tuple(measured)), failures


if __name__ == "__main__":
    sys.exit(main())
