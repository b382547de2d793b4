"""HDF5 without the library in this process: a child process lists the file, values are read directly by offset.

Plain datasets (all that Keras writes) are byte ranges, read straight from the file. Only packed ones go through the
child again. If it crashes, hangs or runs out of memory, only the file is refused. One child serves all files of this
process, with a fork for each request, and ends with it.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import json
import math
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightsmith.core.errors import FileRefused, MissingExtra
from weightsmith.networks.readers.ranges import read_tensor, shown

__all__ = ["Dataset", "Hdf5File", "ask_library"]

_SCRIPT = Path(__file__).with_name("h5listing.py")
_PATIENCE = 60  # seconds
_LEAST_CPU, _BYTES_A_CPU_SECOND = 1, 1 << 20  # a damaged file may put the library into an endless loop


@dataclass(frozen=True)
class Dataset:
    """One dataset: its path, shape and type; ``offset`` is None when it is packed."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    offset: int | None
    same: str

    @property
    def torch_name(self) -> str | None:
        """The name of the type in torch, None if torch has no such type."""
        if self.dtype == "bfloat16":
            return self.dtype
        kind = np.dtype(self.dtype)
        known = kind.kind in "fiub" and isinstance(getattr(torch, kind.newbyteorder("=").name, None), torch.dtype)
        return kind.newbyteorder("=").name if known else None


class Hdf5File:
    """An HDF5 file, or a byte range of a file that is one."""

    def __init__(self, path: Path, begin: int, length: int) -> None:
        if importlib.util.find_spec("h5py") is None:
            raise MissingExtra("reading Keras and HDF5 files", "keras")
        self.path = path
        self._begin, self._length = begin, length
        listing = self._parsed(ask_library(path, begin, length, "list"))
        self.groups: Mapping[str, Mapping[str, Any]] = listing["groups"]
        self.datasets: dict[str, Dataset] = {}
        for item in listing["datasets"]:
            shape = tuple(item["shape"])
            found = Dataset(item["path"], shape, item["dtype"], item["offset"], item["same"])
            self.datasets[found.path] = found

    def texts(self, group: str, attribute: str) -> list[str]:
        """An attribute that is a list of texts, joined again if Keras had to split it."""
        attributes = self.groups.get(group, {})
        if attribute in attributes:
            value = attributes[attribute]
            return [str(item) for item in value] if isinstance(value, list) else [str(value)]
        pieces: list[str] = []
        for number in itertools.count():
            piece = attributes.get(f"{attribute}{number}")
            if not isinstance(piece, list):
                break
            pieces += [str(item) for item in piece]
        return pieces

    def text(self, group: str, attribute: str) -> str | None:
        """An attribute that is a text."""
        value = self.groups.get(group, {}).get(attribute)
        return value if isinstance(value, str) else None

    def read(self, dataset: Dataset) -> Tensor:
        """A copy of the values of a dataset as stored."""
        name = dataset.torch_name
        if name is None:
            raise FileRefused(self.path, f"dataset {shown(dataset.path)} is of type {dataset.dtype}")
        dtype: torch.dtype = getattr(torch, name)
        if dataset.offset is not None:
            values = read_tensor(self.path, self._begin + dataset.offset, dataset.shape, dtype)
        else:
            size = math.prod(dataset.shape) * dtype.itemsize
            content = bytearray(
                ask_library(self.path, self._begin, self._length, "read", dataset=dataset.path, size=size)
            )
            if len(content) != size:
                raise FileRefused(self.path, f"dataset {shown(dataset.path)} is damaged")
            values = torch.frombuffer(content, dtype=torch.uint8).view(dtype).reshape(dataset.shape)
        if dataset.dtype.startswith(">"):
            # torch has no byte order; NumPy swaps the bytes in place.
            turned = values.contiguous().view(-1).view(torch.uint8).numpy().view(dataset.dtype)
            values = torch.from_numpy(turned.astype(turned.dtype.newbyteorder("="))).reshape(dataset.shape)
        return values

    def _parsed(self, output: bytes) -> dict[str, Any]:
        try:
            listing: dict[str, Any] = json.loads(output)
        except ValueError as error:
            raise FileRefused(self.path, "could not be listed by the HDF5 library") from error
        return listing


