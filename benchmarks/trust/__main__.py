"""Try what is promised about files, kills and interrupts, and write one table of it.

    python -m benchmarks.trust                         everything; docs/results/trust.md and trust.json (make trust)
    python -m benchmarks.trust --only damage --mutants 50
    python -m benchmarks.trust --only kills --times 5  the other parts keep what the JSON file says of them

Parts: damage (mutants of every format, flips of our own files, files built to harm), kills, faults (full or read-only
disk, failing writes), folders (two processes in one), interrupts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.trust import damage, page
from benchmarks.trust.samples import OWN, samples
from weightsmith.core.storage import write_atomic

_ROOT = Path(__file__).resolve().parents[2]
_MUTANTS, _FLIPS = 4_900, 2_000  # of each format, of each own file
_HDF5 = 0.37  # the share of mutants that formats get whose every file costs a process


def _damage(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Mutants and flips of every format, and the files built to harm."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        made = samples(Path(name))
        for path, reader in made.values():
            reader(path)  # undamaged, every one is read
        for each, sample in made.items():
            if given.format and each not in given.format:
                continue
            share = _HDF5 if each.startswith(("Keras", "NIR")) else 1.0
            found.append(_told(damage.tried(each, sample, damage.mutant, range(int(share * given.mutants)))))
            if each in OWN:
                named = f"{each}, one bit flipped"
                found.append(_told(damage.tried(named, sample, damage.flipped, range(given.flips))))
        if not given.format:
            path, reader = made["Keras .h5"]
            found.append(_told(damage.hostile(reader, path)))
    return found


def _told(found: Any) -> dict[str, Any]:
    row = asdict(found)
    print(json.dumps({key: value for key, value in row.items() if value}, ensure_ascii=False), flush=True)
    return row


PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {"damage": _damage}


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the parts asked for and write the page of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--mutants", type=int, default=_MUTANTS)
    parser.add_argument("--flips", type=int, default=_FLIPS)
    parser.add_argument("--format", action="append", help="of the damaged files only these")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    stored = given.out / "trust.json"
    results: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {}
    for part in given.only or list(PARTS):
        started = time.process_time(), time.monotonic()
        results[part] = {"found": PARTS[part](given), "minutes": round((time.monotonic() - started[1]) / 60, 1)}
        write_atomic(stored, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        write_atomic(given.out / "trust.md", page.page(results))
    print(page.table(results))
    sys.exit(0 if page.holds(results) else 1)


if __name__ == "__main__":
    main()
