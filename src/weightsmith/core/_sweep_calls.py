"""The calls of a sweep: what is handed to the function, how it is written down, and how one call is made."""

from __future__ import annotations

import json
import math
import time
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weightsmith.core.errors import UsageError, WeightsmithError
from weightsmith.core.options import Option
from weightsmith.core.records import Record
from weightsmith.core.seeds import subseed
from weightsmith.core.text import quote

__all__ = ["Call", "calls_of", "timed"]


@dataclass(frozen=True)
class Call:
    """One call: the setting and seed as the function gets them, and as the table and the journal hold them."""

    given: dict[str, Any]
    written: dict[str, Any]

    @property
    def key(self) -> str:
        """What the journal calls it."""
        return json.dumps(self.written)

    def __repr__(self) -> str:
        """As messages name it: ``rate=0.1, seed=0``."""
        return ", ".join(f"{name}={value}" for name, value in self.written.items())


def calls_of(settings: Iterable[Mapping[str, Any]], seeds: Iterable[int]) -> list[Call]:
    """A call for each setting and, within it, each seed; refused if one comes twice or the names differ."""
    chosen, numbers = list(settings), list(seeds)
    if not chosen or not numbers:
        raise UsageError(f"a sweep needs settings and seeds, not {len(chosen)} setting(s) and {len(numbers)} seed(s)")
    for seed in numbers:
        subseed(seed)  # refuses what is no seed
    names = list(chosen[0])
    if "seed" in names:
        raise UsageError("'seed' cannot be part of a setting; give seeds=[…]")
    calls: dict[str, Call] = {}
    for setting in chosen:
        if set(setting) != set(names):
            raise UsageError(f"all settings need the same names, not {', '.join(names)} and {', '.join(setting)}")
        given = {name: setting[name] for name in names}
        written = {name: _written(value, name) for name, value in given.items()}
        for seed in map(int, numbers):
            call = Call({**given, "seed": seed}, {**written, "seed": seed})
            if calls.setdefault(call.key, call) is not call:
                raise UsageError(f"the sweep holds {call} twice")
    return list(calls.values())


def timed(function: Callable[..., Mapping[str, Any] | Record], call: Call) -> tuple[dict[str, Any], float]:
    """Make one call, wherever it runs: its flat result and the seconds it took."""
    with _Naming(call):
        start = time.perf_counter()
        result = function(**call.given)
        seconds = time.perf_counter() - start
        return _flat(result, call), seconds


def _flat(result: Any, call: Call) -> dict[str, Any]:
    values = result.to_dict() if isinstance(result, Record) else result
    if not isinstance(values, Mapping):
        raise UsageError(f"the function returned a {type(values).__name__}, not a mapping of names to values")
    for name in values:
        if not isinstance(name, str) or name in call.written:
            raise UsageError(f"the function returned the name {name!r}: not text, or one of the setting")
    return {name: _scalar(value, f"the result {name!r}") for name, value in values.items()}


class _Naming:
    """Name the call in whatever is raised inside the block: wrapped once, here, with the error as its cause."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if isinstance(error, Exception):  # an interrupt is nobody's fault
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise WeightsmithError(f"the sweep stopped at {self._call}: {text}") from error


def _written(value: Any, name: str) -> Any:
    """A value of a setting as the table holds it: options and lists in their text form."""
    if isinstance(value, Option):
        return str(value)
    if isinstance(value, tuple | list):
        return quote([_scalar(item, f"the setting {name}[{i}]") for i, item in enumerate(value)])
    return _scalar(value, f"the setting {name}")


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where} is {value}: a table holds finite numbers or None")
    if value is not None and not isinstance(value, bool | int | float | str):
        raise UsageError(f"{where} is a {type(value).__name__}: a table holds numbers, text, truth and None")
    return value
