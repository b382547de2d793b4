"""Find the results under a path: each with its location, and the unreadable ones by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from weightsmith.chain.reading.results import RECORD, Result, natural, read_result, read_results, record_in
from weightsmith.chain.results import ChainRecord
from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.networks.readers.detect import WEIGHT_SUFFIXES

__all__ = ["Folders", "Placed", "results_at"]


_FOLDERS_DEEP, _MOST_FOLDERS = 6, 5_000


class Placed(NamedTuple):
    """A result, and its parent folders, which distinguish equal names."""

    result: Result
    before: tuple[str, ...] = ()


def results_at(path: Path, name: str | None = None, refused: list[FileRefused] | None = None) -> list[Placed]:
    """The results at ``path``: a file, a result folder, or a folder with result folders in it.

    Names are relative paths; ``name`` replaces that of a single result, or prefixes those of several.
    Unreadable results are appended to ``refused`` (None: raise at once) and skipped; of a chain whose
    stages have changed, the remaining ones are read separately.
    """
    if not path.is_dir() or _has_record(path):
        return _read_one(path, name, path.absolute().parent, refused)
    folders = _result_folders(path, refused)
    if not folders:
        return _read_one(path, name, path.absolute().parent, refused)  # raises that there is none
    head = "" if name is None else f"{name}/"
    found: list[Placed] = []
    for folder in folders:
        found += _read_one(folder, head + folder.relative_to(path).as_posix(), path.absolute(), refused)
    return found


def _read_one(path: Path, called: str | None, before: Path, refused: list[FileRefused] | None) -> list[Placed]:
    """A result with its evaluation and stages, or as much as can be read of them."""
    try:
        return _placed(_read(path), path, called, before)
    except FileRefused as error:
        if refused is None or not path.exists():
            raise
        if error.path not in {each.path for each in refused}:  # a stage may be found through its chain and by itself
            refused.append(error)
    if not path.is_dir():
        return []
    try:
        own = read_result(path)
    except FileRefused:
        return []
    if not isinstance(own.record, ChainRecord):
        return _placed([own], path, called, before)
    head = "" if called is None else f"{called}/"
    found: list[Placed] = []
    for folder in _result_folders(path, refused, below=True):
        relative = folder.relative_to(path).as_posix()
        found += _read_one(folder, head + relative, path.absolute() if called is None else before, refused)
    return found


def _result_folders(top: Path, refused: list[FileRefused] | None, *, below: bool = False) -> list[Path]:
    """The folders that hold a record, only those ``below`` the top if set; result folders are not searched further."""

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
    return record_in(folder) is not None


def _read(path: Path) -> list[Result]:
    try:
        return read_results(path)
    except FileRefused as error:
        if path.suffix.lower() in WEIGHT_SUFFIXES and path.is_file():
            raise FileRefused(
                path, f"is a network, not a result: give the folder that --out of a command wrote, or its {RECORD}"
            ) from error
        raise


def _placed(results: Sequence[Result], path: Path, called: str | None, before: Path) -> list[Placed]:
    """The first result and its evaluation are those of the path itself; stages of a chain have their own names."""
    own, chain = results[0].name, isinstance(results[0].record, ChainRecord)
    mine, stages = (results[:1], results[1:]) if chain else (results, ())
    named = [each if called is None else each._replace(name=called + each.name.removeprefix(own)) for each in mine]
    return [
        *(Placed(each, before.parts[1:]) for each in named),
        *(Placed(each, path.absolute().parts[1:]) for each in stages),
    ]


# A bounded walk over the folders below a folder.


class Folders:
    """``top`` and the folders below it, each before those in it, ``seed-2`` before ``seed-10``.

    At most ``levels`` deep and ``most`` in number; hidden folders and links are skipped, and a folder for which ``end``
    is true is not searched further. After the walk, ``deeper`` lists folders whose subfolders were not
    entered, ``too_many`` says that the limit was reached, and ``refused`` are those that cannot be read.
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
        return [folder / name for name in sorted(found, key=natural) if not name.startswith(".")]
