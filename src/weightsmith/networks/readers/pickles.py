"""Parse a torch pickle into a description of its tensors: nothing in it is called or imported.

A pickle is a program for a small stack machine. This is that machine without calls and imports: names are compared with
a short list of what ``torch.save`` writes for weights, and a call becomes a description of its result. In a TorchScript
archive objects of the program's own classes (``__torch__.…``) become dictionaries of their attributes. For any other
name the file is refused. Sizes and strides are then checked on the descriptions, before a single value is read.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.ranges import shown

__all__ = ["PACKED", "STORAGE_TYPES", "ScriptObject", "Storage", "StoredTensor", "allowed_name", "describe"]


# Enough for about a hundred thousand tensors; a file with more opcodes is probably made to fill the memory.
_MOST_OPCODES = 5_000_000


PACKED = "(packed)"
"""The name of a state that a TorchScript object packed with its own code."""


@dataclass(frozen=True)
class Storage:
    """A run of values in the file, by its key; ``begin`` is where a view of it starts (old files only)."""

    key: str
    dtype: torch.dtype
    count: int
    begin: int = 0


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a view of a storage; ``dtype`` differs from the storage's when that is untyped bytes."""

    storage: Storage
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of values of the view."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class _Name:
    """A global that the pickle refers to, by name only."""

    name: str


class ScriptObject(dict[Any, Any]):
    """The attributes of an object of a TorchScript program; its class, which is code, is ignored."""


class _Other:
    """A value that weights do not need: a device, a call with an unused result."""


@dataclass
class _Machine:
    path: Path
    script: bool = False
    stacks: list[list[Any]] = field(default_factory=lambda: [[]])
    memo: dict[int, Any] = field(default_factory=dict)
    storages: dict[str, Storage] = field(default_factory=dict)

    @property
    def stack(self) -> list[Any]:
        """The items pushed since the last mark."""
        return self.stacks[-1]


def describe(stream: IO[bytes], path: Path, *, script: bool = False) -> tuple[Any, dict[str, Storage]]:
    """The object the next pickle in ``stream`` would make, as plain containers and :class:`StoredTensor` descriptions.

    Also the storages it names, by key. Refuses names that are not on the list, odd opcodes and damaged pickles.
    ``script``: the pickle of a TorchScript archive.
    """
    machine = _Machine(path, script)
    protocol: Any = 0
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if number > _MOST_OPCODES:
                raise FileRefused(path, f"its pickle has more than {_MOST_OPCODES:,} opcodes")
            if opcode.name == "PROTO":
                protocol = argument
            elif opcode.name == "STOP":
                break
            else:
                _step(machine, opcode.name, argument)
        result = machine.stack.pop()
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileRefused(path, "is not a torch file, or its pickle is damaged or cut off") from error
    if protocol != 2:
        raise FileRefused(path, f"uses pickle protocol {protocol}: save it again with torch.save's default")
    return result, machine.storages


def _step(machine: _Machine, opcode: str, argument: Any) -> None:
    if opcode in _PUSHES_ARGUMENT:
        machine.stack.append(argument)
    elif opcode in _CONSTANTS:
        machine.stack.append(_CONSTANTS[opcode]())
    elif opcode in ("GLOBAL", "INST"):
        machine.stack.append(_Name(_allowed(machine, *str(argument).split(" ", 1))))
    elif opcode in _STEPS:
        _STEPS[opcode](machine, argument)
    elif opcode != "FRAME":
        raise FileRefused(machine.path, f"its pickle uses the opcode {opcode}, which weights never need")


def _put(machine: _Machine, argument: Any) -> None:
    machine.memo[len(machine.memo) if argument is None else int(argument)] = machine.stack[-1]


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(_Name(_allowed(machine, str(module), str(name))))


def _allowed(machine: _Machine, module: str, name: str) -> str:
    if machine.script and (module.partition(".")[0] == "__torch__" or module == "torch.jit._pickle"):
        return f"{module}.{name}"
    return allowed_name(machine.path, module, name)


