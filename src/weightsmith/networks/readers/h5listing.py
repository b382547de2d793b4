"""The HDF5 subprocess: list a file, or return the values of one dataset or of all.

The HDF5 library crashes on some damaged files (measured: one in a few thousand with flipped bytes), so it never runs
in the user's process. This file is executed as a script and needs nothing but h5py:

    python h5listing.py CHANNEL          read requests from the socket CHANNEL, until it is closed
    python h5listing.py - REQUEST        answer one request on standard output (on systems without fork)

A request is a line of JSON ``[patience, computing, path, begin, length, operation, dataset, size]`` (the first two in
seconds), sent with the file descriptor for the answer. Each is answered by a fork of this process, which has h5py
already imported: a start takes half a second, a fork some milliseconds, and a damaged file can crash only its own fork.
An answer is a mark (``+`` content, ``-`` refused, ``!`` the library's own error), eight bytes of length, and content;
no answer means a crash. Links that lead out of the file are refused here.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

__all__ = ["answer", "main", "serve"]

_MOST_OBJECTS = 200_000
_MOST_DEPTH = 64
_MOST_TEXT = 64 << 20
_MOST_EXPANSION = 200
_ALWAYS_ALLOWED = 64 << 20
_MEMORY = 256 << 20  # in addition to twice the file and four times the requested values
_ATTRIBUTES = ("name", "layer_names", "weight_names", "model_config", "keras_version", "backend")


class _Refused(Exception):
    """The reason is printed and becomes a ``FileRefused`` in the parent."""


class _Window(io.RawIOBase):
    """A byte range of a file as a file object: the HDF5 member of a zip archive, read in place."""

    def __init__(self, path: str, begin: int, length: int) -> None:
        self._file = open(path, "rb")  # noqa: PTH123, SIM115 (a script of its own; closed with the process)
        self._begin, self._length, self._offset = begin, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._offset = offset + (0, self._offset, self._length)[whence]
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._length - self._offset))
        self._file.seek(self._begin + self._offset)
        content = self._file.read(count)
        buffer[: len(content)] = content
        self._offset += len(content)
        return len(content)


def _limit(more: int, seconds: int) -> None:
    """Limit the address space of this process to its present size (4 GB if unknown) plus ``more``.

    The process ends after ``seconds`` of CPU time.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            taken = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        taken = 4 << 30
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = taken + more if hard == resource.RLIM_INFINITY else min(taken + more, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, resource.RLIM_INFINITY))


