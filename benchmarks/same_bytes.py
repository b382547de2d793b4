"""Digests of everything ten commands write, to prove that a change of the code changes no result.

    python -m benchmarks.same_bytes store digests.json      # before the change
    python -m benchmarks.same_bytes compare digests.json    # after it: 1 if a file differs, with the names

Results are equal byte for byte on one machine with the same versions, so the digests belong to the machine that stored
them. Journals hold durations and are left out; so is standard output, which is for people.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from weightsmith.core.records import digest_of
from weightsmith.core.storage import write_atomic

__all__ = ["COMMANDS", "digests", "main"]

# Every command runs in one empty folder, in this order; what it writes lies below its name.
COMMANDS = {
    "train": "train digits --network mlp:64,32 --schedule power:0.1,s=20,per=epoch --clip norm:1 --epochs 6",
    "grade": "grade train --json",
    "reduce-angles": "reduce train --data digits --by angles:45 --recover fine-tune:2 --no-latency",
    "reduce-groups": "reduce train --data digits --by groups --target params:0.5 --no-latency",
    "reduce-genetic": "reduce train --data digits --by genetic:50,generations=15,population=30 --price synaptic "
    "--no-latency",
    "spike-constant": "spike train --data digits --steps 16",
    "spike-l4": "spike train --data digits --encode poisson --adjust l4:1.0 --neuron lif:0.95 --steps 20",
    "spike-int8": "spike train --data digits --precision int8 --balance percentile:99 --neuron if:reset=hard "
    "--steps 16",
    "sweep": "spike-sweep train --data digits --leaks 1,0.9 --resets soft --factors 0.8,1.0 --smoothings 1 --steps 12 "
    "--balance percentile --rows 60 --test-rows 90",
    "pipeline": "pipeline recipe.toml",
}
_PRINTED = {"grade"}  # its result is what it prints
_JOURNALS = ("journal", "seconds", "times")


def digests(folder: Path) -> dict[str, str]:
    """Run all commands in ``folder`` and digest what they wrote, file by file."""
    found = {}
    _run("recipe new recipe.toml", folder)
    for name, command in COMMANDS.items():
        printed = name in _PRINTED
        text = _run(command if printed else f"{command} --out {name} --quiet", folder)
        if printed:
            found[f"{name} (printed)"] = digest_of(text)
        for path in sorted(p for p in (folder / name).rglob("*") if p.is_file()):
            if not path.name.startswith(_JOURNALS):
                found[path.relative_to(folder).as_posix()] = digest_of(path.read_bytes())
    return found


def _run(command: str, folder: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "weightsmith", *command.split()],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):  # 1: done, but something to look at
        raise SystemExit(f"weightsmith {command}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main(arguments: list[str] | None = None) -> int:
    """Store the digests, or compare with those stored."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bytes", description=__doc__)
    parser.add_argument("action", choices=("store", "compare"))
    parser.add_argument("file", type=Path)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        now = digests(Path(folder))
    if asked.action == "store":
        write_atomic(asked.file, json.dumps(now, indent=1) + "\n")
        print(f"{len(now)} files stored in {asked.file}")
        return 0
    before: dict[str, str] = json.loads(asked.file.read_text())
    different = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    print(f"{len(before)} files stored, {len(now)} now, {len(different)} differ", *different, sep="\n  ")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
