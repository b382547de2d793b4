"""The vector files beside this one, and the arrays packed in them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def reference() -> Callable[[str], Any]:
    """The vectors of a topic: ``reference("keras_layers")["activations"]``."""

    def load(topic: str) -> Any:
        return json.loads((Path(__file__).parent / f"{topic}.json").read_text())["vectors"]

    return load


@pytest.fixture(scope="session")
def unpack() -> Callable[[Any], np.ndarray]:
    """The float64 array behind an entry ``{base64, dtype, scale, shape}``."""

    def array(entry: Any) -> np.ndarray:
        codes = np.frombuffer(base64.b64decode(entry["base64"]), entry["dtype"])
        return codes.reshape(entry["shape"]) * entry["scale"]

    return array
