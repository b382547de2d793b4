"""Data sets: load, split, augment, normalise."""

from __future__ import annotations

from weightsmith.data.augment import Augment, CropFlip, NoAugment
from weightsmith.data.datasets import Data, Folder, Known, Source, Split, Table, as_data, fetch_data, known, load
from weightsmith.data.normalise import Normalisation
from weightsmith.data.splits import Fold, stratified_folds, stratified_split

__all__ = [
    "Augment",
    "CropFlip",
    "Data",
    "Fold",
    "Folder",
    "Known",
    "NoAugment",
    "Normalisation",
    "Source",
    "Split",
    "Table",
    "as_data",
    "fetch_data",
    "known",
    "load",
    "stratified_folds",
    "stratified_split",
]
