"""Common ground of all tests: one thread, and real data where the machine has them."""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from weightsmith.networks.precision import how_python_ends

torch.set_num_threads(1)


def _stay_on_this_machine(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook of all tests: no connection beyond this machine, whatever library asks for it.

    A datagram socket that is only connected sends nothing: Dask looks up its own address that way.
    """
    if event not in ("socket.connect", "socket.sendto"):
        return
    opened, address = arguments[0], arguments[1]
    if not isinstance(address, tuple) or (event == "socket.connect" and opened.type == socket.SOCK_DGRAM):
        return
    if not ipaddress.ip_address(socket.gethostbyname(str(address[0]))).is_loopback and address[0] not in _own_names():
        raise RuntimeError(f"a test wants to connect to {address}: tests stay on this machine")


@functools.cache
def _own_names() -> set[str]:
    """The addresses of this machine: what a socket can be bound to is one of them."""
    found = {"0.0.0.0", "::"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
        found.add(probe.getsockname()[0])
    return found


sys.addaudithook(_stay_on_this_machine)


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
def computable() -> Callable[[torch.dtype], None]:
    """Skips a test, by the name of the type, where this CPU cannot multiply in it (tried in a child process)."""

    def or_skip(dtype: torch.dtype) -> None:
        if dtype in (torch.bfloat16, torch.float16) and (end := how_python_ends(dtype)):
            pytest.skip(f"products in {dtype} end Python on this CPU: {end}")

    return or_skip


@pytest.fixture(scope="session")
def digits_mlp() -> Path:
    """A file with ``train("mlp:64,32", digits with_validation(0.2), optimiser="adam", schedule=0.01, epochs=12)``.

    The last digits of a training differ between processors, and so may what a search chooses afterwards: a test of what
    is chosen starts with these weights.
    """
    return Path(__file__).parent / "reference" / "digits_mlp.safetensors"


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
