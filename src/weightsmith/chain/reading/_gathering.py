"""Find the results under a path: each with its location, and the unreadable ones by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weightsmith.chain.reading._folders import record_in, result_folders
from weightsmith.chain.reading.results import RECORD, Result, read_result, read_results
from weightsmith.chain.results import ChainRecord
from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.detect import WEIGHT_SUFFIXES

__all__ = ["Placed", "results_at"]


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
    if not path.is_dir() or record_in(path) is not None:
        return _read_one(path, name, path.absolute().parent, refused)
    folders = result_folders(path, refused)
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
    for folder in result_folders(path, refused, below=True):
        relative = folder.relative_to(path).as_posix()
        found += _read_one(folder, head + relative, path.absolute() if called is None else before, refused)
    return found


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
