"""The folders searched for data files, and the cache.

    WEIGHTSMITH_DATA/<name>     a folder of the user's, read only
    <cache>/data/<name>         files of `weightsmith data fetch`
    <cache>/decoded             decoded pixels, rebuilt when missing

The cache is WEIGHTSMITH_CACHE, else $XDG_CACHE_HOME/weightsmith, else ~/.cache/weightsmith. The variables are read at
each call, so a test or a notebook can change them.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "data_folders", "fetched_folder"]


def cache_folder() -> Path:
    """The folder that weightsmith writes to; it may be emptied at any time."""
    own = os.environ.get("WEIGHTSMITH_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "weightsmith"


def fetched_folder(name: str) -> Path:
    """The folder in the cache that holds the fetched files of the data set ``name``."""
    return cache_folder() / "data" / name


def data_folders(name: str) -> tuple[Path, ...]:
    """The folders in which the data set ``name`` is looked for, in order."""
    given = os.environ.get("WEIGHTSMITH_DATA")
    return (*((Path(given).expanduser() / name,) if given else ()), fetched_folder(name))
