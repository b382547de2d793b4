"""Live ONNX models (``onnx.ModelProto``), read as their file would be. The package is only needed if there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.networks.readers.onnxfile import OnnxWeights

__all__ = ["OnnxModelWeights"]

_EXTERNAL = 1


class OnnxModelWeights(OnnxWeights):
    """The initialisers of a model in memory; they are held twice, because checking the graph empties the copy."""

    format = "onnx model"

    def __init__(self, model: Any) -> None:
        outside = next((t.name for t in model.graph.initializer if t.data_location == _EXTERNAL), None)
        if outside is not None:
            raise UsageError(f"the values of {outside} are not in the ONNX model but in a file: give the model's path")
        if not model.graph.node and not model.graph.initializer:
            raise UsageError("the ONNX model has no graph")
        twin = type(model)()
        twin.CopyFrom(model)
        self._open(Path(model.graph.name or "onnx model"), twin)
