"""Read plain data from a pickle without unpickling it.

A pickle is a program, and an untrusted one may execute arbitrary code. CIFAR's "python version" is a handful
of pickles that need little of the language: dicts, lists, bytes, numbers and NumPy arrays of bytes. So the opcodes
are executed one by one (the standard library's ``pickletools.genops`` only lists them) on a small stack machine that
knows these types and no others. A name in the pickle is compared with the list below and never imported; a call is
carried out by this module; an unknown name is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from math import prod
from os import PathLike
from typing import Any

import numpy as np

from weightsmith.core.errors import FileRefused

__all__ = ["read_pickle"]


class _Refused(Exception):
    """Raised for an opcode or name that plain data do not need."""


def _short(thing: object) -> str:
    """Untrusted text, shortened and escaped for one line of an error message."""
    return ascii(str(thing))[1:-1][:80]


class _Array:
    """A placeholder for an array until its contents arrive; ``finished`` is the array itself."""

    finished: np.ndarray[Any, Any] | None = None

    def build(self, state: Any) -> None:
        """The state NumPy writes: version, shape, type, column order, contents."""
        if not (isinstance(state, tuple) and len(state) == 5):
            raise _Refused("holds an array without shape and contents")
        _, shape, kind, by_column, content = state
        if not (isinstance(kind, _Kind) and kind.code in ("u1", "|u1")):
            raise _Refused("holds an array that is not of unsigned bytes")
        if not (isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)):
            raise _Refused(f"holds an array of shape {_short(shape)}")
        if not isinstance(content, bytes) or len(content) != prod(shape):
            raise _Refused(f"holds an array of shape {_short(shape)} whose contents have another size")
        self.finished = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_column else "C")


class _Kind:
    """A placeholder for a NumPy dtype; only its code matters."""

    def __init__(self, code: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code  # Python 2 wrote bytes

    def build(self, state: Any) -> None:
        """The rest (byte order, fields) does not matter for bytes."""


class _Name:
    """A placeholder for a global name in the pickle; it is never imported."""

    def __init__(self, text: str) -> None:
        if text not in _CALLS and text != "numpy.ndarray":
            raise _Refused(f"asks for {_short(text)}")
        self.text = text


def _encoded(*arguments: Any) -> bytes:
    """Python 3 writes bytes under protocol 2 as a call that encodes text as latin1, and empty ones as bytes()."""
    if len(arguments) != 2 or not isinstance(arguments[0], str) or arguments[1] != "latin1":
        raise _Refused("holds bytes written in an unknown way")
    return arguments[0].encode("latin1")


_CALLS: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray._reconstruct": lambda *_: _Array(),
    "numpy._core.multiarray._reconstruct": lambda *_: _Array(),
    "numpy.dtype": lambda code, *_: _Kind(code),
    "collections.OrderedDict": lambda: {},
    "_codecs.encode": _encoded,
    "__builtin__.bytes": lambda: b"",
}


def read_pickle(content: bytes, path: str | PathLike[str]) -> Any:
    """The dicts, lists, tuples, numbers, text and byte arrays in a pickle; FileRefused, naming ``path``, for more.

    >>> import pickle
    >>> read_pickle(pickle.dumps({b"labels": [1, 2]}, protocol=2), "batch")
    {b'labels': [1, 2]}
    >>> read_pickle(b"cos\\nsystem\\n(S'echo'\\ntR.", "batch")
    Traceback (most recent call last):
    weightsmith.core.errors.FileRefused: batch: the pickle asks for os.system; only plain data are read
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(content):
            machine.step(opcode.name, argument)
        return _value(machine.pop())
    except _Refused as error:
        raise FileRefused(path, f"the pickle {error}; only plain data are read") from error
    except (ValueError, IndexError, TypeError, KeyError, AttributeError) as error:
        # genops and the stack complain in these ways when the opcodes are cut short or make no sense.
        raise FileRefused(path, f"the pickle is damaged ({_short(error)})") from error


