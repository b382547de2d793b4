"""The command line: parse, call verbs, print records. No maths lives here."""

from weightsmith.cli.app import main

__all__ = ["main"]
