"""Load data sets by name: find the files and read them.

>>> data = load("digits")
>>> data
Data('digits', train 1437, test 360, input (1, 8, 8), 10 classes)
>>> load("cifar11")
Traceback (most recent call last):
weightsmith.core.errors.UnknownName: unknown data set 'cifar11'; did you mean 'cifar10'? ...

Files are looked for at the given ``path``, else in WEIGHTSMITH_DATA/<name>, else in the cache. Nothing is downloaded
without ``download=True``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weightsmith.core.errors import DataMissing, FileRefused, UnknownName, UsageError
from weightsmith.core.records import Record
from weightsmith.data.arrays import Arrays, Files
from weightsmith.data.catalogue import CATALOGUE, KnownSet
from weightsmith.data.coerce import as_data
from weightsmith.data.download import REMOTES, fetch
from weightsmith.data.folders import data_folders, fetched_folder
from weightsmith.data.formats.folder import Folder
from weightsmith.data.formats.parquet_images import Parquet
from weightsmith.data.formats.table import Table
from weightsmith.data.normalise import NONE, Normalisation
from weightsmith.data.sources import Source
from weightsmith.data.splits import stratified_split
from weightsmith.data.tensors import SPLITS, Data, Split

__all__ = [
    "Data",
    "EmbeddedDigits",
    "Folder",
    "Known",
    "Parquet",
    "Source",
    "Split",
    "Table",
    "as_data",
    "check_name",
    "fetch_data",
    "known",
    "load",
    "load_all",
    "source_of",
]


def load(
    name: str | Path | Source,
    *,
    path: str | Path | None = None,
    download: bool = False,
    splits: Sequence[str] = ("train", "test"),
    **options: Any,
) -> Data:
    """The data set ``name``: a known one, ``folder:PATH``, ``table:PATH``, ``parquet:PATH``, a path or a source object.

    ``path`` is a folder or file to read instead of looking for one; ``download`` fetches a known set that was not
    found; ``splits`` are the ones to read. Further options are those of :class:`Folder`, :class:`Table` and
    :class:`Parquet`, whose rows are all ``train`` unless they are divided.
    """
    _check_splits(splits)
    if not isinstance(name, str | Path | Source):
        raise UsageError(
            f"a data set is loaded by its name, a path or a Table or Folder, not {type(name).__name__}; arrays (x, y), "
            "Datasets and Data go to train, spike and the other verbs as they are"
        )
    source = source_of(name, path, options)
    if source is not None:
        return _own(source, splits)
    check_name(str(name))
    name = str(name)
    if options:
        raise UsageError(f"{name} takes no option {', '.join(options)}; {' and '.join(Source.members)} do")
    entry = CATALOGUE[name]
    absent = [split for split in splits if split not in entry.sizes]
    if absent:
        raise UsageError(f"{name} comes without a {absent[0]} split; make one with with_validation(0.1)")
    files = _files(entry, None if path is None else Path(path).expanduser(), splits, download)
    return _data(name, files.read(splits), files.origin, entry.normalisation, entry.classes)


def source_of(
    name: str | Path | Source, path: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> Source | None:
    """The user's own data that ``name`` describes, without reading them; None for a known set or an unknown name."""
    values = dict(options or {})
    if isinstance(name, Path) or (isinstance(name, str) and name not in CATALOGUE and Path(name).exists()):
        return _kind_of(Path(name)).from_values({"path": str(name), **values})
    if isinstance(name, Source):
        return name
    kind = name.partition(":")[0].strip()
    return _source(name, kind, path, values) if kind in Source.members else None


def _kind_of(path: Path) -> type[Source]:
    """The kind of source for a path without a kind."""
    holds_parquet = path.suffix.lower() == ".parquet" or (path.is_dir() and any(path.glob("*.parquet")))
    return Parquet if holds_parquet else Folder if path.is_dir() else Table


def check_name(name: str) -> None:
    """Refuse a name that :func:`load` does not know, without reading any files."""
    kind = name.partition(":")[0].strip()
    if name not in CATALOGUE and kind not in Source.members and not _exists(Path(name)):
        if Path(name).suffix or len(Path(name).parts) > 1:  # a path, not a name
            raise FileRefused(name, f"no such file or folder (looked for in {Path.cwd()})")
        raise UnknownName("data set", name, [*CATALOGUE, *(f"{member}:PATH" for member in Source.members)])


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long
        return False


def load_all(name: str | Path | Source, *, path: str | Path | None = None) -> Data:
    """The data with all their splits, whether a known set or the user's own."""
    entry = CATALOGUE.get(name) if isinstance(name, str) else None
    return load(name, path=path, splits=SPLITS if entry is None else tuple(entry.sizes))


def fetch_data(name: str, *, progress: Callable[[str, int, int | None], None] | None = None) -> Path:
    """Fetch the files of a known data set into the cache, and return their folder.

    ``progress`` is called with the file's name, the bytes so far and the total bytes.
    """
    if name not in CATALOGUE:
        raise UnknownName("data set", name, CATALOGUE)
    if name not in REMOTES:
        raise UsageError(f"{name} needs no fetching: it comes with scikit-learn")
    folder = fetched_folder(name)
    for remote in REMOTES[name]:
        report = None if progress is None else _naming(progress, remote.file)
        try:
            fetch(remote.url, folder / remote.file, sha256=remote.sha256, size=remote.size, progress=report)
        except FileRefused as error:
            files = ", ".join(each.file for each in REMOTES[name])
            way = f"without internet, put {files} into {folder}, or {name}/ into the folder WEIGHTSMITH_DATA"
            raise FileRefused(error.path, f"{error.reason}; {way}") from error
    return folder


