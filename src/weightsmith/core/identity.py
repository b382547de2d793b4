"""Fingerprints of callables, so that results of one function are never reused for another.

A name is not enough: all lambdas share one, and so do two losses with different weights.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weightsmith.core.records import digest_of

__all__ = ["code_digest", "identity_of"]


def code_digest(function: Any) -> str | None:
    """A digest of the function's own code, so that results computed before an edit are not reused after it.

    It sees the function itself and those inside it, not the functions it calls; None for a callable without code.
    """
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return None if code is None else digest_of(_code_text(code))


def identity_of(function: Callable[..., Any]) -> str:
    """The name of a callable and a digest of its code, default values, closure and attributes.

    The same in another process; addresses in memory play no part.

    >>> scale = lambda factor: lambda x: factor * x
    >>> identity_of(scale(2)) == identity_of(scale(2)), identity_of(scale(2)) == identity_of(scale(3))
    (True, False)
    """
    named = function if hasattr(function, "__qualname__") else type(function)
    text = "\n".join(_parts(function, 0))
    return f"{named.__module__}.{named.__qualname__} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _parts(value: Any, depth: int) -> list[str]:
    """The parts of a value as text that is the same in another process."""
    if depth > 4:
        return []
    inner = functools.partial(_parts, depth=depth + 1)
    if hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor
        return [digest_of(value.detach().cpu().numpy())]
    if isinstance(value, np.ndarray):
        return [digest_of(value)]
    match value:
        case functools.partial():
            return [*inner(value.func), *inner(value.args), *inner(value.keywords)]
        case types.FunctionType():
            enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
            return [value.__qualname__, code_digest(value) or "", *inner(value.__defaults__ or ()), *inner(enclosed)]
        case types.MethodType():
            return [*inner(value.__func__), *inner(value.__self__)]
        case Mapping():
            return [part for key in sorted(value, key=str) for part in (str(key), *inner(value[key]))]
        case tuple() | list():
            return [part for item in value for part in inner(item)]
        case None | bool() | int() | float() | str() | bytes():
            return [repr(value)]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    attributes = getattr(value, "__dict__", {})
    return [kind, *inner({name: item for name, item in attributes.items() if not isinstance(item, types.ModuleType)})]


def _code_text(code: types.CodeType) -> str:
    inner = [_code_text(const) if isinstance(const, types.CodeType) else repr(const) for const in code.co_consts]
    return "\n".join([code.co_code.hex(), *code.co_names, *inner])
