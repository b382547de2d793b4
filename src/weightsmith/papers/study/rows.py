"""The data of a study: rows, folds, and the scaling of each fold."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.core.records import digest_of
from weightsmith.core.seeds import subseed
from weightsmith.core.storage import reading
from weightsmith.data.datasets import as_data, load_all
from weightsmith.data.faces.features import FaceFeatures
from weightsmith.data.normalise import NONE
from weightsmith.data.sources import Source
from weightsmith.data.splits import Fold, group_folds, stratified_folds
from weightsmith.data.tensors import Data
from weightsmith.papers.study.study import Scaling

__all__ = ["SCALINGS", "StudyData", "read_study_data", "scaled"]


_COMPONENTS = (5, 5)  # of LPQ and of PHOG, as in the paper


@dataclasses.dataclass(frozen=True)
class StudyData:
    """Labelled rows; ``x`` is rows × features, or face descriptors, whose components are fitted in each fold."""

    name: str
    x: NDArray[np.float32] | FaceFeatures
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    groups: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def features(self) -> int:
        """The number of inputs of a network."""
        return sum(_COMPONENTS) if isinstance(self.x, FaceFeatures) else self.x.shape[1]

    def folds(self, count: int, seed: int, repeat: int) -> tuple[Fold, ...]:
        """Stratified folds, different in each repeat and the same for every network and method."""
        drawn = subseed(seed, "study", repeat)
        if self.groups is not None:
            return group_folds(self.y, self.groups, count, drawn)
        return stratified_folds(self.y, count, drawn)

    def inputs(self, train: NDArray[np.int64], how: Scaling) -> NDArray[np.float32]:
        """All rows as network inputs; components and scaling are fitted on the rows ``train`` only."""
        x = self.x.components(train, *_COMPONENTS) if isinstance(self.x, FaceFeatures) else self.x
        return scaled(x, train, how)

    def digest(self) -> str:
        """SHA-256 of inputs, labels and class names."""
        parts = [self.x.lpq, self.x.phog] if isinstance(self.x, FaceFeatures) else [self.x]
        return digest_of("\n".join([*map(digest_of, parts), digest_of(self.y), *self.classes]))

    def check_folds(self, count: int) -> None:
        """Refuse a class with fewer rows than folds."""
        sizes = np.bincount(self.y, minlength=len(self.classes))
        least = int(sizes.argmin())
        if count > sizes[least]:
            raise UsageError(
                f"{self.name}: the class {self.classes[least]!r} has {sizes[least]} rows, too few for {count} folds; "
                f"use at most {max(int(sizes[least]), 1)}, or leave the class out"
            )


def read_study_data(given: Any) -> StudyData:
    """All rows of ``given``, with its splits joined, since folds divide them again.

    ``given`` may be any data that ``reduce`` accepts (a name, a table, arrays …), face descriptors, or a file of these.
    Images become rows of pixels, in [0, 1] if they are bytes.
    """
    if isinstance(given, str | Path) and _holds_faces(Path(given)):
        given = FaceFeatures.load(given)
    data = _of_faces(given) if isinstance(given, FaceFeatures) else _of_rows(_as_data(given))
    present = np.unique(data.y)
    if len(present) < 2:
        raise DataMismatch(
            f"{data.name}: all {len(data)} rows have the class {data.classes[int(present[0])]!r}; with one class "
            "every network is right, and its units cannot be compared"
        )
    return data


def _holds_faces(path: Path) -> bool:
    if path.suffix.lower() != ".npz" or not path.is_file():
        return False
    with reading(path):
        if not zipfile.is_zipfile(path):
            return False  # the reader of tables raises the error
        with zipfile.ZipFile(path) as archive:
            return "lpq.npy" in archive.namelist()


def _as_data(given: Any) -> Data:
    return load_all(given) if isinstance(given, str | Path | Source) else as_data(given)


def _of_faces(faces: FaceFeatures) -> StudyData:
    left_out = [f"{len(faces.left_out)} images left out: {faces.left_out[0].reason} …"] if faces.left_out else []
    notes = (
        *faces.notes,
        *left_out,
        "principal components of LPQ and of PHOG are fitted on the training rows of each fold",
    )
    return StudyData("faces", faces, faces.labels, faces.classes, notes)


def _of_rows(data: Data) -> StudyData:
    parts = list(data.splits.values())
    pixels = torch.cat([part.x for part in parts]).flatten(1)
    # Bytes are divided by 255; a stored mean and deviation would come from other folds.
    x = np.ascontiguousarray(NONE.apply(pixels).numpy(), np.float32)
    y = torch.cat([part.y for part in parts]).numpy()
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise DataMismatch(f"{data.name}: row {row} holds nan or infinity")
    classes = data.classes or tuple(map(str, range(int(y.max()) + 1)))
    notes = list(data.notes)
    if len(parts) > 1:
        notes.append(f"the splits {', '.join(data.splits)} are joined: folds divide all {len(y)} rows anew")
    steady = np.flatnonzero((x == x[:1]).all(axis=0))
    if len(steady) and len(data.input_shape) == 1:
        first = int(steady[0])
        raise DataMismatch(
            f"{data.name}: input column {first + 1} of {x.shape[1]} (the label not counted) is {x[0, first]:g} in "
            "every row: it has no information and cannot be scaled; leave it out (table:PATH,ignore=NAME)"
        )
    if len(steady):
        notes.append(f"{len(steady)} of {x.shape[1]} pixels have the same value in every image and stay as they are")
    numbered = [part.groups for part in parts if part.groups is not None]
    groups = torch.cat(numbered).numpy() if numbered else None
    return StudyData(data.name, x, y, classes, tuple(notes), groups)


# Feature scalings of a study, fitted only on the training rows of a fold.
#
#     zscore   (x − mean) / deviation        per column, over the training rows
#     minmax   (x − least) / (most − least)  per column; training rows lie in [0, 1], test rows may lie outside
#     rowl2    x / ‖x‖                       per row; nothing is fitted
#     none     x
#
# The paper of seed 003 says that its features were "normalized" but not how. The scaling determines how many units are
# close to each other, so it is an option that is recorded with every result.


SCALINGS: tuple[Scaling, ...] = get_args(Scaling)


def scaled(x: NDArray[Any], train: NDArray[np.int64], how: Scaling) -> NDArray[np.float32]:
    """All rows of ``x`` (rows × features), scaled by the statistics of the rows ``train``.

    A column that is constant on those rows is shifted by its value there and not rescaled.

    >>> x = np.array([[0.0, 1.0], [2.0, 1.0], [6.0, 4.0]])
    >>> scaled(x, np.array([0, 1]), "zscore").tolist(), scaled(x, np.array([0, 1]), "minmax").tolist()
    ([[-1.0, 0.0], [1.0, 0.0], [5.0, 3.0]], [[0.0, 0.0], [1.0, 0.0], [3.0, 3.0]])
    """
    values = np.asarray(x, np.float64)
    known = values[train]
    if how == "rowl2":
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        values = values / np.where(lengths > 0, lengths, 1.0)
    elif how != "none":
        least, most = known.min(axis=0), known.max(axis=0)
        centre, width = (known.mean(axis=0), known.std(axis=0)) if how == "zscore" else (least, most - least)
        steady = least == most  # compares the values: the computed deviation of equal ones need not be 0
        values = (values - np.where(steady, least, centre)) / np.where(steady, 1.0, width)
    return values.astype(np.float32)
