"""The results at a place on disk: each with where it lies, and those that cannot be read by their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from weightsmith.chain._folders import Folders
from weightsmith.chain.reading import RECORD, Result, read_result, read_results
from weightsmith.chain.results import ChainRecord
from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.detect import WEIGHT_SUFFIXES

__all__ = ["Placed", "results_at"]

_FOLDERS_DEEP, _MOST_FOLDERS = 6, 5_000


class Placed(NamedTuple):
    """A result, and the folders before its name, which tell equal names apart."""

    result: Result
    before: tuple[str, ...] = ()


def results_at(place: Path, name: str | None = None, refused: list[FileRefused] | None = None) -> list[Placed]:
    """The results at ``place``: a file, a result folder, or a folder with result folders in it.

    They are called by their way from there; a ``name`` stands for that of the one result, or before those of several.
    What cannot be read goes to the list ``refused`` (None: is refused at once), and what then is left is taken: of a
    chain whose stages are not as it left them, those that are still there, each for itself.
    """
    if not place.exists() or not place.is_dir() or (place / RECORD).exists():
        folders = [place]
    else:
        folders = _result_folders(place, refused)
        if not folders and not refused:
            read_results(place)  # says that there is nothing
    found: list[Placed] = []
    for folder in folders:
        called = name if folder == place else folder.relative_to(place).as_posix()
        if name is not None and folder != place:
            called = f"{name}/{called}"
        before = place.absolute().parent if folder == place else place.absolute()
        try:
            found += _placed(_read(folder), folder, called, before)
        except FileRefused as error:
            if refused is None or not place.exists():
                raise
            refused.append(error)
            found += _left_of(folder, called, before, refused)
    return found


def _result_folders(top: Path, refused: list[FileRefused] | None) -> list[Path]:
    """The folders that hold a record; nothing is looked for inside one of them."""
    walk = Folders(top, levels=_FOLDERS_DEEP, most=_MOST_FOLDERS, end=_has_record)
    found = [folder for folder in walk if _has_record(folder)]
    reasons = list(walk.refused)
    if walk.too_many:
        reasons.append(
            FileRefused(top, f"has more than {_MOST_FOLDERS:,} folders in it: name the result folders themselves")
        )
    if reasons and refused is None:
        raise reasons[0]
    if refused is not None:
        refused += reasons
    return found


def _has_record(folder: Path) -> bool:
    return (folder / RECORD).exists()


def _read(place: Path) -> list[Result]:
    try:
        return read_results(place)
    except FileRefused as error:
        if place.suffix.lower() in WEIGHT_SUFFIXES and place.is_file():
            raise FileRefused(
                place, f"is a network, not a result: give the folder that --out of a command wrote, or its {RECORD}"
            ) from error
        raise


def _placed(results: list[Result], place: Path, called: str | None, before: Path) -> Iterator[Placed]:
    """The first is the place's own, and so is what lies beside it; stages of a chain have names of their own."""
    own = results[0].name
    for number, each in enumerate(results):
        if number and isinstance(results[0].record, ChainRecord):
            yield Placed(each, place.absolute().parts[1:])
        else:
            renamed = each if called is None else each._replace(name=f"{called}{each.name.removeprefix(own)}")
            yield Placed(renamed, before.parts[1:])


def _left_of(folder: Path, called: str | None, before: Path, refused: list[FileRefused]) -> list[Placed]:
    """What can be had of a result that was refused as a whole."""
    if not folder.is_dir():
        return []
    try:
        own = read_result(folder)
    except FileRefused:
        return []  # its own record was what was refused
    if not isinstance(own.record, ChainRecord):
        return list(_placed([own], folder, called, before))  # what lies beside it was
    found: list[Placed] = []
    for inner in _result_folders_in(folder):
        found += results_at(inner, None if called is None else f"{called}/{inner.name}", refused)
    return found
