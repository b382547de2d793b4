"""What commands that train do with their options."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weightsmith.cli.terminal import say_note
from weightsmith.core.errors import OptionError
from weightsmith.core.text import read_value, split_items

if TYPE_CHECKING:
    from torch import nn

__all__ = ["network_of", "none_or", "seeds_of", "validation_of", "warnings_as_notes", "whole_numbers"]


def none_or(text: str | None) -> str | None:
    """The text form of an option; ``none`` gives None."""
    return None if text is None or text.strip().lower() == "none" else text


def network_of(text: str, factory: str | None = None) -> str | Path | nn.Module:
    """A file or result folder as a path, so that the network's own normalisation is used; with its class, loaded."""
    if factory is None:
        return Path(text) if Path(text).exists() else text
    from weightsmith.networks.files import load

    return load(text, network=factory)


def validation_of(asked: float | None, present: bool) -> float | None:
    """The validation share: 0.1 by default if the data have no validation split."""
    if asked is None:
        return None if present else 0.1
    return asked or None


def whole_numbers(text: str | None, option: str) -> tuple[int, ...]:
    """``0,5`` as numbers."""
    if text is None:
        return ()
    plain, named = split_items(text, text)
    values: list[Any] = [read_value(item) for item in plain]
    if named or not all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values):
        raise OptionError(f"{option} takes whole numbers such as 0,1,2, not {text!r}")
    return tuple(values)


def seeds_of(text: str) -> tuple[int, ...]:
    """``0,1,2`` and ``0-2`` are these three seeds. A number alone is refused, 0 apart: it could mean how many.

    >>> seeds_of("0,1,2"), seeds_of("0-2"), seeds_of("7-7")
    ((0, 1, 2), (0, 1, 2), (7,))
    """
    first, dash, last = (part.strip() for part in text.partition("-"))
    if dash and first.isdigit() and last.isdigit() and int(first) <= int(last):
        return tuple(range(int(first), int(last) + 1))
    if first.isdigit() and not dash and int(first):
        count = int(first)
        raise OptionError(
            f"--seeds {count} could be a seed or how many: write 0-{count - 1}, or {count}-{count} for one"
        )
    found = () if dash else whole_numbers(text, "--seeds")
    if not found:
        raise OptionError(f"--seeds takes a list such as 0,1,2, or 0-9 for ten seeds, not {text!r}")
    return found


@contextmanager
def warnings_as_notes(shown: bool = True) -> Iterator[None]:
    """Show warnings of training as notes, at once and in one line; other warnings pass unchanged.

    They are not what ``--quiet`` leaves out; of several processes that train together one shows them.
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