def ask_library(path: Path, begin: int, length: int, operation: str, *, dataset: str = "", size: int = 0) -> bytes:
    """The library's answer to ``operation`` ("list", "read" a dataset, all "values") on a byte range of a file.

    ``size`` is the size of the values in bytes. The child may use four times that plus twice the range plus 256 MB of
    memory, and one second of CPU time plus one per megabyte.
    """
    if importlib.util.find_spec("h5py") is None:
        raise MissingExtra("reading Keras and HDF5 files", "keras")
    computing = min(_PATIENCE, _LEAST_CPU + (length + size) // _BYTES_A_CPU_SECOND)
    request = json.dumps([_PATIENCE, computing, str(path.absolute()), begin, length, operation, dataset, size])
    started = time.monotonic()
    answer = _CHILD.ask(request) if hasattr(os, "fork") else _asked_once(request)
    mark, content = answer[:1], answer[9:]
    if not mark or len(content) != int.from_bytes(answer[1:9], "little"):
        if time.monotonic() - started >= computing:
            raise FileRefused(path, f"could not be read by the HDF5 library in {computing} s of computing")
        raise FileRefused(path, "is a damaged or cut-off HDF5 file (the library crashed on it)")
    if mark == b"+":
        return content
    reason = " ".join(content.decode(errors="replace").split())
    if mark == b"-":
        raise FileRefused(path, reason)
    raise FileRefused(path, f"is a damaged or cut-off HDF5 file (the library says {shown(reason[:100])})")


def _command(*words: str) -> tuple[list[str], dict[str, str]]:
    # -P keeps this folder off the child's path, because its files have the names of packages.
    command = [sys.executable, "-P", str(_SCRIPT), *words]
    return command, {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _asked_once(request: str) -> bytes:
    """The answer of a separate child, for systems without fork."""
    command, environment = _command("-", request)
    try:
        return subprocess.run(command, capture_output=True, timeout=_PATIENCE, env=environment, check=False).stdout
    except subprocess.TimeoutExpired:
        return b""


class _Child:
    """The child process that answers for all files; started on the first request, and again if it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._owner = 0

    def ask(self, request: str) -> bytes:
        """The answer, cut short or empty if the fork died."""
        ours, theirs = os.pipe()
        with os.fdopen(ours, "rb", buffering=0) as answers:
            try:
                with self._lock:
                    self._send(request.encode() + b"\n", theirs)
            finally:
                os.close(theirs)
            end, blocks = time.monotonic() + _PATIENCE + 1, []
            while select.select([answers], [], [], max(0.0, end - time.monotonic()))[0]:
                block = answers.read(1 << 20)
                if not block:
                    break
                blocks.append(block)
        return b"".join(blocks)

    def _send(self, line: bytes, handle: int) -> None:
        if self._channel is None or self._owner != os.getpid():  # a fork of this process needs its own child
            self._start()
        try:
            socket.send_fds(self._connected(), [line], [handle])
        except OSError:  # the child was ended from outside
            self.stop()
            self._start()
            socket.send_fds(self._connected(), [line], [handle])

    def _connected(self) -> socket.socket:
        assert self._channel is not None
        return self._channel

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        command, environment = _command(str(theirs.fileno()))
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=environment, pass_fds=[theirs.fileno()], process_group=0,  # out of reach of Ctrl-C
            )  # fmt: skip
        self._channel, self._owner = ours, os.getpid()
        atexit.unregister(self.stop)
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the child; it also ends by itself when this process does."""
        if self._channel is not None and self._process is not None and self._owner == os.getpid():
            self._channel.close()
            self._process.wait()
        self._channel = self._process = None


_CHILD = _Child()