def _new_object(machine: _Machine, _: Any) -> None:
    arguments, kind = machine.stack.pop(), machine.stack.pop()
    if not machine.script or type(kind) is not _Name or not kind.name.startswith("__torch__.") or arguments != ():
        raise FileRefused(machine.path, "its pickle uses the opcode NEWOBJ, which weights never need")
    machine.stack.append(ScriptObject())


def _append(machine: _Machine, items: list[Any]) -> None:
    if type(machine.stack[-1]) is not list:
        raise TypeError("append to something that is not a list")
    machine.stack[-1].extend(items)


def _set_items(machine: _Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not dict or len(items) % 2:
        raise TypeError("items for something that is not a dictionary")
    target.update(_named(machine.path, zip(items[::2], items[1::2], strict=True)))


def _named(path: Path, pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dictionary with plain keys: hashing a nested tuple can take forever, and no state dict has one."""
    named = {}
    for key, value in pairs:
        if not isinstance(key, str | int | float | None):
            raise FileRefused(path, f"uses a {type(key).__name__} as a name")
        named[key] = value
    return named


def _build(machine: _Machine, _: Any) -> None:
    """Only an ordered dictionary has attributes (a state dict keeps its versions there); they are not weights."""
    state = machine.stack.pop()
    if type(machine.stack[-1]) is ScriptObject:
        # A state that is not a dictionary was made by the object's own code, as in quantised layers.
        machine.stack[-1].update(_named(machine.path, state.items()) if type(state) is dict else {PACKED: state})
        return
    if type(machine.stack[-1]) is not dict or type(state) is not dict:
        raise FileRefused(machine.path, "sets attributes on an object that is not a state dict")


def _persistent(machine: _Machine, _: Any) -> None:
    saved = machine.stack.pop()
    if type(saved) is not tuple or len(saved) not in (5, 6) or saved[0] != "storage":
        raise FileRefused(machine.path, "refers to something that is not a storage")
    kind, key, _location, count = saved[1:5]
    if type(kind) is not _Name or type(key) is not str or type(count) is not int or count < 0:
        raise TypeError("a storage without type, key or size")
    if len(saved) == 6 and kind.name == "torch.storage.UntypedStorage":
        reason = "holds types that torch cannot read back from its old format: save it again with torch.save's default"
        raise FileRefused(machine.path, reason)
    dtype = torch.uint8 if kind.name == "torch.storage.UntypedStorage" else STORAGE_TYPES[kind.name.rpartition(".")[2]]
    storage = Storage(key, dtype, count)
    if machine.storages.setdefault(key, storage) != storage:
        raise FileRefused(machine.path, f"storage {shown(key)} has two different sizes")
    view = saved[5] if len(saved) == 6 else None
    if view is not None:
        _, begin, length = view
        if min(begin, length) < 0 or begin + length > count:
            raise FileRefused(machine.path, f"a view of storage {shown(key)} is larger than the storage")
        storage = Storage(key, dtype, length, begin)
    machine.stack.append(storage)


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    if type(function) is not _Name or type(arguments) is not tuple:
        raise FileRefused(machine.path, "calls something that is not a known function")
    module, _, name = function.name.rpartition(".")
    if module == "torch.jit._pickle":  # a list or dictionary with the name of its type
        machine.stack.append(arguments[0] if arguments else None)
        return
    machine.stack.append(_made(machine.path, name, arguments))


def _made(path: Path, function: str, arguments: tuple[Any, ...]) -> Any:
    """The description of a call's result."""
    match function:
        case "OrderedDict":
            return _named(path, arguments[0] if arguments else ())
        case "Counter" if not arguments or type(arguments[0]) is dict:
            return dict(*arguments)
        case "Size":
            return tuple(arguments[0])
        case "device":
            return _Other()
        case "_rebuild_parameter":
            return arguments[0]
        case "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_qtensor" | "_rebuild_tensor_v3":
            dtype = arguments[0].dtype
            if function == "_rebuild_tensor_v3":
                dtype = getattr(torch, arguments[6].name.removeprefix("torch."))
            elif function == "_rebuild_tensor_v2" and any(arguments[5:]):
                raise FileRefused(path, "a tensor carries hooks or metadata, which weights never need")
            return _viewed(path, dtype, arguments[:4])
        case _:
            raise FileRefused(path, f"calls {shown(function)}, which weights never need")


def _viewed(path: Path, dtype: torch.dtype, view: tuple[Any, ...]) -> StoredTensor:
    """A view, checked to be inside its storage and not larger (stride 0 repeats one value forever)."""
    storage, offset, shape, stride = view
    numbers = (offset, *shape, *stride)
    if not isinstance(storage, Storage) or len(shape) != len(stride) or any(type(n) is not int for n in numbers):
        raise TypeError("a tensor without storage or shape")
    room = storage.count * storage.dtype.itemsize // dtype.itemsize
    count = math.prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride, strict=True)) if count else offset - 1
    if min(numbers, default=0) < 0 or count > room or last >= room:
        claimed = count * dtype.itemsize
        raise FileRefused(path, f"a tensor of {claimed:,} bytes is a view of only {room * dtype.itemsize:,} bytes")
    return StoredTensor(storage, dtype, offset, tuple(shape), tuple(stride))


