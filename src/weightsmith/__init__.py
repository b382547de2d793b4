"""weightsmith: a workshop for trained neural networks.

    import weightsmith as ws

    data = ws.data.load("digits")
    network = ws.load("network.safetensors")
    print(ws.evaluate(network, data).accuracy)

Names are brought in on first use, so that ``import weightsmith`` costs nothing and changes nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from weightsmith._version import __version__

if TYPE_CHECKING:
    from weightsmith import data, networks
    from weightsmith.core.errors import (
        DataMismatch,
        DataMissing,
        FileRefused,
        MissingExtra,
        OptionError,
        UnknownName,
        UsageError,
        WeightsmithError,
        WorkerLost,
    )
    from weightsmith.core.sweep import SweepTable, grid, sweep
    from weightsmith.data.datasets import Data
    from weightsmith.data.normalise import Normalisation
    from weightsmith.networks.architecture import Architecture
    from weightsmith.networks.evaluation import Evaluation, evaluate
    from weightsmith.networks.files import load, save
    from weightsmith.networks.layers import LayerWeights, walk

_HOMES = {
    "core.errors": (
        "DataMismatch DataMissing FileRefused MissingExtra OptionError UnknownName UsageError WeightsmithError "
        "WorkerLost"
    ),
    "core.sweep": "SweepTable grid sweep",
    "data.datasets": "Data",
    "data.normalise": "Normalisation",
    "networks.architecture": "Architecture",
    "networks.evaluation": "Evaluation evaluate",
    "networks.files": "load save",
    "networks.layers": "LayerWeights walk",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Architecture",
    "Data",
    "DataMismatch",
    "DataMissing",
    "Evaluation",
    "FileRefused",
    "LayerWeights",
    "MissingExtra",
    "Normalisation",
    "OptionError",
    "SweepTable",
    "UnknownName",
    "UsageError",
    "WeightsmithError",
    "WorkerLost",
    "__version__",
    "data",
    "evaluate",
    "grid",
    "load",
    "networks",
    "save",
    "sweep",
    "walk",
]


def __getattr__(name: str) -> Any:
    if name in ("data", "networks"):
        return importlib.import_module(f"weightsmith.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'weightsmith' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"weightsmith.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
