"""A verb is declared once, by its signature, which holds the type, range, default and help line of every option.

    @verb
    def reduce(network, data, *, rows: Annotated[int | None, Range(ge=1), Doc("training rows to look at")] = None, …)

Everything else is derived from it: the check of a call from Python, the reading of values from recipes and from the
command line (:meth:`Parameter.read`), the options of the command and their help (:func:`declared`), the settings in a
record (:func:`written`), and the tables in the documentation (:func:`table`). Options of every call (seed, threads,
device, batch, workers) are declared here, once for all verbs.

A verb's file imports nothing heavy, so that ``weightsmith reduce --help`` does not wait for torch: its types are
imported for type checkers only, and ``@verb(types=("reducing.methods", …))`` says where they are found when the verb
is called.

>>> @verb
... def shrink(*, rows: Annotated[int | None, Range(ge=1), Doc("training rows to look at")] = None) -> int | None:
...     return rows
>>> shrink(rows=0)
Traceback (most recent call last):
weightsmith.core.errors.OptionError: rows must be a whole number ≥ 1, not 0
>>> parameters(shrink)["rows"].read("500"), parameters(shrink)["rows"].read("none")
(500, None)
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, overload

from weightsmith.core.errors import OptionError, brief
from weightsmith.core.identity import identity_of
from weightsmith.core.options import Option, Range, check_int, check_value, is_union, type_text, without_none
from weightsmith.core.parallel import spread
from weightsmith.core.progress import shows_progress
from weightsmith.core.text import quote, read_value, split_items

__all__ = [
    "Batch",
    "Cluster",
    "Device",
    "Doc",
    "Parameter",
    "Seed",
    "Split",
    "TestRows",
    "Threads",
    "Workers",
    "declared",
    "parameters",
    "table",
    "verb",
    "written",
]

P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class Doc:
    """The help line of an option, and properties that its type does not express.

    ``surrounds``: it belongs to the call and not to the work itself, so that a recipe sets it once for all stages.
    ``recorded=False``: the result does not depend on it, and records do not name it. ``read`` converts a given value to
    the one that is used; with ``none=False`` also the text ``none``, which otherwise means None. ``rare``: the help
    lists it after the common options. ``flag`` is its name on the command line, if it differs from the option's.
    """

    text: str
    surrounds: bool = False
    recorded: bool = True
    read: Callable[[Any], Any] | None = None
    none: bool = True
    rare: bool = False
    flag: str | None = None


Seed = Annotated[int, Range(ge=0), Doc("seed of all random numbers", surrounds=True)]
Threads = Annotated[int, Range(ge=1), Doc("threads; one is fastest for small networks", surrounds=True)]
Device = Annotated[str, Doc("where tensors are computed: cpu, cuda …", surrounds=True)]
Workers = Annotated[int, Range(ge=1), Doc("parallel worker processes", surrounds=True, recorded=False)]
Cluster = Annotated[
    str | None, Doc("a Dask scheduler to run on: tcp://HOST:PORT", surrounds=True, recorded=False, rare=True)
]
Batch = Annotated[int, Range(ge=1), Doc("rows per batch when the network runs", rare=True)]
Split = Annotated[str | None, Doc("the split of the data; default: test, or the only one", rare=True)]
TestRows = Annotated[int | None, Range(ge=1), Doc("rows to evaluate on, drawn by the seed; default: all of the split")]


class _Any(type):
    """Any attribute or item of a stand-in, as in ``nn.Module`` or ``Missing[int]``, is the stand-in itself."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, item: object) -> type:
        return cls


class _NotImported(metaclass=_Any):
    """Stands for a name that an annotation mentions and its module imports for type checkers only."""