@dataclass(frozen=True, eq=False)
class Known(Record):
    """The description of a data set, without reading it; ``found`` are the folders where it is complete now."""

    name: str
    description: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    sizes: dict[str, int]
    normalisation: str
    files: tuple[str, ...]
    found: tuple[str, ...]
    download_bytes: int | None


def known() -> tuple[Known, ...]:
    """Every data set that :func:`load` knows, and the kinds of user data."""
    sets = [
        Known(
            name=entry.name,
            description=entry.description,
            shape=entry.shape,
            classes=entry.classes,
            sizes=entry.sizes,
            normalisation=str(entry.normalisation),
            files=entry.files,
            found=_found(entry),
            download_bytes=sum(r.size for r in REMOTES[entry.name]) if entry.name in REMOTES else None,
        )
        for entry in CATALOGUE.values()
    ]
    own = [
        Known(f"{name}:PATH", (member.__doc__ or "").strip(), (), (), {}, str(NONE), (), (), None)
        for name, member in Source.members.items()
    ]
    return (*sets, *own)


def _found(entry: KnownSet) -> tuple[str, ...]:
    if entry.find is None:
        return (EmbeddedDigits.origin,)
    found = (entry.find(folder, tuple(entry.sizes)) for folder in data_folders(entry.name))
    return tuple(files.origin for files in found if files is not None)


def _files(entry: KnownSet, path: Path | None, splits: Sequence[str], download: bool) -> Files:
    """The files of the set in the first folder that has them."""
    if entry.find is None:
        if path is not None:
            raise UsageError(f"{entry.name} comes with scikit-learn and takes no path")
        return EmbeddedDigits()
    wanted = f"the {' and '.join(splits)} split of {entry.name} ({', '.join(entry.files)})"
    if path is not None:
        found = entry.find(path, splits)
        if found is None:
            raise FileRefused(path, f"does not hold {wanted}" if path.exists() else "no such file or folder")
        return found
    folders = data_folders(entry.name)
    for folder in folders:
        found = entry.find(folder, splits)
        if found is not None:
            return found
    if download:
        found = entry.find(fetch_data(entry.name), splits)
        if found is not None:
            return found
    looked = " or ".join(map(str, folders))
    raise DataMissing(
        entry.name,
        f"its files are not in {looked}; fetch them with `weightsmith data fetch {entry.name}`, give path=, or set "
        f"WEIGHTSMITH_DATA to a folder that holds {entry.name}/",
    )


def _source(name: str, kind: str, path: str | Path | None, options: dict[str, Any]) -> Source:
    """The option object that the text form and the keywords describe together."""
    if ":" not in name:
        return Source.member(kind).from_values(options if path is None else {"path": str(path), **options})
    if path is not None:
        raise UsageError(f"{name}: the path is given twice, here and as path={str(path)!r}")
    written = {key: value for key, value in Source.parse(name).to_dict().items() if key != "name"}
    return Source.member(kind).from_values(written | options)


def _own(source: Source, splits: Sequence[str]) -> Data:
    data = _data(str(source), source.read(), source.path, source.normalisation, ())
    # The test rows first, so that they do not depend on the validation split.
    data = data.with_test(source.test) if source.test else data
    data = data.with_validation(source.validation) if source.validation else data
    absent = {split: None for split in SPLITS if split not in splits}
    if not any(split in splits for split in data.splits):
        only = f"only {', '.join(data.splits)}"
        way = "; test=0.2 after its path makes one from training rows" if data.train is not None else ""
        raise UsageError(f"{source} has no {' or '.join(splits)} split, {only}{way}")
    return dataclasses.replace(data, **absent)  # type: ignore[arg-type]


def _data(
    name: str, parts: dict[str, Arrays], origin: str, normalisation: Normalisation, classes: tuple[str, ...]
) -> Data:
    import torch

    made = {
        split: Split(
            torch.from_numpy(x) if isinstance(x := part.x, np.ndarray) else x,
            torch.from_numpy(part.y),
            None if part.groups is None else torch.from_numpy(part.groups),
            None if part.weights is None else torch.from_numpy(part.weights),
        )
        for split, part in parts.items()
    }
    return Data(
        name,
        train=made.get("train"),
        validation=made.get("validation"),
        test=made.get("test"),
        classes=next((part.classes for part in parts.values() if part.classes), classes),
        normalisation=normalisation,
        origin=origin,
        notes=tuple(dict.fromkeys(note for part in parts.values() for note in part.notes)),
    )


def _check_splits(splits: Sequence[str]) -> None:
    if isinstance(splits, str) or not splits:
        raise UsageError(f"splits must be a list of names, such as ('train', 'test'), not {splits!r}")
    for split in splits:
        if split not in SPLITS:
            raise UnknownName("split", split, SPLITS)


def _naming(progress: Callable[[str, int, int | None], None], file: str) -> Callable[[int, int | None], None]:
    return lambda done, total: progress(file, done, total)


# The handwritten digits that come with scikit-learn: real data without a download.
#
# 1,797 grey images of 8 × 8 pixels (Alpaydin and Kaynak 1998, the UCI test set). A pixel is a count from 0 to 16; it is
# divided by 16, which is exact in floats. The split is fixed: 1,437 rows to train and 360 to test, stratified, seed 0.


class EmbeddedDigits:
    """The digits, with the interface of :class:`~weightsmith.data.arrays.Files`."""

    origin = "scikit-learn"

    def read(self, splits: Sequence[str]) -> dict[str, Arrays]:
        """Images ``(n, 1, 8, 8)`` in [0, 1] and labels of each split."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
        y = labels.astype(np.int64)
        rows = dict(zip(("train", "test"), stratified_split(y, (1437, 360), seed=0), strict=True))
        return {split: Arrays(x[rows[split]], y[rows[split]]) for split in splits}
