"""Frozen records with an exact JSON round trip, and their provenance.

A record is a frozen dataclass whose fields are numbers, text, None, enums, options, other records, arrays of numbers,
or tuples and dicts (with text as keys) of these. ``from_dict(to_dict(r)) == r`` holds to the last bit, through JSON
text as well; NaN and infinity are refused, because "could not be computed" is a status or None, never a number.

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
import functools
import hashlib
import importlib.metadata
import json
import math
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from weightsmith._version import __version__
from weightsmith.core.display import Displayed
from weightsmith.core.errors import UsageError
from weightsmith.core.options import Option, field_hints, is_union, without_none
from weightsmith.core.storage import write_atomic

__all__ = ["Lineage", "Origin", "Record", "digest_of", "unsealed", "versions", "write_record"]

_DTYPE = re.compile(r"\|[biu]1|[<>](?:[iu][248]|f[248])")  # booleans and the real dtypes that exist on every platform
_SEAL = "digest"  # no record has a field of that name
_MOST_AXES = 32  # as NumPy has always allowed


class Record(Displayed):
    """The base of all results; subclasses are ``@dataclass(frozen=True, eq=False)`` and equal if their JSON is."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values, exactly."""
        name = type(self).__name__
        return {
            key: _encode(getattr(self, key), hint, f"{name}.{key}") for key, hint in field_hints(type(self)).items()
        }

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
        """The inverse of :meth:`to_json`; NaN and infinity, which are not JSON, are refused.

        The text of a file that :func:`write_record` wrote is refused if it was changed since.
        """
        return cls.from_dict(unsealed(json.loads(text, parse_constant=_refuse_constant)))

    def digest(self) -> str:
        """SHA-256 of the canonical JSON text: equal records, equal digests."""
        return digest_of(self._canonical())

    def _canonical(self) -> str:
        """JSON with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._canonical() == self._canonical()

    def __hash__(self) -> int:
        return hash(self._canonical())


def write_record(path: str | Path, record: Record) -> Path:
    """Write a record as a JSON file with a digest of its content."""
    values = record.to_dict()
    sealed = {**values, _SEAL: _seal_of(values)}
    return write_atomic(path, json.dumps(sealed, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def unsealed(values: Any) -> Any:
    """The values of a record file without the digest, which must match them; older files have none.

    >>> unsealed({"name": "a", "digest": "0" * 64})
    Traceback (most recent call last):
    weightsmith.core.errors.UsageError: its digest does not match its values: the file was changed after it was written
    """
    if not isinstance(values, dict) or not isinstance(values.get(_SEAL), str):
        return values
    rest = {key: value for key, value in values.items() if key != _SEAL}
    if values[_SEAL] != _seal_of(rest):
        raise UsageError("its digest does not match its values: the file was changed after it was written")
    return rest


def _seal_of(values: Mapping[str, Any]) -> str:
    return digest_of(json.dumps(values, sort_keys=True))


@dataclasses.dataclass(frozen=True, eq=False)
class Origin(Record):
    """The provenance of a result: the seed, the digests of its inputs, the versions that computed it."""

    seed: int | None = None
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: versions())  # noqa: PLW0108 (defined below)


@dataclasses.dataclass(frozen=True, eq=False)
class Lineage(Record):
    """The history of a network: the operation that made it, and the digest and lineage of its parent."""

    operation: str
    parent: str | None = None
    ancestors: tuple[Lineage, ...] = ()

    def then(self, operation: str, digest: str) -> Lineage:
        """The lineage of a network made by ``operation`` from the one with this lineage and ``digest``."""
        return Lineage(operation, digest, (*self.ancestors, Lineage(self.operation, self.parent)))


def versions(*packages: str) -> dict[str, str]:
    """Versions of weightsmith, numpy, torch and ``packages``, read from their metadata without importing them."""
    return {"weightsmith": __version__, **{name: _version(name) for name in ("numpy", "torch", *packages)}}


@functools.cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)


def digest_of(content: str | bytes | np.ndarray[Any, Any]) -> str:
    """SHA-256 in hex of text, bytes or an array (its type, shape and values)."""
    if isinstance(content, np.ndarray):
        digest = hashlib.sha256(f"{content.dtype.str}{content.shape}".encode())
        digest.update(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)  # no copy of a large array
        return digest.hexdigest()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _refuse_constant(text: str) -> None:
    raise UsageError(f"{text} is not a number: a record holds finite numbers or None")


def _encode(value: Any, hint: Any, where: str) -> Any:
    """``value`` in JSON; with the hint ``float`` a whole number is written as a float."""
    inner = typing.get_args(hint)
    match value:
        case None | bool() | str():
            return value
        case np.bool_():
            return bool(value)
        case enum.Enum():
            return value.value
        case Record():
            return value.to_dict()
        case Option():
            return _encode(value.to_dict(), Any, where)
        case int() | np.integer():
            return float(value) if _means_float(hint) else int(value)
        case float() | np.floating():
            if not math.isfinite(value):
                raise UsageError(f"{where} is {value}: a record holds finite numbers or None")
            return float(value)
        case tuple() | list():
            same = len(inner) == 2 and inner[1] is Ellipsis
            hints = [inner[0]] * len(value) if same else [*inner, *[Any] * len(value)]
            return [_encode(item, hints[i], f"{where}[{i}]") for i, item in enumerate(value)]
        case Mapping():
            item_hint = inner[1] if len(inner) == 2 else Any
            return {_key(k, where): _encode(item, item_hint, f"{where}[{k!r}]") for k, item in value.items()}
        case np.ndarray():
            return _encode_array(value, where)
        case _:
            raise UsageError(f"{where} is a {type(value).__name__}: not something a record can hold")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise UsageError(f"{where} has the key {key!r}: keys are text")
    return key


def _encode_array(array: np.ndarray[Any, Any], where: str) -> dict[str, Any]:
    if _DTYPE.fullmatch(array.dtype.str) is None:
        raise UsageError(f"{where} is an array of {array.dtype}: not something a record can hold")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"{where} holds NaN or infinity: a record holds finite numbers or None")
    # dtype.str carries the byte order, so the array reads the same on any machine.
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "base64": data}


def _means_float(hint: Any) -> bool:
    kinds = without_none(hint) if is_union(hint) else [hint]
    return float in kinds and int not in kinds


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
        return {key: _decode(item, args[1], f"{where}[{key!r}]") for key, item in value.items()}
    if origin is np.ndarray or hint is np.ndarray:
        return _decode_array(value, args, where)
    return _decode_plain(value, hint, where)


def _decode_array(value: Any, args: tuple[Any, ...], where: str) -> np.ndarray[Any, Any]:
    """The array that :func:`_encode_array` wrote; the dtype text is checked before NumPy parses it."""
    _expect(isinstance(value, Mapping) and set(value) == {"dtype", "shape", "base64"}, value, "an array", where)
    kind, shape, text = value["dtype"], value["shape"], value["base64"]
    _expect(isinstance(kind, str) and _DTYPE.fullmatch(kind) is not None, kind, "numbers of a known type", where)
    lengths = isinstance(shape, list | tuple) and all(type(length) is int and length >= 0 for length in shape)
    _expect(lengths and len(shape) <= _MOST_AXES, shape, "an array with a length along each axis", where)
    _expect(isinstance(text, str), text, "an array in base64", where)
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UsageError(f"{where} is not base64: {error}") from error
    dtype = np.dtype(kind)
    _expect(len(data) == math.prod(shape) * dtype.itemsize, shape, f"{len(data) // dtype.itemsize} numbers", where)
    wanted = _group(typing.get_args(args[1])[0]) if len(args) == 2 and typing.get_args(args[1]) else np.generic
    _expect(issubclass(dtype.type, wanted), kind, f"an array of {wanted.__name__} numbers", where)
    array = np.frombuffer(data, dtype).reshape(shape).copy()
    _expect(dtype.kind != "b" or bool((array.view(np.uint8) <= 1).all()), text[:20], "truth values", where)
    return array


def _group(scalar: Any) -> type[np.generic]:
    """The dtype kinds allowed for a field of type ``scalar``: integers of any width for ``int``, and so on."""
    groups = (np.integer, np.floating, np.bool_)
    return next((group for group in groups if isinstance(scalar, type) and issubclass(scalar, group)), np.generic)


def _decode_plain(value: Any, hint: Any, where: str) -> Any:
    if hint is Any:
        return value
    if issubclass(hint, Record | Option):
        return hint.from_dict(value)
    if issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            _expect(False, value, " | ".join(str(m.value) for m in hint), where)
    if hint is float:
        _expect(isinstance(value, int | float) and not isinstance(value, bool), value, "a number", where)
        return float(value)
    _expect(isinstance(value, hint) and (hint is bool or not isinstance(value, bool)), value, hint.__name__, where)
    return value


def _kind_of(value: Any, kinds: list[Any], where: str) -> Any:
    """The member of a union of plain types that ``value`` is an instance of; unions of records are ambiguous."""
    for kind in (bool, int, float, str):
        if kind in kinds and type(value) is kind:
            return kind
    if float in kinds and type(value) is int:
        return float
    raise UsageError(f"{where} is {value!r}: none of {', '.join(k.__name__ for k in kinds)}")


def _expect(holds: bool, value: Any, wanted: str, where: str) -> None:
    if not holds:
        raise UsageError(f"{where} must be {wanted}, not {value!r}")
