"""Common ground of all tests: one thread, and real data where the machine has them."""

from __future__ import annotations

import base64
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need real data, saying so, on a machine that has none."""
    if os.environ.get("WEIGHTSMITH_DATA"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="needs WEIGHTSMITH_DATA: real data sets and pretrained networks"))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of all further searches for garbage: half a second each."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their length: content may hold a time stamp, and all workers must agree on names."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets and pretrained networks (tests that take it are marked ``data``)."""
    return Path(os.environ["WEIGHTSMITH_DATA"])


@pytest.fixture(scope="session")
def reference() -> Callable[[str], Any]:
    """What a peer computed on fixed inputs (``make peers``): ``reference("keras_layers")["activations"]``."""

    def load(topic: str) -> Any:
        return json.loads((Path(__file__).parent / "reference" / f"{topic}.json").read_text())["vectors"]

    return load


@pytest.fixture(scope="session")
def unpack() -> Callable[[Any], np.ndarray]:
    """The float64 array behind an entry ``{base64, dtype, scale, shape}`` of the reference vectors."""

    def array(entry: Any) -> np.ndarray:
        codes = np.frombuffer(base64.b64decode(entry["base64"]), entry["dtype"])
        return codes.reshape(entry["shape"]) * entry["scale"]

    return array
