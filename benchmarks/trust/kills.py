"""``kill -9`` at random moments of long commands: what is left is readable, and the command ends with the same bytes.

Every command runs in a fork of this process (imports are done, so that the moments fall into the work), in a session
of its own. After a kill every file in its folder is read, processes of the session are looked for, and the command is
given again; half of the time it is killed once more before it may end. Its files are then compared, byte for byte, with
those of a run that nobody disturbed. Journals, which alone hold durations, are compared by their keys and values.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weightsmith.cli import main as command_line
from weightsmith.core.errors import WeightsmithError
from weightsmith.core.journal import read_journal
from weightsmith.core.records import digest_of
from weightsmith.networks.weights import open_weights

__all__ = ["COMMANDS", "begin", "contents", "ended", "kills", "left_over", "prepare", "unreadable"]

_RECIPE = """data = "digits"
seeds = [0]
report = false

[train]
network = "mlp:16"
epochs = 4

[grade]

[reduce]
by = "angles:30"

[spike]
steps = 4
"""
COMMANDS = {
    "train": "train digits --network mlp:16 --epochs 12",
    "genetic": "reduce base --data digits --by genetic:50,generations=30,population=20 --no-latency",
    "spike-sweep": "spike-sweep base --data digits --leaks 1,0.9 --resets soft --factors 0.8,1.0 --smoothings 1 "
    "--steps 6 --balance percentile --rows 60 --test-rows 90",
    "pipeline": "pipeline recipe.toml",
    "tailor": "tailor base --data digits --accuracy -5 --energy 0.5",
    "reproduce": "reproduce membrane --quick",
    "sweep, 2 workers": "sweep train digits --network mlp:8 --vary rate=0.1,0.2 --epochs 2 --seeds 0,1 --workers 2",
}
_SAME_KILL_LIMIT = 20  # tries to catch a command before it ends
_ORPHAN_SECONDS = 10.0


@dataclass
class Tally:
    """What the kills of one command left."""

    kills: int = 0
    unreadable: int = 0
    different: int = 0
    orphans: int = 0


def prepare(folder: Path) -> None:
    """What the commands start from: a small trained network and a recipe."""
    (folder / "recipe.toml").write_text(_RECIPE)
    ended(begin("train digits --network mlp:16 --epochs 12", folder, "base"))


def begin(
    command: str,
    folder: Path,
    out: str,
    *,
    before: Callable[[], None] | None = None,
    to: str | None = None,
) -> int:
    """Start a command in a fork, after ``before`` was called there; its process number."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    os.chdir(folder)
    said = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        if before is not None:
            before()
        target = [] if command.startswith("export") else ["--out", to or out]
        command_line([*command.split(), *target, "--quiet"])
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
    except Exception:  # noqa: BLE001 (that is what is looked for)
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(99)


def kills(times: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """Kill every command ``times`` times."""
    random_moments = random.Random(0)
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for each, command in COMMANDS.items():
            if only and each not in only:
                continue
            started = time.monotonic()
            if code := ended(begin(command, folder, "whole")):
                raise SystemExit(f"{command} ended with {code}: {(folder / 'whole.log').read_text()}")
            tallies[each] = _killed(command, folder, times, time.monotonic() - started, random_moments)
            shutil.rmtree(folder / "whole")
            print(each, tallies[each], flush=True)
    return _told(tallies)


def _killed(command: str, folder: Path, times: int, seconds: float, moments: random.Random) -> Tally:
    found, want = Tally(), contents(folder / "whole")
    while found.kills < times:
        out = folder / "killed"
        for _ in range(_SAME_KILL_LIMIT):
            process = begin(command, folder, "killed")
            time.sleep(moments.uniform(0, seconds))
            os.kill(process, signal.SIGKILL)
            if os.WIFEXITED(os.waitpid(process, 0)[1]):  # it was done before
                break
            found.kills += 1
            found.orphans += left_over(process)
            found.unreadable += len(unreadable(out))
            if found.kills >= times or moments.random() < 0.5:
                break
        code = ended(begin(command, folder, "killed"))
        found.different += bool(code) or contents(out) != want
        shutil.rmtree(out)
    return found


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file below a folder, of a journal that of its keys and values; unfinished ones are hidden."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")):
        name = path.relative_to(folder).as_posix()
        if path.name.endswith("journal.jsonl"):
            found[name] = digest_of(repr(sorted(read_journal(path).values.items())))
        elif not path.name.startswith(("seconds", "times")):
            found[name] = digest_of(path.read_bytes())
    return found


def unreadable(folder: Path) -> list[Path]:
    """The files in a folder that cannot be read as what they claim to be; hidden ones are not finished."""
    from weightsmith.chain.reading.results import read_record

    bad = []
    for path in sorted(folder.rglob("*")) if folder.exists() else []:
        try:
            if path.name.endswith("journal.jsonl"):
                read_journal(path)
            elif path.suffix == ".safetensors" and not path.name.startswith("."):
                open_weights(path)
            elif path.name == "record.json":
                read_record(path)
        except WeightsmithError:
            bad.append(path)
    return bad


def left_over(session: int) -> int:
    """Processes of a session that are still there after ten seconds."""
    end = time.monotonic() + _ORPHAN_SECONDS
    while time.monotonic() < end:
        alive = [path for path in Path("/proc").glob("[0-9]*/stat") if _session_of(path) == session]
        if not alive:
            return 0
        time.sleep(0.1)
    return len(alive)


def _session_of(stat: Path) -> int | None:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[3]) if fields[0] != "Z" else None


def ended(process: int) -> int:
    """The exit code of a process, when it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _told(tallies: dict[str, Tally]) -> dict[str, Any]:
    tried = sum(tally.kills for tally in tallies.values())
    counts = ", ".join(f"{name} {tally.kills}" for name, tally in tallies.items())
    return {
        "promises": [
            ["kill -9: every file that is left can be read", tried, sum(t.unreadable for t in tallies.values())],
            ["kill -9: the same command ends with the same bytes", tried, sum(t.different for t in tallies.values())],
            ["kill -9: no process is left over", tried, sum(t.orphans for t in tallies.values())],
        ],
        "notes": [f"Kills at random moments of the work: {counts}."],
    }