def _tuple_since_mark(machine: _Machine, _: Any) -> None:
    items = tuple(machine.stacks.pop())
    machine.stack.append(items)


def _tuple(count: int) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        items = tuple(machine.stack.pop() for _ in range(count))[::-1]
        machine.stack.append(items)

    return step


_PUSHES_ARGUMENT = frozenset(
    ["BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "SHORT_BINSTRING"]
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": lambda m, _: m.stacks.append([]),
    "TUPLE": _tuple_since_mark,
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "APPEND": lambda m, _: _append(m, [m.stack.pop()]),
    "APPENDS": lambda m, _: _append(m, m.stacks.pop()),
    "SETITEM": lambda m, _: _set_items(m, [m.stack.pop() for _ in range(2)][::-1]),
    "SETITEMS": lambda m, _: _set_items(m, m.stacks.pop()),
    "BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "LONG_BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "BINPUT": _put,
    "LONG_BINPUT": _put,
    "MEMOIZE": _put,
    "STACK_GLOBAL": _stack_global,
    "BUILD": _build,
    "BINPERSID": _persistent,
    "NEWOBJ": _new_object,
    "REDUCE": _reduce,
}


# The short list of names a torch file may refer to: what ``torch.save`` writes for tensors in dictionaries.


_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
    *("bool", "qint8", "quint8", "qint32", "complex64", "complex128"),
)
STORAGE_TYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "QInt8Storage": torch.qint8,
    "QUInt8Storage": torch.quint8,
    "QInt32Storage": torch.qint32,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}
_SCHEMES = ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric")
_ALLOWED = frozenset(
    [
        "collections.OrderedDict",
        "collections.Counter",
        "torch.Size",
        "torch.device",
        "torch.storage.UntypedStorage",
        *(f"torch._utils._rebuild_{what}" for what in ("tensor", "tensor_v2", "tensor_v3", "qtensor", "parameter")),
        *(f"torch.{name}" for name in (*_DTYPES, *STORAGE_TYPES, *_SCHEMES)),
        *(f"torch.cuda.{name}" for name in STORAGE_TYPES),
    ]
)


def allowed_name(path: Path, module: str, name: str) -> str:
    """The full name if weights may refer to it; otherwise the file is refused, with a remedy if there is one."""
    full = f"{module}.{name}"
    if full in _ALLOWED:
        return full
    way_out = "load it where you trust it and save its state_dict()"
    if module.startswith(("torch.nn.modules", "torchvision.models")):
        raise FileRefused(path, f"holds a whole pickled module (asks for {shown(full)}), not only weights: {way_out}")
    if name[:1].isupper() or module.startswith("numpy"):
        raise FileRefused(path, f"asks for {shown(full)}, so it holds more than weights: {way_out}")
    raise FileRefused(path, f"asks for {shown(full)}, which weights never need")
