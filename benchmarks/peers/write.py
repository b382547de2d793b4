"""Write the reference vectors: ``python -m benchmarks.peers.write [TOPIC …] [--out FOLDER] [--check]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers.settings import child_environment
from benchmarks.peers.vectors import TOPICS

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[2]
_REFERENCE = _ROOT / "tests" / "reference"


def main(arguments: list[str] | None = None) -> int:
    """Write every topic asked for (default: all); 1 if a peer fails or, with ``--check``, if a file would change."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.write", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}; default: all")
    parser.add_argument("--out", type=Path, default=_REFERENCE, help="default: tests/reference")
    parser.add_argument("--check", action="store_true", help="write elsewhere and compare; change nothing")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.topics) - set(TOPICS))
    if unknown:
        parser.error(f"unknown topic {unknown[0]!r} (known: {', '.join(TOPICS)})")
    topics = asked.topics or list(TOPICS)
    if not asked.check:
        return _write(topics, asked.out)
    with tempfile.TemporaryDirectory() as folder:
        return _write(topics, Path(folder)) or _compare(topics, Path(folder), asked.out)


def _write(topics: list[str], folder: Path) -> int:
    failed = 0
    for topic in topics:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.peers.vectors", topic, str(folder.resolve())],
            cwd=_ROOT,
            env=child_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        failed += run.returncode != 0
        print(f"{topic:22} {'written' if run.returncode == 0 else 'FAILED'}", flush=True)
        if run.returncode != 0:
            print(run.stderr, file=sys.stderr)
    return min(failed, 1)


def _compare(topics: list[str], fresh: Path, committed: Path) -> int:
    changed = [topic for topic in topics if _bytes(fresh, topic) != _bytes(committed, topic)]
    for topic in topics:
        print(f"{topic:22} {'differs' if topic in changed else 'same bytes'}")
    return 1 if changed else 0


def _bytes(folder: Path, topic: str) -> bytes | None:
    path = folder / f"{topic}.json"
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