class _Names(dict[str, Any]):
    """The names an annotation may use, as ``eval`` looks them up: of its module, of ``homes``, else a stand-in."""

    def __init__(self, known: Mapping[str, Any], homes: Sequence[str]) -> None:
        super().__init__(known)
        self.homes = homes

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name) or name.startswith("__"):
            raise KeyError(name)  # eval then finds the built-in; debuggers look for __names__ of their own
        for home in self.homes:
            found = getattr(importlib.import_module(f"weightsmith.{home}"), name, None)
            if found is not None:
                return found
        return _NotImported


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One option of a verb, as its signature declares it."""

    name: str
    hint: Any
    default: Any = inspect.Parameter.empty
    range: Range = dataclasses.field(default_factory=Range)
    doc: Doc = dataclasses.field(default_factory=lambda: Doc(""))

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is inspect.Parameter.empty

    @functools.cached_property
    def optional(self) -> bool:
        """Whether it can be None."""
        return is_union(self.hint) and type(None) in typing.get_args(self.hint)

    @functools.cached_property
    def _item(self) -> tuple[bool, list[Any]]:
        """Whether it holds several values, and the types one value may have."""
        kinds = without_none(self.hint) if is_union(self.hint) else [self.hint]
        several = [kind for kind in kinds if typing.get_origin(kind) in (Sequence, tuple, list)]
        if several:
            (inner, *_) = typing.get_args(several[0])
            kinds = without_none(inner) if is_union(inner) else [inner]
        return bool(several), kinds

    @property
    def several(self) -> bool:
        """Whether it holds several values."""
        return self._item[0]

    @functools.cached_property
    def kinds(self) -> tuple[Any, ...]:
        """The types that one value may have."""
        return tuple(self._item[1])

    @functools.cached_property
    def members(self) -> tuple[type[Option], ...]:
        """The option classes among these types: a family, or some of its members."""
        return tuple(kind for kind in self.kinds if inspect.isclass(kind) and issubclass(kind, Option))

    @property
    def imported(self) -> bool:
        """Whether all types of a value are known, so that it can be checked."""
        return _NotImported not in self.kinds

    @property
    def plain(self) -> bool:
        """Whether it can be written as text, unlike functions, modules and other Python objects."""
        known = (bool, int, float, str, Path)
        literal = any(typing.get_origin(kind) is Literal for kind in self.kinds)
        return literal or bool(self.members) or self.doc.read is not None or any(kind in known for kind in self.kinds)

    def check(self, value: Any) -> Any:
        """``value`` as the verb uses it, from a call in Python; or an error that names the option and its range."""
        if value is None and (self.optional or self.default is None):
            return None
        if self.doc.read is not None:
            return self.doc.read(value)
        if not self.several:
            return self._checked_item(value)
        single = isinstance(value, str | Option) or not hasattr(value, "__iter__")
        items = tuple(map(self._checked_item, [value] if single else value))
        if len(items) < self.range.min_length:
            raise OptionError(f"{self.name} needs at least {self.range.min_length} value(s), not {len(items)}")
        return items

    def _checked_item(self, value: Any) -> Any:
        if self.members:
            return self._checked_option(value)
        for kind in self.kinds:
            if typing.get_origin(kind) is Literal and value in typing.get_args(kind):
                return value
        simple = [kind for kind in self.kinds if kind in (bool, int, float) or typing.get_origin(kind) is Literal]
        if not simple:
            return self._checked_instance(value)
        if str in self.kinds and isinstance(value, str):
            return value
        kind = float if {int, float} <= set(simple) else simple[0]
        if kind is int and self.range in (only := Range(ge=self.range.ge), dataclasses.replace(only, min_length=1)):
            return self._checked_int(value)
        try:
            return check_value(value, kind, self.range, self.name)
        except OptionError:
            if kind is not float:
                raise
            raise OptionError(f"{self.name} must be a number {self.range}".rstrip() + f", not {value!r}") from None

    def _checked_instance(self, value: Any) -> Any:
        """A value of one of the types, if these are all classes; any kind of path is a path."""
        classes = [kind for kind in self.kinds if inspect.isclass(kind) and typing.get_origin(kind) is None]
        known: tuple[type, ...] = (*classes, os.PathLike) if Path in classes else tuple(classes)
        if self.imported and len(classes) == len(self.kinds) and not isinstance(value, known):
            raise OptionError(f"{self.name} must be {type_text(self.hint)}, not {brief(value)}")
        return value

    def _checked_int(self, value: Any) -> int:
        """A whole number; the error names type, range and the words that are allowed instead in one sentence."""
        least = int(self.range.ge or 0)
        try:
            return check_int(self.name, value, least)
        except OptionError:
            words = [word for kind in self.kinds for word in typing.get_args(kind) if isinstance(word, str)]
            if not words:
                raise
        raise OptionError(f"{self.name} must be a whole number ≥ {least} or {' or '.join(words)}, not {value!r}")

    def _checked_option(self, value: Any) -> Any:
        others = [kind for kind in self.kinds if kind is not str and kind not in self.members]
        if others and not isinstance(value, str | Option):
            return value  # the signature allows something else too, such as a function
        found = _family(self.members[0]).of(value)
        if not isinstance(found, self.members):
            known = ", ".join(member.name for member in self.members)
            raise OptionError(f"{self.name} must be one of {known}, not {found}")
        return found

    def read(self, value: Any) -> Any:
        """``value`` as the verb uses it, from a recipe or the command line: numbers and lists may be text."""
        if self.doc.read is not None and not self.doc.none:
            return self.check(value)
        if isinstance(value, str):
            if value.strip().lower() == "none" and not self._has_member("none"):
                if self.optional:
                    return None
                if self.several and str not in self.kinds:
                    return self.check(())
            if self.several and not self.members and str not in self.kinds:
                plain, named = split_items(value, value)
                if named:
                    raise OptionError(f"{self.name} takes plain values such as 1,2, not {named[0][0]}=…")
                value = list(plain)
        if self.several and isinstance(value, list | tuple):
            value = [self._from_text(item) for item in value]
        else:
            value = self._from_text(value)
        return self.check(value)

    def _has_member(self, name: str) -> bool:
        known = [
            each
            for member in self.members
            for each in ([member] if hasattr(member, "name") else member.members.values())
        ]
        return any(each.name == name for each in known)

    def _from_text(self, value: Any) -> Any:
        numbers = any(kind in (bool, int, float) for kind in self.kinds)
        return read_value(value) if isinstance(value, str) and numbers and not self.members else value

    def written(self, value: Any) -> Any:
        """``value`` in JSON, as records keep it: options in their text form, functions by their identity."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case Option() | Path():
                return str(value)
            case tuple() | list():
                return [self.written(item) for item in value]
        return identity_of(value) if callable(value) else str(value)

    def row(self) -> dict[str, str]:
        """Name, type, default, range and help, as the tables of the documentation show them."""
        kinds = [f"{member.family}" for member in self.members] or [
            type_text(kind) for kind in self.kinds if kind is not _NotImported
        ]
        kind = " or ".join(dict.fromkeys(kinds))
        default = "required" if self.required else quote(self.written(self.default))
        return {
            "name": self.name,
            "type": f"several of {kind}" if self.several else kind,
            "default": default,
            "range": str(self.range),
            "doc": self.doc.text,
        }