def _plain(value: Any) -> Any:
    """An attribute as text or a list of texts; other types are converted to text."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):  # h5py returns invalid text as lone surrogates, which cannot be written
        return value[:_MOST_TEXT].encode("utf-8", "replace").decode()
    if hasattr(value, "tolist"):
        listed = value.tolist()
        return [_plain(item) for item in listed] if isinstance(listed, list) else _plain(listed)
    return str(value)


def _attributes(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in item.attrs:
        # Long lists are cut into name0, name1 … by Keras.
        if name.rstrip("0123456789") in _ATTRIBUTES:
            found[name] = _plain(item.attrs[name])
    return found


def _dataset(path: str, item: Any, length: int) -> dict[str, Any]:
    if item.is_virtual or item.external:
        raise _Refused(f"dataset {path!r} takes its values from another file")
    declared = item.dtype.itemsize
    for count in item.shape or ():
        declared *= count
    stored = item.id.get_storage_size()
    offset = item.id.get_offset() if stored == declared else None
    if declared and not stored:
        raise _Refused(f"dataset {path!r} claims {declared:,} bytes and has none")
    if offset is not None and offset + declared > length:
        raise _Refused(f"is cut short: dataset {path!r} ends at {offset + declared:,} of {length:,} bytes")
    if declared > max(_ALWAYS_ALLOWED, _MOST_EXPANSION * stored):
        raise _Refused(f"dataset {path!r} expands {declared / stored:,.0f}× to {declared / 1e9:,.1f} GB")
    return {
        "path": path,
        "shape": list(item.shape or ()),
        "dtype": "bfloat16" if _plain(item.attrs.get("dtype", "")) == "bfloat16" else item.dtype.str,
        "offset": offset,
        "packed": stored,
    }


def _listing(root: Any, length: int) -> dict[str, Any]:
    import h5py

    groups: dict[str, Any] = {"": _attributes(root)}
    datasets: list[dict[str, Any]] = []
    seen: dict[Any, str] = {h5py.h5o.get_info(root.id).addr: ""}
    todo = [("", root, 0)]
    while todo:
        path, group, depth = todo.pop()
        for name in group:
            full = f"{path}/{name}" if path else name
            if not full.isascii() and full != _plain(full):
                raise _Refused(f"the name {full!a} is not text")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise _Refused(f"{full!r} is a link to somewhere else")
            item = group[name]
            if isinstance(item, h5py.Datatype):
                continue
            address = h5py.h5o.get_info(item.id).addr
            if isinstance(item, h5py.Dataset):
                datasets.append({**_dataset(full, item, length), "same": seen.setdefault(address, full)})
            elif address not in seen:
                seen[address] = full
                groups[full] = _attributes(item)
                todo.append((full, item, depth + 1))
            if depth > _MOST_DEPTH or len(seen) > _MOST_OBJECTS:
                raise _Refused("has more groups than a network can need")
    return {"groups": groups, "datasets": datasets}


def _values(root: Any) -> Iterator[bytes]:
    """All values: eight bytes of length, JSON with type, shape and offset (or text) per dataset, then the values."""
    import numpy as np

    index: dict[str, Any] = {}
    arrays: list[Any] = []
    offset = 0
    for name, item in _datasets(root, "", set()):
        value = item[()]
        if item.dtype.kind in "fiub":
            array = np.ascontiguousarray(value)
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            index[name] = {"dtype": array.dtype.str, "shape": list(item.shape), "offset": offset}
            arrays.append(array)
            offset += array.nbytes
        else:
            index[name] = {"text": _text(value)}
    head = json.dumps(index).encode()
    yield len(head).to_bytes(8, "little") + head
    for array in arrays:
        yield array.tobytes()


def _text(value: Any) -> Any:
    """Text, or lists of it; anything else is refused."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_text(item) for item in value]
    if isinstance(value, bytes | str):
        return _plain(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def _datasets(group: Any, path: str, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Every dataset, groups in their order; a group with two names is refused, because it could contain itself."""
    import h5py

    address = h5py.h5o.get_info(group.id).addr
    if address in seen:
        raise _Refused(f"the group {path!r} has two names")
    seen.add(address)
    for name in group:
        inner = f"{path}/{name}" if path else name
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _datasets(item, inner, seen)
        elif isinstance(item, h5py.Dataset):
            yield inner, item


def answer(out: BinaryIO, request: list[Any]) -> None:
    """Answer one request; any exception of the library becomes the reason for refusing the file."""
    import h5py

    patience, computing, path, begin, length, operation, dataset, size = request
    if hasattr(signal, "alarm"):
        signal.alarm(patience)  # ends this process, also in the middle of the library's own code
    _limit(_MEMORY + 2 * length + 4 * size, computing)
    try:
        with h5py.File(io.BufferedReader(_Window(path, begin, length), 1 << 16), "r") as file:
            if operation == "list":
                blocks = [json.dumps(_listing(file, length)).encode()]
            elif operation == "values":
                blocks = list(_values(file))
            else:
                blocks = [file[dataset][()].tobytes()]
        mark = b"+"
    except _Refused as error:
        mark, blocks = b"-", [str(error).encode(errors="replace")]
    except Exception as error:  # noqa: BLE001 (a damaged file makes the library raise anything)
        mark, blocks = b"!", [f"{type(error).__name__}: {error}".encode(errors="replace")[:500]]
    out.write(mark + sum(map(len, blocks)).to_bytes(8, "little"))
    for block in blocks:
        out.write(block)
    out.flush()


def serve(channel: int) -> None:
    """Answer requests until the other end of ``channel`` is closed, so that this process ends with the other one."""
    import socket

    import h5py  # noqa: F401 (for all forks)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process handles interrupts
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no fork is waited for
    with socket.socket(fileno=channel) as connection:
        while True:
            text, handles, _, _ = socket.recv_fds(connection, 1 << 16, 1)
            while text and not text.endswith(b"\n"):
                text += connection.recv(1 << 16)
            if not text:
                return
            if os.fork() == 0:
                connection.close()
                with os.fdopen(handles[0], "wb") as out:
                    answer(out, json.loads(text))
                os._exit(0)
            os.close(handles[0])


def main(channel: str, request: str = "") -> None:
    """Run as a script."""
    if request:
        answer(sys.stdout.buffer, json.loads(request))
    else:
        serve(int(channel))


if __name__ == "__main__":
    main(*sys.argv[1:])
