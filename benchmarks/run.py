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
            results = run(name)
        except Unavailable as reason:
            print(f"{name}: left out, {reason}", flush=True)
        except (ModuleNotFoundError, UnequalWork) as error:
            print(f"{name}: FAILED, {error}", file=sys.stderr)
            failed = 1
        else:
            print(f"{name}\n{table(results.measurements)}\n", flush=True)
            write_atomic(asked.out / f"{name}.json", results.to_json(indent=1) + "\n")
            write_atomic(asked.out / f"{name}.md", page(results) + "\n")
    return failed


def run(name: str) -> Results:
    """Measure every case of ``bench_NAME.py``."""
    cases: list[Case] = importlib.import_module(f"benchmarks.{_PREFIX}{name}").cases()
    command = f"python -m benchmarks.run --only {name}"
    return Results(name, command, machine(), tuple(measure(case) for case in cases))


if __name__ == "__main__":
    sys.exit(main())
