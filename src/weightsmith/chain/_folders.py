"""The folders below a folder, as far as anybody has laid out results by hand, and what is further away than that."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import reading

__all__ = ["Folders"]


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
