"""Write core.txt and dev.txt: every package that `make` installs, with its version and the digests of its files.

    .venv/bin/python requirements/lock.py        after `make test` has set up .venv, with the versions found there

For CPython 3.11 on 64-bit Linux, where it is made: the digest is that of the wheel that pip takes there. torch is not
locked: its builds (for the CPU, for several GPUs) share a version and differ in their digests, so that constraints.txt
alone holds its version; what torch needs besides is in the lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_TO_BUILD = ("editables",)  # what hatchling imports for an editable installation, and does not ask for
_NOT_LOCKED = {"torch", "triton", "weightsmith"}
_HEAD = (
    "# Made by requirements/lock.py; CPython 3.11, 64-bit Linux. All but torch, whose builds differ in their digests.\n"
)


def needed(names: list[str], extras: dict[str, set[str]]) -> set[str]:
    """``names`` and all that they need, with the extras asked for, as installed here."""
    found: set[str] = set()
    todo = [(name, extra) for name in names for extra in ("", *extras.get(name, ()))]
    done: set[tuple[str, str]] = set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        found.add(name)
        for line in metadata.requires(name) or ():
            wanted = Requirement(line)
            environment = {**default_environment(), "extra": extra}
            if wanted.marker is None or wanted.marker.evaluate(environment):
                todo += [(canonicalize_name(wanted.name), each) for each in ("", *wanted.extras)]
    return found


def locked(names: set[str]) -> dict[str, str]:
    """The entry of each package: its version as installed here, and the digest of the wheel that pip takes for it."""
    wanted = [f"{name}=={metadata.version(name)}" for name in sorted(names)] + list(_TO_BUILD)
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    command += ["--only-binary", ":all:", "--report", "-", *wanted]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    entries = {}
    for item in report["install"]:
        name, version = canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"]
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        entries[name] = f"{name}=={version} \\\n    --hash=sha256:{digest}\n"
    return entries


def main() -> None:
    """Write both files."""
    core = needed(["weightsmith", "hatchling"], {}) - _NOT_LOCKED
    entries = locked(needed(["weightsmith", "hatchling"], {"weightsmith": {"dev"}}) - _NOT_LOCKED)
    here = Path(__file__).parent
    (here / "core.txt").write_text(_HEAD + "".join(entries[name] for name in sorted(core | set(_TO_BUILD))))
    (here / "dev.txt").write_text(_HEAD + "".join(entries[name] for name in sorted(entries)))


if __name__ == "__main__":
    main()
