"""Try what is promised about files, kills and interrupts, and write one table of it.

    python -m benchmarks.trust                         everything; docs/results/trust.md and trust.json (make trust)
    python -m benchmarks.trust --only damage --mutants 50
    python -m benchmarks.trust --only kills --times 5  the other parts keep what the JSON file says of them
    python -m benchmarks.trust --go-on                 after a kill: formats that are done are not tried again

Parts: damage (mutants of every format, flips of our own files, files built to harm), kills, faults (full or read-only
disk, failing writes), folders (two processes in one), machines (a Dask cluster), interrupts. If all are asked for, two
processes share them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.trust import damage, faults, interrupts, kills, machines, page
from benchmarks.trust.samples import OWN, samples
from weightsmith.core.storage import write_atomic

_ROOT = Path(__file__).resolve().parents[2]
_MUTANTS, _FLIPS = 4_900, 2_000  # of each format, of each own file
_TIMES = 43  # kills of each of seven commands
_BESIDE = ("damage", "faults", "machines", "interrupts")  # what a second process tries, if all is asked for
_HDF5 = 0.37  # the share of mutants that formats get whose every file costs a process


def _damage(given: argparse.Namespace, known: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Mutants and flips of every format, and the files built to harm; what is known already stays."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        made = samples(Path(name))
        for path, reader in made.values():
            reader(path)  # undamaged, every one is read
        trials: dict[str, tuple[int, Callable[[], damage.Found]]] = {}
        for each, sample in made.items():
            share = _HDF5 if each.startswith(("Keras", "NIR")) else 1.0
            count, flip = int(share * given.mutants), f"{each}, one bit flipped"
            trials[each] = count, partial(damage.tried, each, sample, damage.mutant, range(count))
            if each in OWN:
                trials[flip] = given.flips, partial(damage.tried, flip, sample, damage.flipped, range(given.flips))
        path, reader = made["Keras .h5"]
        trials["built to harm"] = 0, partial(damage.hostile, reader, path)
        for each, (count, run) in trials.items():
            before = [row for row in known if given.go_on and row["name"] == each and row["tried"] == count]
            found += before or [_told(run())]
            yield found


def _told(found: Any) -> dict[str, Any]:
    row = asdict(found)
    print(json.dumps({key: value for key, value in row.items() if value}, ensure_ascii=False), flush=True)
    return row


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]] | None] = {
    "damage": None,
    "kills": lambda given: kills.kills(given.times),
    "faults": lambda given: faults.faults(max(1, given.times // 10)),
    "folders": lambda _: faults.folders(),
    "machines": lambda _: machines.machines(),
    "interrupts": lambda given: interrupts.interrupts(max(1, given.times // 2)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the parts asked for and write the page of all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS))
    parser.add_argument("--mutants", type=int, default=_MUTANTS)
    parser.add_argument("--flips", type=int, default=_FLIPS)
    parser.add_argument(
        "--times",
        type=int,
        default=_TIMES,
        help="kills of every command; half as many interrupts, a tenth of failing disks",
    )
    parser.add_argument("--go-on", action="store_true", help="keep the formats that are done")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs" / "results")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    stored = given.out / "trust.json"
    results: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {}

    def keep(part: str, found: Any, seconds: float) -> None:
        results[part] = {"found": found, "minutes": round(seconds / 60, 1)}
        write_atomic(stored, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        write_atomic(given.out / "trust.md", page.page(results))

    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if given.only is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.callback(_gather, _beside(given, folder, results), folder, keep)
        for part in given.only or [part for part in PARTS if part not in _BESIDE]:
            _try(part, given, results, keep)
    print(f"{page.table(results)}\n{(time.monotonic() - started) / 60:.1f} minutes")
    sys.exit(0 if page.holds(results) else 1)


def _beside(given: argparse.Namespace, folder: Path, results: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the parts of ``_BESIDE`` in a process that writes to ``folder``."""
    write_atomic(folder / "trust.json", json.dumps(results))
    numbers = {"mutants": given.mutants, "flips": given.flips, "times": given.times}
    options = [f"--{name}={value}" for name, value in numbers.items()] + ["--go-on"] * given.go_on
    options += [f"--only={part}" for part in _BESIDE]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.trust", f"--out={folder}", *options], cwd=_ROOT)


def _gather(beside: subprocess.Popen[bytes], folder: Path, keep: Callable[[str, Any, float], None]) -> None:
    """Keep what the other process found."""
    beside.wait()
    found = json.loads((folder / "trust.json").read_text())
    for part in _BESIDE:
        keep(part, found[part]["found"], 60 * found[part]["minutes"])


def _try(
    part: str, given: argparse.Namespace, results: dict[str, Any], keep: Callable[[str, Any, float], None]
) -> None:
    """Try one part, and keep what was found; *damage* is kept format by format."""
    started, run = time.monotonic(), PARTS[part]
    if run is not None:
        keep(part, run(given), time.monotonic() - started)
        return
    before = results.get(part, {"found": [], "minutes": 0.0})
    for found in _damage(given, before["found"]):
        spent = 60 * before.get("minutes", 0.0) * given.go_on
        names = {row["name"] for row in found}
        waiting = [row for row in before["found"] if given.go_on and row["name"] not in names]
        keep(part, found + waiting, spent + time.monotonic() - started)


if __name__ == "__main__":
    main()
