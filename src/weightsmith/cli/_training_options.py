"""Option handling shared by the commands that train."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from weightsmith.cli.terminal import say_note

if TYPE_CHECKING:
    from torch import nn

__all__ = ["network_of", "validation_of", "warnings_as_notes"]


def network_of(text: str, factory: str | None = None) -> str | Path | nn.Module:
    """A file or result folder as a path, so that its own normalisation is used; with ``factory``, a loaded network."""
    if factory is None:
        return Path(text) if Path(text).exists() else text
    from weightsmith.networks.files import load

    return load(text, network=factory)


def validation_of(asked: float | None, present: bool) -> float | None:
    """The validation share: 0.1 by default if the data have no validation split."""
    if asked is None:
        return None if present else 0.1
    return asked or None


@contextmanager
def warnings_as_notes(shown: bool = True) -> Iterator[None]:
    """Show warnings of training as notes, at once and in one line; other warnings pass unchanged.

    ``--quiet`` does not hide them; of several processes that train together, one shows them.
    """
    from weightsmith.training.plan import TrainingWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", TrainingWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, TrainingWarning):
                usual(message, category, filename, lineno, file, line)
            elif shown:
                say_note(f"warning: {message}")

        warnings.showwarning = show
        yield
