"""Data sets: load, split, augment, normalise."""

from __future__ import annotations

from weightsmith.data.augment import Augment, CropFlip, NoAugment
from weightsmith.data.datasets import (
    Data,
    Folder,
    Known,
    Parquet,
    Source,
    Split,
    Table,
    as_data,
    fetch_data,
    known,
    load,
)
from weightsmith.data.faces.describe import describe_faces
from weightsmith.data.faces.features import FaceFeatures
from weightsmith.data.faces.lpq import LPQ
from weightsmith.data.faces.phog import PHOG
from weightsmith.data.normalise import Normalisation
from weightsmith.data.splits import Fold, stratified_folds, stratified_split

__all__ = [
    "LPQ",
    "PHOG",
    "Augment",
    "CropFlip",
    "Data",
    "FaceFeatures",
    "Fold",
    "Folder",
    "Known",
    "NoAugment",
    "Normalisation",
    "Parquet",
    "Source",
    "Split",
    "Table",
    "as_data",
    "describe_faces",
    "fetch_data",
    "known",
    "load",
    "stratified_folds",
    "stratified_split",
]
