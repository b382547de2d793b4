"""Shared parts of the experiments on training: data read once, a run as a row, and selected values of a table."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weightsmith.core.sweep import SweepTable

if TYPE_CHECKING:
    from weightsmith.data.datasets import Data

__all__ = ["ACTIVATIONS", "means", "rows_of", "train_row", "training_data", "values"]

ACTIVATIONS = ("selu", "elu", "leaky-relu:0.01", "relu", "tanh", "sigmoid")
"""In the slides' order of preference, the best first."""

_KEPT = ("stopped", "train_loss", "train_accuracy", "best_validation_accuracy", "test_accuracy", "gradients")


@functools.lru_cache(maxsize=4)
def training_data(name: str, path: str | Path | None = None, rows: int | None = None) -> Data:
    """The data set with its first ``rows`` training rows (all by default); read once for all runs of a process."""
    from weightsmith.data.datasets import load

    data = load(name, path=path)
    if rows is None or data.train is None:
        return data
    return dataclasses.replace(data, train=data.train.take(range(min(rows, len(data.train)))))


def train_row(data: Data, seed: int, **options: Any) -> dict[str, Any]:
    """One training as a row: how it ended, its accuracies, and its CPU seconds."""
    from weightsmith.training.sweeping import train_once

    started = time.process_time()
    row = train_once(data=data, seed=seed, **options)
    return {**{name: row[name] for name in _KEPT}, "cpu_seconds": time.process_time() - started}


def rows_of(table: SweepTable, **setting: Any) -> list[dict[str, Any]]:
    """The rows of one setting, in the order of the seeds."""
    return [row for row in table.rows if all(row[name] == value for name, value in setting.items())]


def values(table: SweepTable, column: str, failed: float | None = None, **setting: Any) -> NDArray[np.float64]:
    """One column over the rows of a setting; ``failed`` stands for a run that has no value (diverged)."""
    found = [row[column] for row in rows_of(table, **setting)]
    return np.array([failed if value is None else value for value in found], dtype=np.float64)


def means(table: SweepTable, column: str, by: str, **setting: Any) -> Mapping[Any, float]:
    """The mean of a column for every value of ``by``."""
    keys = dict.fromkeys(row[by] for row in rows_of(table, **setting))
    return {key: float(np.mean(values(table, column, 0.1, **setting, **{by: key}))) for key in keys}
