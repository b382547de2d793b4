"""The results at a place on disk: each with where it lies, and those that cannot be read by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from weightsmith.chain.reading.results import RECORD, Result, read_result, read_results
from weightsmith.chain.results import ChainRecord
from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.detect import WEIGHT_SUFFIXES

__all__ = ["Folders", "Placed", "results_at"]


_FOLDERS_DEEP, _MOST_FOLDERS = 6, 5_000


class Placed(NamedTuple):
    """A result, and the folders before its name, which tell equal names apart."""

    result: Result
    before: tuple[str, ...] = ()


def results_at(place: Path, name: str | None = None, refused: list[FileRefused] | None = None) -> list[Placed]:
    """The results at ``place``: a file, a result folder, or a folder with result folders in it.

    They are called by their way from there; a ``name`` stands for that of the one result, or before those of several.
    What is there but cannot be read goes to the list ``refused`` (None: is refused at once) and the rest is taken; of a
    chain whose stages are not as it left them, those that are still there, each for itself.
    """
    if not place.is_dir() or _has_record(place):
        return _read_one(place, name, place.absolute().parent, refused)
    folders = _result_folders(place, refused)
    if not folders:
        return _read_one(place, name, place.absolute().parent, refused)  # which says that there is none
    head = "" if name is None else f"{name}/"
    found: list[Placed] = []
    for folder in folders:
        found += _read_one(folder, head + folder.relative_to(place).as_posix(), place.absolute(), refused)
    return found


def _read_one(place: Path, called: str | None, before: Path, refused: list[FileRefused] | None) -> list[Placed]:
    """A result, what lies beside it and its stages; or what can be had of them."""
    try:
        return _placed(_read(place), place, called, before)
    except FileRefused as error:
        if refused is None or not place.exists():
            raise
        if error.path not in {each.path for each in refused}:  # a stage may be met by its chain and by itself
            refused.append(error)
    if not place.is_dir():
        return []
    try:
        own = read_result(place)
    except FileRefused:
        return []
    if not isinstance(own.record, ChainRecord):
        return _placed([own], place, called, before)
    head = "" if called is None else f"{called}/"
    found: list[Placed] = []
    for folder in _result_folders(place, refused, below=True):
        way = folder.relative_to(place).as_posix()
        found += _read_one(folder, head + way, place.absolute() if called is None else before, refused)
    return found


def _result_folders(top: Path, refused: list[FileRefused] | None, *, below: bool = False) -> list[Path]:
    """The folders that hold a record, ``below`` the top only; nothing is looked for inside one of them."""

    def is_result(folder: Path) -> bool:
        return _has_record(folder) and not (below and folder == top)

    walk = Folders(top, levels=_FOLDERS_DEEP, most=_MOST_FOLDERS, end=is_result)
    found = [folder for folder in walk if is_result(folder)]
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


def _placed(results: Sequence[Result], place: Path, called: str | None, before: Path) -> list[Placed]:
    """The first is the place's own, and so is what lies beside it; stages of a chain have names of their own."""
    own, chain = results[0].name, isinstance(results[0].record, ChainRecord)
    mine, stages = (results[:1], results[1:]) if chain else (results, ())
    named = [each if called is None else each._replace(name=called + each.name.removeprefix(own)) for each in mine]
    return [
        *(Placed(each, before.parts[1:]) for each in named),
        *(Placed(each, place.absolute().parts[1:]) for each in stages),
    ]


# The folders below a folder, as far as anybody has laid out results by hand, and what is further away than that.


class Folders:
    """``top`` and the folders below it, each before those in it, ``seed-2`` before ``seed-10``.

    At most ``levels`` down and ``most`` in number; hidden folders and links are not followed, and nothing is looked for
    inside a folder that is an ``end``. Once they are walked through, ``deeper`` are folders whose own folders were not
    entered, ``too_many`` says that the number ended it, and ``refused`` are those that cannot be read.
    """

    def __init__(self, top: Path, *, levels: int, most: int, end: Callable[[Path], bool]) -> None:
        self.top, self.levels, self.most, self.end = top, levels, most, end
        self.deeper: list[Path] = []
        self.refused: list[FileRefused] = []
        self.too_many = False

    def __iter__(self) -> Iterator[Path]:
        waiting, seen = [(self.top, 0)], 0
        while waiting:
            if seen == self.most:
                self.too_many = True
                return
            folder, depth = waiting.pop()
            seen += 1
            yield folder
            if self.end(folder):
                continue
            inside = self._inside(folder)
            if depth < self.levels:
                waiting.extend((inner, depth + 1) for inner in reversed(inside))
            elif inside:
                self.deeper.append(folder)

    def _inside(self, folder: Path) -> list[Path]:
        try:
            with reading(folder), os.scandir(folder) as entries:
                found = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
        except FileRefused as error:
            self.refused.append(error)
            return []
        return [folder / name for name in sorted(found, key=_natural) if not name.startswith(".")]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdecimal(), int(part[:18]) if part.isdecimal() else 0, part) for part in parts]
