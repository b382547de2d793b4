"""The command line: parse options, call verbs, print records; no computation."""

from weightsmith.cli.app import main

__all__ = ["main"]
