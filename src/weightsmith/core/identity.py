"""Tell callables apart, so that the results of one are never taken for those of another.

A name is not enough: all lambdas have the same one, and so do two losses with different weights. A callable is
identified by its contents: its code and that of the functions it calls, default values, closures, the globals it reads,
and the attributes of objects, slots included. Functions of installed packages count by name and code alone.

Some values have no content that another process could compare (a generator, an open file). A callable that uses one
cannot be resumed unless its author names it:

    fitness.identity = "energy model, version 3"
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np

from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option
from weightsmith.core.records import Record, digest_of

__all__ = ["check_identity", "code_digest", "identity_of"]

_INSTALLED = ("site-packages", "dist-packages")


def code_digest(function: Any) -> str | None:
    """A digest of the function's own code, so that results from before an edit are not taken for those after it.

    It covers the function and its inner functions without docstrings, not the functions it calls; None for a callable
    without code.
    """
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return None if code is None else digest_of(_code_text(code))


def identity_of(function: Callable[..., Any]) -> str:
    """The name of a callable and a digest of its contents; the same in another process.

    An attribute ``identity`` (text) of the callable replaces the digest.

    >>> scale = lambda factor: lambda x: factor * x
    >>> identity_of(scale(2)) == identity_of(scale(2)), identity_of(scale(2)) == identity_of(scale(3))
    (True, False)
    """
    named = function if hasattr(function, "__qualname__") else type(function)
    given = getattr(function, "identity", None)
    if not isinstance(given, str):
        text = "\n".join(_Contents().parts(function))
        given = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{named.__module__}.{named.__qualname__} {given}"


def check_identity(name: str, function: Any) -> None:
    """Refuse a callable that another process could not recognise, so that its work could not be resumed."""
    if function is None or isinstance(getattr(function, "identity", None), str):
        return
    contents = _Contents()
    for _ in contents.parts(function):
        pass
    if contents.unknown:
        raise UsageError(
            f"{name} uses {contents.unknown[0]}, whose content cannot be compared, so that a later call could not tell "
            f'whether to resume; set {name}.identity = "my {name}, version 1", or omit out='
        )


class _Contents:
    """The contents of a value as text that is the same in every process; ``unknown`` lists what cannot be compared."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # kept alive, so that no id is reused

    def parts(self, value: Any) -> Iterator[str]:
        """The contents, depth first; a value that was met before is named by its number."""
        if isinstance(value, enum.Enum):
            yield f"{type(value).__qualname__}.{value.name}"
        elif value is None or value is ... or isinstance(value, bool | int | float | complex | str | bytes | Path):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, Option):
            yield f"{type(value).__qualname__} {value}"
        elif isinstance(value, Record):
            yield value.digest()
        elif hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor
            yield digest_of(value.detach().cpu().numpy())
        elif isinstance(value, np.ndarray | np.generic):
            yield digest_of(np.asarray(value))
        elif id(value) in self._seen:
            yield f"number {self._seen[id(value)]}"
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            yield from self._inside(value)

    def _inside(self, value: Any) -> Iterator[str]:
        match value:
            case functools.partial():
                yield from self._several((value.func, value.args, value.keywords))
            case types.FunctionType():
                yield from self._function(value)
            case types.MethodType():
                yield from self._several((value.__func__, value.__self__))
            case types.BuiltinFunctionType() | types.ModuleType():
                yield f"{getattr(value, '__module__', None)} {value.__name__} {getattr(value, '__version__', '')}"
            case types.MemberDescriptorType() | types.GetSetDescriptorType():
                yield value.__name__
            case property():
                yield from self._several((value.fget, value.fset, value.fdel))
            case staticmethod() | classmethod():
                yield from self.parts(value.__func__)
            case Mapping():
                for key in sorted(value, key=str):
                    yield str(key)
                    yield from self.parts(value[key])
            case tuple() | list():
                yield from self._several(value)
            case Set():
                yield from sorted("\n".join(_Contents().parts(item)) for item in value)
            case type():
                yield f"{value.__module__}.{value.__qualname__}"
                if not _is_installed(value.__module__):
                    yield from self.parts({name: each for name, each in vars(value).items() if not _is_frame(name)})
            case _:
                yield from self._object(value)

    def _several(self, values: Any) -> Iterator[str]:
        for item in values:
            yield from self.parts(item)

    def _function(self, value: types.FunctionType) -> Iterator[str]:
        yield value.__qualname__
        yield digest_of(_code_text(value.__code__))
        yield from self.parts(value.__defaults__ or ())
        yield from self.parts(value.__kwdefaults__ or {})
        yield from self._several(cell.cell_contents for cell in value.__closure__ or ())
        if not _is_installed(value.__module__):
            for name in sorted(_globals_read(value.__code__) & set(value.__globals__)):
                yield name
                yield from self.parts(value.__globals__[name])

    def _object(self, value: Any) -> Iterator[str]:
        kind = type(value)
        yield f"{kind.__module__}.{kind.__qualname__}"
        slots = [name for base in kind.__mro__ for name in _slots(base) if hasattr(value, name)]
        if not hasattr(value, "__dict__") and not slots:
            if kind.__module__ in ("torch", "numpy") and not callable(getattr(value, "__next__", None)):
                yield repr(value)  # torch.float32, a device, a NumPy type: repr shows all
                if " at 0x" not in repr(value):
                    return
            self.unknown.append(f"a {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))
            return
        if not _is_installed(kind.__module__):
            yield from self.parts(kind)  # what its methods do
        held = {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})
        yield from self.parts({name: item for name, item in held.items() if not isinstance(item, types.ModuleType)})


def _slots(kind: type) -> tuple[str, ...]:
    found = vars(kind).get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _is_frame(name: str) -> bool:
    """Whether the attribute belongs to every class."""
    return name in ("__dict__", "__weakref__", "__module__", "__doc__", "__slots__", "__annotations__")


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Whether a module belongs to Python or to an installed package, whose version is in the record."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "weightsmith":
        return top != "__main__"
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return any(part in _INSTALLED for part in Path(file).parts)


def _globals_read(code: types.CodeType) -> set[str]:
    own = {str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return own.union(*map(_globals_read, inner))


def _code_text(code: types.CodeType) -> str:
    constants = (None, *code.co_consts[1:]) if _has_docstring(code) else code.co_consts
    return "\n".join([code.co_code.hex(), *code.co_names, *map(_const_text, constants)])


def _has_docstring(code: types.CodeType) -> bool:
    """Whether the first constant is a docstring; before Python 3.13 a function has None there if it has none."""
    if flag := getattr(inspect, "CO_HAS_DOCSTRING", 0):
        return bool(code.co_flags & flag)
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")  # no class, lambda or the like
    return bool(function) and isinstance(code.co_consts[0], str)


def _const_text(const: Any) -> str:
    if isinstance(const, types.CodeType):
        return _code_text(const)
    # The order of a set in the code differs from process to process.
    return f"{{{', '.join(sorted(map(repr, const)))}}}" if isinstance(const, frozenset) else repr(const)
