"""What WeightWatcher reports for five fixed matrices, conv kernels pooled and one fit per kernel position."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import torch
import weightwatcher
from torch import nn

from benchmarks.peers.inputs import SCALE, Codes, codes, packed

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("numpy", "powerlaw", "scipy", "torch", "weightwatcher")

_COLUMNS = (
    "D",
    "alpha",
    "alpha_weighted",
    "entropy",
    "lambda_max",
    "log_alpha_norm",
    "log_norm",
    "log_spectral_norm",
    "matrix_rank",
    "norm",
    "num_evals",
    "num_pl_spikes",
    "rank_loss",
    "sigma",
    "spectral_norm",
    "stable_rank",
    "sv_max",
    "sv_min",
    "weak_rank_loss",
    "xmax",
    "xmin",
)


def vectors() -> dict[str, Any]:
    """The layers' codes, and per layer the columns that weightsmith has a word for."""
    # On import the tool sets its own logger to write to the terminal.
    logging.getLogger("weightwatcher").setLevel(logging.ERROR)
    layers = _layers()
    network = _network(layers)
    return {
        "layers": {name: packed(array) for name, array in layers.items()},
        "pooled": _report(network),
        "table": _table(network),
        "slices_of_conv": _report(network, pool=False, layers=["conv"]),
    }


def _layers() -> dict[str, Codes]:
    """Names to codes; a Linear is out × in, the Conv2d out × in × height × width. 20 eigenvalues at least."""
    low = codes(20, 28, salt=5)
    return {
        "conv": codes(22, 20, 2, 2, salt=1),
        # Cubed, so that a few entries are much larger than the rest.
        "heavy": (codes(36, 28, salt=4).astype(np.int32) ** 3 // 127**2).astype(np.int8),
        "low_rank": np.vstack([low, low[:8]]),
        "tall": codes(40, 24, salt=3),
        "wide": codes(22, 48, salt=2),
    }


def _network(layers: dict[str, Codes]) -> nn.Module:
    network = nn.Module()
    for name, array in layers.items():
        weight = torch.from_numpy(array * SCALE).float()
        rows, columns = weight.shape[:2]
        layer = nn.Conv2d(columns, rows, 2, bias=False) if weight.ndim == 4 else nn.Linear(columns, rows, bias=False)
        layer.weight = nn.Parameter(weight)
        network.add_module(name, layer)
    return network


def _table(network: nn.Module) -> dict[str, Any]:
    """What a script reads beside the numbers: the names of all columns, the cells that are text, and the summary."""
    watcher = weightwatcher.WeightWatcher(model=network)
    table = watcher.analyze()
    text = ("layer_id", "name", "longname", "layer_type", "status", "warning", "rf")
    return {
        "columns": sorted(table.columns),
        "cells": [[row[column] for column in text] for row in table.to_dict("records")],
        "summary": {name: float(value) for name, value in watcher.get_summary(table).items()},
    }


def _report(network: nn.Module, **options: Any) -> dict[str, Any]:
    table = weightwatcher.WeightWatcher(model=network).analyze(**options)
    report: dict[str, Any] = {}
    for row in table.to_dict("records"):
        values = {column: _plain(row[column]) for column in _COLUMNS}
        position = f".{row['slice_id']}" if "slice_id" in row else ""
        report[f"{row['name']}{position}"] = values
    return report


def _plain(value: Any) -> int | float | None:
    """A finite Python number, or None where the tool has none."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, int | np.integer) else float(value)