# CIFAR's largest pickle has some 400,000; an empty dict takes one byte here and 64 in memory.
_MOST_STEPS = 2_000_000


def _value(item: Any) -> Any:
    """The final value of an item: arrays instead of their placeholders; any other placeholder is refused."""
    if isinstance(item, _Array):
        if item.finished is None:
            raise _Refused("holds an array without contents")
        return item.finished
    if isinstance(item, _Name | _Kind):
        raise _Refused("holds a name in place of a value")
    return item


class _Machine:
    """The stack, the marks on it, and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.steps = 0

    def step(self, opcode: str, argument: Any) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Refused(f"has more than {_MOST_STEPS:,} steps")
        if opcode not in _STEPS:
            raise _Refused(f"uses the opcode {opcode}")
        _STEPS[opcode](self, argument)

    def push(self, item: Any) -> None:
        self.stack.append(item)

    def pop(self) -> Any:
        return self.stack.pop()

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def pop_to_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop_many(self, count: int) -> tuple[Any, ...]:
        return tuple(self.pop() for _ in range(count))[::-1]

    def push_dict(self, items: list[Any]) -> None:
        self.push({})
        self.set_items(items)

    def push_list(self, items: list[Any]) -> None:
        self.push([])
        self.append(items)

    def call(self) -> None:
        arguments, name = self.pop(), self.pop()
        if not isinstance(name, _Name) or name.text not in _CALLS:
            raise _Refused("calls something that is not a known name")
        self.push(_CALLS[name.text](*arguments))

    def build(self) -> None:
        state = self.pop()
        if not isinstance(self.stack[-1], _Array | _Kind):
            raise _Refused("sets the state of something that is neither array nor type")
        self.stack[-1].build(state)

    def append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise _Refused("appends to something that is not a list")
        self.stack[-1].extend(map(_value, items))

    def set_items(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise _Refused("sets items of something that is not a dict")
        self.stack[-1].update(zip(map(_value, items[::2]), map(_value, items[1::2]), strict=True))


_Step = Callable[[_Machine, Any], None]


def _push_bytes(machine: _Machine, text: str) -> None:
    """Python 2's str, which genops gives as latin1 text."""
    machine.push(text.encode("latin1"))


def _put(machine: _Machine, key: int) -> None:
    machine.memo[key] = machine.stack[-1]


def _get(machine: _Machine, key: int) -> None:
    machine.push(machine.memo[key])


def _pass(machine: _Machine, argument: Any) -> None:
    """Marks of the format itself: version, frame, end."""


# What each opcode does; one that is not here is refused.
_STEPS: dict[str, _Step] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _pass),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "BINFLOAT"), _Machine.push),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), _Machine.push),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _Machine.push),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _push_bytes),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _get),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "MARK": lambda m, _: m.mark(),
    "DICT": lambda m, _: m.push_dict(m.pop_to_mark()),
    "LIST": lambda m, _: m.push_list(m.pop_to_mark()),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "TUPLE": lambda m, _: m.push(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.push(m.pop_many(1)),
    "TUPLE2": lambda m, _: m.push(m.pop_many(2)),
    "TUPLE3": lambda m, _: m.push(m.pop_many(3)),
    "APPEND": lambda m, _: m.append([m.pop()]),
    "APPENDS": lambda m, _: m.append(m.pop_to_mark()),
    "SETITEM": lambda m, _: m.set_items(list(m.pop_many(2))),
    "SETITEMS": lambda m, _: m.set_items(m.pop_to_mark()),
    "MEMOIZE": lambda m, _: m.memo.update({len(m.memo): m.stack[-1]}),
    "GLOBAL": lambda m, text: m.push(_Name(text.replace(" ", "."))),
    "STACK_GLOBAL": lambda m, _: m.push(_Name(".".join(m.pop_many(2)))),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
}
