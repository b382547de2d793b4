"""Grading from weights: against WeightWatcher on real networks and large layers, and against bare linear algebra."""

from __future__ import annotations

import logging
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import weightwatcher
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from torch import nn

from benchmarks.measure import Case, Unavailable
from weightsmith.core.seeds import stream
from weightsmith.grading.grade import grade
from weightsmith.networks.files import load

__all__ = ["cases"]

_LEAST = 20  # below this many eigenvalues the peer contradicts its own formula

Exponents = dict[str, tuple[float, float]]


def cases() -> list[Case]:
    """Two real networks and layers of 2048 and 4096 units: with the default evidence, with none and with all of it."""
    data = os.environ.get("WEIGHTSMITH_DATA")
    if not data:
        raise Unavailable("WEIGHTSMITH_DATA is not set: a folder with weights/*.safetensors")
    # On import the tool sends its log to the terminal.
    logging.getLogger("weightwatcher").setLevel(logging.ERROR)
    logging.getLogger().setLevel(logging.ERROR)
    resnet20, resnet56 = (load(Path(data) / "weights" / f"akamaster_resnet{depth}.safetensors") for depth in (20, 56))
    large, wide = _heavy(2048), _heavy(4096)
    return [
        _against_peer("ResNet-20, default evidence", resnet20, "fast", repeats=3),
        _against_peer("ResNet-56, default evidence", resnet56, "fast", repeats=5),
        _against_peer("2048 × 2048, default evidence", large, "fast", repeats=2),
        _against_peer("ResNet-56, the fit alone", resnet56, "none", repeats=3),
        _against_peer("ResNet-20, full evidence, against mp_fit", resnet20, "full", long=True, mp_fit=True),
        _against_algebra("4096 × 4096, default evidence", wide, "fast"),
    ]


def _against_peer(
    name: str,
    network: nn.Module,
    evidence: str,
    *,
    repeats: int = 1,
    long: bool = False,
    precision: Any = "float64",
    **asked: bool,
) -> Case:
    options = "".join(f", {key}={value}" for key, value in asked.items())
    return Case(
        name,
        f"α, λ_min and all metrics of every layer, from the module in memory; equal α and λ_min are checked. "
        f"Ours: evidence={evidence}, {precision}; theirs: analyze({options.removeprefix(', ')})",
        {
            "weightsmith grade": partial(_ours, network, evidence, precision),
            "weightwatcher analyze": partial(_theirs, network, **asked),
        },
        partial(_same, tolerance=1e-3 if precision == "float64" else 1e-2),
        packages=("weightwatcher", "powerlaw", "numba", "scipy"),
        repeats=repeats,
        long=long,
    )


def _against_algebra(name: str, network: nn.Module, evidence: str) -> Case:
    layer = network[0]  # type: ignore[index]
    weight: NDArray[np.float32] = layer.weight.detach().numpy()
    return Case(
        name,
        "a whole grade against the Gram product in float64 and eigvalsh on it, and nothing else",
        {
            "weightsmith grade": partial(_largest, network, evidence),
            "NumPy Gram + SciPy eigvalsh": partial(_bare_numpy, weight),
        },
        partial(math.isclose, rel_tol=1e-9),
        packages=("numba", "scipy"),
        long=True,
    )


def _heavy(size: int) -> nn.Module:
    """A dense layer with heavy-tailed weights (Student's t with three degrees of freedom), the same each time."""
    weight = stream(0, "bench", "grading", size).standard_t(3, size=(size, size)) / math.sqrt(size)
    layer = nn.Linear(size, size, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
    return nn.Sequential(layer)


def _ours(network: nn.Module, evidence: str, precision: Any) -> Exponents:
    graded = grade(network, evidence=evidence, precision=precision)
    return {layer.name: (layer.fit.alpha, layer.fit.xmin) for layer in graded.layers if layer.fit is not None}


def _theirs(network: nn.Module, **asked: bool) -> Exponents:
    table = weightwatcher.WeightWatcher(model=network).analyze(**asked)
    rows = zip(table["longname"], table["num_evals"], table["alpha"], table["xmin"], strict=True)
    return {name: (alpha, xmin) for name, evals, alpha, xmin in rows if evals >= _LEAST}


def _same(ours: Exponents, theirs: Exponents, tolerance: float) -> bool:
    return len(theirs) > 0 and all(
        abs(ours[name][0] - alpha) < tolerance and math.isclose(ours[name][1], xmin, rel_tol=tolerance)
        for name, (alpha, xmin) in theirs.items()
    )


def _largest(network: nn.Module, evidence: str) -> float:
    (layer,) = grade(network, evidence=evidence).layers
    return float(layer.eigenvalues[-1])


def _bare_numpy(weight: NDArray[np.float32]) -> float:
    matrix = weight.astype(np.float64)
    return float(eigvalsh(matrix.T @ matrix, driver="evd", overwrite_a=True, check_finite=False)[-1])