def _family(member: type[Option]) -> type[Option]:
    """The family that an option class belongs to, or is."""
    return next(base for base in member.__mro__ if Option in base.__bases__ and issubclass(base, Option))


@functools.cache
def parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    """The options that the signature of ``function`` declares: every parameter whose annotation has a :class:`Doc`."""
    return _resolved(function, getattr(function, "__option_types__", ()))


@functools.cache
def declared(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    """The same options without importing their types: enough for help, not for checks (``imported``)."""
    return _resolved(function, ())


def _resolved(function: Callable[..., Any], homes: Sequence[str]) -> Mapping[str, Parameter]:
    own: Any = inspect.unwrap(function)
    names = _Names(vars(inspect.getmodule(own) or types) | own.__globals__, homes)
    found = {}
    for name, given in inspect.signature(function).parameters.items():
        annotated = types.SimpleNamespace(__annotations__={name: given.annotation})
        hint = typing.get_type_hints(annotated, names, names, include_extras=True)[name]
        if typing.get_origin(hint) is not Annotated:
            continue
        kind, *metadata = typing.get_args(hint)
        doc = next((each for each in metadata if isinstance(each, Doc)), None)
        if doc is not None:
            bounds = next((each for each in metadata if isinstance(each, Range)), Range())
            found[name] = Parameter(name, kind, given.default, bounds, doc)
    return types.MappingProxyType(found)


@overload
def verb(function: Callable[P, R]) -> Callable[P, R]: ...


@overload
def verb(*, types: Sequence[str]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def verb(function: Any = None, *, types: Sequence[str] = ()) -> Any:
    """``function`` with its options checked before it runs: it is given option objects and numbers in their range.

    If it has ``workers`` and ``cluster``, all maps in it run there (:func:`weightsmith.core.parallel.spread`).

    ``types`` are the modules, below ``weightsmith``, of types that its file imports for type checkers only.
    """
    if function is None:
        return functools.partial(verb, types=types)
    function.__option_types__ = tuple(types)

    @shows_progress
    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, parameter in parameters(function).items():
            bound.arguments[name] = parameter.check(bound.arguments[name])
        with spread(bound.arguments.get("workers", 1), bound.arguments.get("cluster")):
            return function(*bound.args, **bound.kwargs)

    return checked


def written(function: Callable[..., Any], values: Mapping[str, Any], *, surrounds: bool = True) -> dict[str, Any]:
    """The options of a call in JSON, in the order of the signature; ``values`` (``locals()``) must hold all of them.

    ``surrounds=False`` leaves out seed, threads, device and workers, if the result does not depend on them or names
    them elsewhere.
    """
    kept = {name: each for name, each in parameters(function).items() if each.doc.recorded}
    return {name: each.written(values[name]) for name, each in kept.items() if surrounds or not each.doc.surrounds}


def table(function: Callable[..., Any]) -> list[dict[str, str]]:
    """The options of a verb as rows of a table."""
    return [parameter.row() for parameter in parameters(function).values()]
