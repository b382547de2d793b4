"""The command line: parse options, call verbs, print records; no computation."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code; an interrupt during its imports ends it likewise."""
    try:
        from weightsmith.cli.app import main as run

        run(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("weightsmith: interrupted\n")
        sys.exit(130)
    finally:
        if arguments is None:  # a process of its own: a second Ctrl-C while it ends has nothing left to stop
            signal.signal(signal.SIGINT, signal.SIG_IGN)
