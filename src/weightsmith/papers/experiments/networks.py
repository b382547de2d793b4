"""The trained networks of the experiments on heavy tails: existing files, or small ones trained here."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from weightsmith.core.errors import DataMissing

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.grading.results import Grades

__all__ = ["AKAMASTER", "DISTILLER", "graded", "network_of", "weights_file"]

AKAMASTER = {
    "akamaster_resnet20": 0.9173,
    "akamaster_resnet32": 0.9263,
    "akamaster_resnet44": 0.9310,
    "akamaster_resnet56": 0.9339,
}
"""Test accuracies as reported by their author and measured on all 10,000 images of CIFAR-10."""

DISTILLER = {
    "distiller_resnet20_dense": 0.9171,
    "distiller_resnet20_4D_regularized_5Lremoved_finetuned": 0.9112,
}
"""Before and after group regularisation; accuracies measured on all 10,000 images."""


def graded(name: str, path: str | Path | None, seed: int = 0, conv: str = "pooled", normalise: str = "none") -> Grades:
    """The grades of a network by the name of its file, or of one that is trained here (``mlp:…``)."""
    from weightsmith.grading.grade import grade

    network = _trained(name, seed) if name.startswith("mlp:") else weights_file(name, path)
    return grade(network, conv=conv, normalise=normalise, evidence="none")  # type: ignore[arg-type]


def network_of(name: str, path: str | Path | None, seed: int = 0) -> nn.Module:
    """The network of that name as a module."""
    from weightsmith.networks import load

    return _trained(name, seed) if name.startswith("mlp:") else load(weights_file(name, path))


def weights_file(name: str, path: str | Path | None) -> Path:
    """The path of the weights of that name, under ``path`` or ``WEIGHTSMITH_DATA``."""
    folder = Path(path or os.environ.get("WEIGHTSMITH_DATA") or ".")
    for place in (folder / "weights", folder):
        if (place / f"{name}.safetensors").exists():
            return place / f"{name}.safetensors"
    raise DataMissing(folder / "weights" / f"{name}.safetensors", "is not there: put it there, or try --quick")


@functools.lru_cache(maxsize=32)
def _trained(name: str, seed: int) -> nn.Module:
    from weightsmith.data.datasets import load
    from weightsmith.training.loop import train

    return train(
        name, load("digits"), optimiser="momentum", schedule="constant:0.05", batch=32, epochs=5, seed=seed
    ).network
