"""The resolved type of each field of a dataclass, which options are checked against and records are read by."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

__all__ = ["field_hints", "is_union", "without_none"]

_KNOWN: dict[Any, dict[str, Any]] = {}


def field_hints(cls: Any) -> dict[str, Any]:
    """Field name → type, in order; worked out once per class."""
    if cls not in _KNOWN:
        hints = typing.get_type_hints(cls)
        _KNOWN[cls] = {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return _KNOWN[cls]


def is_union(hint: Any) -> bool:
    """Whether the hint is ``A | B`` or ``Optional``."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def without_none(hint: Any) -> list[Any]:
    """The members of a union other than None."""
    return [kind for kind in typing.get_args(hint) if kind is not type(None)]
