"""Frozen records with an exact JSON round trip, and where they came from.

A record is a frozen dataclass whose fields are numbers, text, None, enums, options, other records, arrays, or
tuples and dicts of these. ``from_dict(to_dict(r)) == r`` holds to the last bit, through JSON text as well; NaN and
infinity are refused, because "could not be computed" is a status or None, never a number.

>>> @dataclasses.dataclass(frozen=True, eq=False)
... class Point(Record):
...     name: str
...     at: tuple[float, ...]
...     weight: float | None = None
>>> Point("a", (0.1, 2.0)).to_json()
'{"name": "a", "at": [0.1, 2.0], "weight": null}'
>>> Point.from_json('{"name": "a", "at": [0.1, 2.0], "weight": null}')
Point(name='a', at=(0.1, 2.0), weight=None)
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import hashlib
import importlib.metadata
import json
import math
import typing
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np

from weightsmith._version import __version__
from weightsmith.core.errors import UsageError
from weightsmith.core.hints import field_hints, is_union, without_none
from weightsmith.core.options import Option

__all__ = ["Lineage", "Origin", "Record", "digest_of", "versions"]


class Record:
    """The base of all results; subclasses are ``@dataclass(frozen=True, eq=False)`` and equal if their JSON is."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values, exactly."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: _encode(getattr(self, f.name), f"{type(self).__name__}.{f.name}") for f in fields}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; a missing, unknown or mistyped field is named."""
        hints = field_hints(cls)
        if not isinstance(values, Mapping):
            raise UsageError(f"{cls.__name__} is written as an object, not {values!r}")
        unknown = sorted(set(values) - set(hints))
        if unknown:
            raise UsageError(f"{cls.__name__} has no field {unknown[0]!r}")
        missing = [f.name for f in dataclasses.fields(cls) if _is_required(f) and f.name not in values]  # type: ignore[arg-type]
        if missing:
            raise UsageError(f"{cls.__name__} needs the field {missing[0]!r}")
        return cls(**{key: _decode(value, hints[key], f"{cls.__name__}.{key}") for key, value in values.items()})

    def to_json(self, indent: int | None = None) -> str:
        """The record as JSON text, the same bytes for equal records."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of :meth:`to_json`."""
        return cls.from_dict(json.loads(text))

    def digest(self) -> str:
        """SHA-256 of the JSON text: equal records, equal digests."""
        return digest_of(self.to_json())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_dict() == self.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())


@dataclasses.dataclass(frozen=True, eq=False)
class Origin(Record):
    """What a result was made from: the seed, the digests of its inputs, the versions that computed it."""

    seed: int | None = None
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: versions())  # noqa: PLW0108 (defined below)


@dataclasses.dataclass(frozen=True, eq=False)
class Lineage(Record):
    """How a network came to be: the operation that made it, and its parent's digest and own lineage."""

    operation: str
    parent: str | None = None
    ancestors: tuple[Lineage, ...] = ()

    def then(self, operation: str, digest: str) -> Lineage:
        """The lineage of a network made by ``operation`` from the one with this lineage and ``digest``."""
        return Lineage(operation, digest, (*self.ancestors, Lineage(self.operation, self.parent)))


def versions(*packages: str) -> dict[str, str]:
    """Versions of weightsmith, numpy, torch and ``packages``, read from their metadata without importing them."""
    found = {name: importlib.metadata.version(name) for name in ("numpy", "torch", *packages)}
    return {"weightsmith": __version__, **found}


def digest_of(content: str | bytes | np.ndarray[Any, Any]) -> str:
    """SHA-256 in hex of text, bytes or an array (its type, shape and values)."""
    if isinstance(content, np.ndarray):
        digest = hashlib.sha256(f"{content.dtype.str}{content.shape}".encode())
        digest.update(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)  # no copy of a large array
        return digest.hexdigest()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _encode(value: Any, where: str) -> Any:
    match value:
        case None | bool() | str():
            return value
        case enum.Enum():
            return value.value
        case Record() | Option():
            return value.to_dict()
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            if not math.isfinite(value):
                raise UsageError(f"{where} is {value}: a record holds finite numbers or None")
            return float(value)
        case tuple() | list():
            return [_encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        case Mapping():
            return {str(key): _encode(item, f"{where}[{key!r}]") for key, item in value.items()}
        case np.ndarray():
            # dtype.str carries the byte order, so the array reads the same on any machine.
            data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            return {"dtype": value.dtype.str, "shape": list(value.shape), "base64": data}
        case _:
            raise UsageError(f"{where} is a {type(value).__name__}: not something a record can hold")


def _decode(value: Any, hint: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if is_union(hint):
        if value is None and type(None) in args:
            return None
        kinds = without_none(hint)
        return _decode(value, kinds[0] if len(kinds) == 1 else _kind_of(value, kinds, where), where)
    if origin is Literal:
        _expect(value in args, value, " | ".join(map(str, args)), where)
        return value
    if origin is tuple:
        _expect(isinstance(value, list | tuple), value, "a list", where)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_decode(item, args[0], f"{where}[{i}]") for i, item in enumerate(value))
        _expect(len(value) == len(args), value, f"{len(args)} values", where)
        return tuple(
            _decode(item, kind, f"{where}[{i}]") for i, (item, kind) in enumerate(zip(value, args, strict=True))
        )
    if origin is dict:
        _expect(isinstance(value, Mapping), value, "an object", where)
        return {args[0](key): _decode(item, args[1], f"{where}[{key!r}]") for key, item in value.items()}
    if origin is np.ndarray or hint is np.ndarray:
        return np.frombuffer(base64.b64decode(value["base64"]), value["dtype"]).reshape(value["shape"]).copy()
    return _decode_plain(value, hint, where)


def _decode_plain(value: Any, hint: Any, where: str) -> Any:
    if hint is Any:
        return value
    if issubclass(hint, Record | Option):
        return hint.from_dict(value)
    if issubclass(hint, enum.Enum):
        return hint(value)
    if hint is float:
        _expect(isinstance(value, int | float) and not isinstance(value, bool), value, "a number", where)
        return float(value)
    _expect(isinstance(value, hint) and (hint is bool or not isinstance(value, bool)), value, hint.__name__, where)
    return value


def _kind_of(value: Any, kinds: list[Any], where: str) -> Any:
    """Which of several plain kinds ``value`` is; a record's union may not mix records, they would be guesswork."""
    for kind in (bool, int, float, str):
        if kind in kinds and type(value) is kind:
            return kind
    raise UsageError(f"{where} is {value!r}: none of {', '.join(k.__name__ for k in kinds)}")


def _expect(holds: bool, value: Any, wanted: str, where: str) -> None:
    if not holds:
        raise UsageError(f"{where} must be {wanted}, not {value!r}")
