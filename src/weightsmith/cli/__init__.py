"""The command line: parse options, call verbs, print records; no computation."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; Ctrl-C during the imports exits with the code of an interrupt."""
    try:
        from weightsmith.cli.app import main as run

        run(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("weightsmith: interrupted\n")
        sys.exit(130)
    finally:
        if arguments is None:  # the process is about to exit: ignore a second Ctrl-C
            signal.signal(signal.SIGINT, signal.SIG_IGN)
