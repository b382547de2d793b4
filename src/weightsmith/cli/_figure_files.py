"""Where a command writes: figures into a folder or as a file whose suffix sets the format, CSV to a file or stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.journal import claimed
from weightsmith.core.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "HELD",
    "check_targets",
    "check_writable",
    "figures_of",
    "hold",
    "is_figure_file",
    "is_stdout",
    "write_csv",
    "write_figures",
]

HELD = contextlib.ExitStack()
"""The locks of the running command; released when it ends."""

_SUFFIXES = (".svg", ".png", ".pdf")


def check_targets(to_files: Mapping[str, Path | None], to_folders: Mapping[str, Path | None]) -> None:
    """Check before any work that the outputs can be written."""
    for option, path in (*to_files.items(), *to_folders.items()):
        if path is None:
            continue
        if option in to_files and (not path.name or path.is_dir()):
            raise UsageError(f"{option} writes a file, but {path} is a folder")
        if option in to_folders and path.exists() and not path.is_dir():
            raise UsageError(f"{option} writes into a folder, but {path} is a file")
        folder = path if path.is_dir() else path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise FileRefused(path, f"cannot be written: {folder} is not a folder that can be written to")


def hold(folder: Path | None = None, *, file: Path | None = None) -> None:
    """Lock a folder or a file until the command ends, so that no second process writes there."""
    if folder is not None:
        HELD.enter_context(claimed(folder))
    if file is not None:
        HELD.enter_context(claimed(file.parent, file.name))


def is_stdout(path: Path | None) -> bool:
    """Whether ``-`` was given in place of a file, to print the text."""
    return path is not None and str(path) == "-"


def write_csv(path: Path, text: str) -> list[Path]:
    """Write the text to the file, or print it instead of the usual output; return the written files."""
    if not is_stdout(path):
        return [write_atomic(path, text)]
    sys.stdout.write(text)
    return []


def check_writable(
    csv: Path | None, figures: Path | None, folder: Path | None = None, *, as_json: bool = False
) -> None:
    """Check before any work that the paths of --csv, --figures and --out can be written."""
    if as_json and is_stdout(csv):
        raise UsageError("--json and --csv - both print to stdout: give one of them, or a file for the CSV")
    to_files, to_folders = {"--csv": None if is_stdout(csv) else csv}, {"--out": folder}
    if figures is not None:
        (to_files if is_figure_file(figures) else to_folders)["--figures"] = figures
    check_targets(to_files, to_folders)


def figures_of(asked: Path | None, folder: Path | None, inside: str = "figures") -> Path | None:
    """Where figures are written: the given path, else ``inside`` the result's folder; ``none`` draws nothing.

    >>> figures_of(None, Path("runs/a")).as_posix(), figures_of(Path("none"), Path("runs/a"))
    ('runs/a/figures', None)
    """
    if asked is not None:
        return None if str(asked).lower() == "none" else asked
    return None if folder is None else folder / inside


def is_figure_file(path: Path) -> bool:
    """Whether ``path`` is a figure file, not a folder; an unsupported suffix raises.

    >>> is_figure_file(Path("angles.PNG")), is_figure_file(Path("figures"))
    (True, False)
    """
    if path.is_dir() or not path.suffix:
        return False
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"--figures {path}: give a .svg, .png or .pdf file; a folder must exist or have no dot in its name"
        )
    return True


def write_figures(target: Path, figures: Mapping[str, Callable[[], Figure]]) -> list[Path]:
    """Write each figure to ``target/name.svg``, or to the file ``target`` (several figures: ``stem-name``)."""
    from weightsmith.reporting.figures.style import save_figure

    to_file = is_figure_file(target)
    written = []
    for name, draw in figures.items():
        if not to_file:
            path = target / f"{name}.svg"
        elif len(figures) == 1:
            path = target
        else:
            path = target.with_name(f"{target.stem}-{name.replace('/', '-')}{target.suffix}")
        written.append(save_figure(draw(), path))
    return written
