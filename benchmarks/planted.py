"""Planted truth: samples, noise and random matrices of which the answer is known.

Every trial has random streams of its own, so that the numbers below are the same on every run. A study is a function
in ``TAIL_STUDIES`` (benchmarks/planted_studies.py), ``BODY_STUDIES`` (benchmarks/planted_bodies.py) or
``NOISE_STUDIES`` (benchmarks/planted_noise.py): it returns a ``Plan`` that says what is asked, with cells that each
give one row of the table.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import machine
from benchmarks.planted_bodies import BODY_STUDIES
from benchmarks.planted_noise import NOISE_STUDIES
from benchmarks.planted_studies import SEED, TAIL_STUDIES, Row
from weightsmith.core.journal import Journal
from weightsmith.core.records import Origin, Record, versions
from weightsmith.core.storage import write_atomic

__all__ = ["main"]

STUDIES = TAIL_STUDIES | BODY_STUDIES | NOISE_STUDIES

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, eq=False)
class Study(Record):
    """What a study gave."""

    about: str
    outcome: str
    rows: tuple[dict[str, float | int | str], ...]


@dataclass(frozen=True, eq=False)
class Results(Record):
    """What the benchmark gave."""

    command: str
    machine: str
    trials: int
    studies: dict[str, Study]
    origin: Origin


def table(rows: Sequence[Row]) -> str:
    """Rows as Markdown; a cell that a row does not have is left empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_shown(row.get(name, "")) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def _shown(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def page(results: Results) -> str:
    """The Markdown page."""
    parts = ["# Planted truth", (__doc__ or "").replace("``", "`").partition("\n\n")[2].strip()]
    error = 100 * math.sqrt(0.05 * 0.95 / results.trials)
    parts.append(
        f"{results.trials} trials per row: a share of 95 % is known to ±{error:.1f} points (one standard error)."
    )
    for name, study in results.studies.items():
        parts += [f"## {name}", study.about, *([study.outcome] if study.outcome else []), table(study.rows)]
    packages = ", ".join(f"{key} {value}" for key, value in results.origin.versions.items())
    return "\n\n".join([*parts, f"{packages}; {results.machine}. Made by `{results.command}`."]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the studies and write docs/results/planted.md and .json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument(
        "--only", nargs="+", choices=STUDIES, help="run these studies only; the others stay as they are written"
    )
    parser.add_argument("--work", type=Path, help="folder for a journal: the same command again goes on")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results", help="default: docs/results")
    asked = parser.parse_args(arguments)
    journal = None if asked.work is None else Journal(asked.work / "journal.jsonl", {"trials": asked.trials})
    known = asked.out / "planted.json"
    studies = dict(Results.from_json(known.read_text()).studies) if asked.only and known.exists() else {}
    for name in asked.only or STUDIES:
        plan = STUDIES[name]()
        rows = tuple(_once(journal, f"{name} {key}", cell, asked.trials) for key, cell in plan.cells.items())
        studies[name] = Study(plan.about, plan.outcome(rows), rows)
        print(f"{name}\n{studies[name].outcome}\n{table(rows)}\n", flush=True)
    studies = {name: studies[name] for name in STUDIES if name in studies}
    origin = Origin(seed=SEED, versions=versions("numba", "scipy"))
    results = Results("python -m benchmarks.planted", machine(), asked.trials, studies, origin)
    write_atomic(asked.out / "planted.json", results.to_json(indent=1) + "\n")
    write_atomic(asked.out / "planted.md", page(results))
    return 0


def _once(journal: Journal | None, key: str, cell: Callable[[int], Row], trials: int) -> Row:
    """What ``cell`` gives, from the journal if it is done."""
    if journal is not None and key in journal:
        found: Row = journal[key]
        return found
    start = time.monotonic()
    row = cell(trials)
    if journal is not None:
        journal.append(key, row, time.monotonic() - start)
    return row


if __name__ == "__main__":
    sys.exit(main())
