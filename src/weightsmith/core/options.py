"""Options as small frozen objects: ranges are data, with central checks and one text form.

A *family* is a class of interchangeable options (schedules, clippings, networks …); a member
states its parameters and their ranges, nothing else:

>>> class Shape(Option):
...     '''A family.'''
>>> class Box(Shape, name="box"):
...     '''A member: an area with a width.'''
...     width: float = param(gt=0, doc="metres")
...     sides: int = param(default=4, ge=3)
...     fill: bool = param(default=False)
>>> Box(2, sides=6)
Box(width=2.0, sides=6, fill=False)
>>> Box(-1)
Traceback (most recent call last):
weightsmith.core.errors.OptionError: box: width must be > 0, not -1

The text form ``name[:v1,v2,key=value]`` is the same on the command line, in recipes and in records; positional
values fill the parameters in order. ``str`` writes it, ``parse`` reads it, and the two are inverse:

>>> str(Box(2, fill=True)), Shape.parse("box:2,fill=true")
('box:2.0,fill=true', Box(width=2.0, sides=4, fill=True))
>>> Shape.parse("bx:2")
Traceback (most recent call last):
weightsmith.core.errors.UnknownName: unknown shape 'bx'; did you mean 'box'? (known: box)
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import math
import numbers
import operator
import types
import typing
from abc import ABC
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self, dataclass_transform

from weightsmith.core.errors import OptionError, UnknownName, brief
from weightsmith.core.text import quote, read_value, split_items

__all__ = [
    "Option",
    "Range",
    "check_int",
    "check_value",
    "field_hints",
    "is_union",
    "param",
    "type_text",
    "without_none",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """The allowed values of one parameter, as data: bounds for numbers (for each item of several), least length."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int = 0
    doc: str = ""

    def __str__(self) -> str:
        """As it is printed in error messages and in the generated option tables: ``≥ 0, < 1``."""
        signs = (("≥", self.ge), (">", self.gt), ("≤", self.le), ("<", self.lt))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in signs if bound is not None)

    def broken_by(self, number: float) -> str | None:
        """The bound that ``number`` breaks, as text, or None."""
        checks: tuple[tuple[float | None, str, Callable[[float, float], bool]], ...] = (
            (self.ge, "≥", operator.ge),
            (self.gt, ">", operator.gt),
            (self.le, "≤", operator.le),
            (self.lt, "<", operator.lt),
        )
        for bound, sign, holds in checks:
            if bound is not None and not holds(number, bound):
                return f"{sign} {bound:g}"
        return None


