"""Walk folders for results: which of them hold a record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading
from weightsmith.core.text import natural

__all__ = ["RECORD", "STUDY", "Folders", "record_in", "result_folders"]

RECORD, STUDY = "record.json", "study.json"
_FOLDERS_DEEP, _MOST_FOLDERS = 6, 5_000


def record_in(folder: Path) -> Path | None:
    """The file of the record in a result folder, or None; a study writes its own name for it."""
    return next((folder / name for name in (RECORD, STUDY) if (folder / name).exists()), None)


def result_folders(top: Path, refused: list[FileRefused] | None = None, *, below: bool = False) -> list[Path]:
    """The folders that hold a record, only those ``below`` the top if set; result folders are not searched further.

    Folders that cannot be searched are appended to ``refused``; without it the first of them is raised.
    """

    def is_result(folder: Path) -> bool:
        return record_in(folder) is not None and not (below and folder == top)

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