def param(*, default: Any = dataclasses.MISSING, kw_only: bool = False, **bounds: Any) -> Any:
    """Declare a parameter with its default and its :class:`Range` (``ge, gt, le, lt, min_length, doc``).

    ``kw_only`` parameters are given by name only; a family declares what all its members share in this way.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"range": Range(**bounds)})


@dataclass_transform(frozen_default=True, field_specifiers=(param,))
class Option(ABC):
    """The root of all option objects. Subclass it once for a family, and the family for each member."""

    family: ClassVar[str]
    members: ClassVar[dict[str, type[Option]]]
    name: ClassVar[str]

    def __init_subclass__(cls, name: str | None = None, family: str | None = None, **kwargs: Any) -> None:
        """A direct subclass opens a ``family`` (by default its own name); any other joins it under ``name``."""
        super().__init_subclass__(**kwargs)
        if Option in cls.__bases__:
            cls.family, cls.members = family or cls.__name__.lower(), {}
            dataclasses.dataclass(frozen=True)(cls)
            return
        if name is None:
            raise TypeError(f"{cls.__name__} is a member of a family and needs name=…")
        cls.name = name
        known = cls.members.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"two options are called {name!r}: {known.__name__} and {cls.__name__}")
        cls.members[name] = cls  # the newest, when a notebook cell is run again
        # __init_subclass__ runs before a decorator could, so the class becomes a dataclass here.
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for name, hint in field_hints(type(self)).items():
            where = f"{self.name}: {name}"
            value = check_value(getattr(self, name), hint, _ranges(type(self))[name], where)
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:  # noqa: B027 (most options have nothing to add)
        """Check what depends on more than one parameter; raise :class:`OptionError`. Nothing by default."""

    def __str__(self) -> str:
        """The text form: required values in order, then what differs from its default."""
        parts: list[str] = []
        all_plain = _takes_all_plain(type(self))
        for field in _fields(type(self)):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if field.name == all_plain and value:
                parts += map(quote, value)
            elif field.default is dataclasses.MISSING and not isinstance(value, tuple) and not field.kw_only:
                parts.append(quote(value))
            else:
                parts.append(f"{field.name}={quote(value)}")
        return f"{self.name}:{','.join(parts)}" if parts else self.name

    @classmethod
    def of(cls, given: Any) -> Self:
        """``given`` itself if it is a member of this family, or the member that it describes as text."""
        if isinstance(given, str):
            return cls.parse(given)
        if not isinstance(given, cls):
            known = ", ".join(cls.members)
            raise OptionError(f"{cls.family} must be one of {known} (an object or its text form), not {given!r}")
        return given

    @classmethod
    def parse(cls, text: str) -> Self:
        """The member of this family that ``text`` describes."""
        name, _, rest = text.strip().partition(":")
        member = cls.member(name.strip())
        fields = [field.name for field in _fields(member)]
        plain = [field.name for field in _fields(member) if not field.kw_only]
        positional, named = split_items(rest, text)
        values: dict[str, Any] = {}
        all_plain = _takes_all_plain(member)
        if all_plain is not None and positional:
            values[all_plain] = tuple(read_value(item) for item in positional)
        elif len(positional) > len(plain):
            raise OptionError(f"{text!r}: {name} takes at most {len(plain)} plain values ({', '.join(plain)})")
        else:
            values.update(zip(plain, map(read_value, positional), strict=False))
        for key, item in named:
            if key not in fields:
                raise OptionError(f"{text!r}: {UnknownName(f'parameter of {name}', key, fields)}")
            if key in values:
                raise OptionError(f"{text!r}: {key} is given twice")
            values[key] = read_value(item)
        return member.from_values(values)

    @classmethod
    def member(cls, name: str) -> type[Self]:
        """The member class called ``name``; the error suggests the nearest."""
        if name not in cls.members:
            raise UnknownName(cls.family, name, cls.members)
        return typing.cast("type[Self]", cls.members[name])

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Build this member from a mapping; unknown and missing parameters are named."""
        required = [field.name for field in _fields(cls) if field.default is dataclasses.MISSING]
        missing = [key for key in required if key not in values]
        unknown = [key for key in values if key not in field_hints(cls)]
        if unknown:
            raise OptionError(str(UnknownName(f"parameter of {cls.name}", unknown[0], field_hints(cls))))
        if missing:
            raise OptionError(f"{cls.name} needs {', '.join(missing)}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the member's name under ``name``, then every parameter."""
        values = {field.name: getattr(self, field.name) for field in _fields(type(self))}
        return {"name": self.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`, for any member of the family."""
        name = values.get("name") if isinstance(values, Mapping) else None  # type: ignore[redundant-expr]
        if not isinstance(name, str):
            raise OptionError(f"a {cls.family} is written as an object with a 'name', not {values!r}")
        return cls.member(name).from_values({k: v for k, v in values.items() if k != "name"})

    @classmethod
    def table(cls) -> list[dict[str, str]]:
        """The parameters of this member as rows (name, type, default, range, doc), for docs and ``--help``."""
        rows = []
        for field in _fields(cls):
            bounds = _ranges(cls)[field.name]
            default = "required" if field.default is dataclasses.MISSING else quote(field.default)
            kind = type_text(field_hints(cls)[field.name])
            rows.append({"name": field.name, "type": kind, "default": default, "range": str(bounds), "doc": bounds.doc})
        return rows


def check_int(name: str, value: Any, least: int = 1) -> int:
    """``value`` as an int if it is a whole number (NumPy's included) of at least ``least``.

    >>> check_int("epochs", 2.5)
    Traceback (most recent call last):
    weightsmith.core.errors.OptionError: epochs must be a whole number ≥ 1, not 2.5
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise OptionError(f"{name} must be a whole number ≥ {least}, not {value!r}")
    if number >= 1 << 63:
        raise OptionError(f"{name} must be a whole number below 2^63, not {brief(value)}")
    return number


def _fields(cls: Any) -> list[dataclasses.Field[Any]]:
    """The parameters in the order of ``__init__``: those given by name only come last."""
    return sorted(dataclasses.fields(cls), key=lambda field: field.kw_only is True)


def _ranges(cls: Any) -> dict[str, Range]:
    return {field.name: field.metadata.get("range", Range()) for field in dataclasses.fields(cls)}


def _takes_all_plain(cls: Any) -> str | None:
    """The first parameter, if it is a sequence: it takes all positional values."""
    first = next((field.name for field in _fields(cls) if not field.kw_only), None)
    if first is None:
        return None
    hint = field_hints(cls)[first]
    kinds = without_none(hint) if is_union(hint) else [hint]
    return first if typing.get_origin(kinds[0]) is tuple else None


def check_value(value: Any, hint: Any, bounds: Range, where: str) -> Any:
    """``value`` converted to the type ``hint`` and checked against ``bounds``; an OptionError names ``where``."""
    origin = typing.get_origin(hint)
    if is_union(hint):
        if value is None and type(None) in typing.get_args(hint):
            return None
        (kind,) = without_none(hint)
        return check_value(value, kind, bounds, where)
    if origin is Literal:
        allowed = typing.get_args(hint)
        if value not in allowed:
            near = (
                difflib.get_close_matches(value.lower(), [str(each) for each in allowed], 1)
                if isinstance(value, str)
                else []
            )
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"{where} must be one of {', '.join(map(str, allowed))}, not {value!r}{hint}")
        return allowed[allowed.index(value)]  # 5, where 5.0 or a NumPy integer was given
    if origin is tuple:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            value = (value,)
        items = tuple(check_value(item, typing.get_args(hint)[0], bounds, where) for item in value)
        if len(items) < bounds.min_length:
            raise OptionError(f"{where} needs at least {bounds.min_length} value(s), not {len(items)}")
        return items
    if hint in (int, float):
        return _checked_number(value, hint, bounds, where)
    if inspect.isclass(hint) and not isinstance(value, hint):
        raise OptionError(f"{where} must be {type_text(hint)}, not {value!r}")
    return value


def _checked_number(value: Any, kind: type, bounds: Range, where: str) -> float:
    number_type = numbers.Integral if kind is int else numbers.Real
    if isinstance(value, bool) or not isinstance(value, number_type):
        raise OptionError(f"{where} must be {type_text(kind)}, not {value!r}")
    try:
        number: float = kind(value)
    except OverflowError:
        raise OptionError(f"{where} is too large for a floating-point number") from None
    if math.isnan(number):
        raise OptionError(f"{where} must be a number, not nan")
    broken = bounds.broken_by(number)
    if broken:
        raise OptionError(f"{where} must be {broken}, not {value!r}")
    return number


def type_text(hint: Any) -> str:
    """A type as messages and tables name it: ``a whole number or none``."""
    plain = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if hint in plain:
        return plain[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " | ".join(json.dumps(arg).strip('"') for arg in args)
    if origin is tuple:
        return f"several of {type_text(args[0])}"
    if is_union(hint):
        return " or ".join("none" if arg is type(None) else type_text(arg) for arg in args)
    return str(getattr(hint, "__name__", hint))


# Resolved type hints of dataclass fields, for checking options and reading records.


_KNOWN: dict[Any, dict[str, Any]] = {}


def field_hints(cls: Any) -> dict[str, Any]:
    """Field name → type, in order; computed once per class."""
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
