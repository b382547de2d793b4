"""The limits of a tailored network: a minimum accuracy, and maxima of size, operations, bytes, energy and time.

    accuracy        90, "90%" or 0.9         share of right answers, at least
                    -2                       points below the network's own, at most
    params, macs    0.5 or "50%", 20000      of the network's own, or a number
    bytes           0.25 or "25%", "300kB"   of the network's own tensors, or an amount
    energy          0.2 or "20%", "1.5uJ"    of the network's own in float32 (MACs times their price), or an amount
    time            0.5 or "50%"             of the network's own time for one input

>>> wanted = Wanted.read(accuracy="90%", energy="1.5uJ", params=0.5)
>>> limits = wanted.of(energy=4.6e6, params=10_000)
>>> limits.accuracy, limits.energy, limits.params
(0.9, 1500000.0, 5000)
>>> missed = limits.excess(accuracy=0.775, energy=1.2e6, params=7500)
>>> missed, missed_text(missed)
({'accuracy': 0.125, 'params': 0.5}, 'accuracy by 12.5 points, params by 50.0 %')
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.records import Record

__all__ = ["COSTS", "Amount", "Limits", "Wanted", "missed_text", "read_seconds"]

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*")
_PICOJOULES = {"pj": 1.0, "nj": 1e3, "uj": 1e6, "µj": 1e6, "μj": 1e6, "mj": 1e9}
_SIZES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_ROUNDING = 1e-9
_MANY = 10.0  # times the limit and more: a factor reads better than per cent
COSTS = ("params", "macs", "bytes", "energy", "time")
"""The costs that can be limited, in the order in which they are shown."""


@dataclasses.dataclass(frozen=True, eq=False)
class Limits(Record):
    """The limits in absolute numbers; energy in picojoules per input, None for no limit.

    ``points`` is the largest loss of accuracy, as a share; ``time`` is a share of the network's own time.
    """

    accuracy: float | None = None
    energy: float | None = None
    params: int | None = None
    macs: int | None = None
    bytes: int | None = None
    time: float | None = None
    points: float | None = None

    def excess(
        self, *, accuracy: float | None = None, loss: float | None = None, **costs: float | None
    ) -> dict[str, float]:
        """The limits that a network of these values misses, and by how much; limits that are met are left out.

        limit − accuracy, loss − points, and value/limit − 1 for the others; an unknown value counts as met.
        """
        missed = {}
        if self.accuracy is not None and accuracy is not None and accuracy < self.accuracy:
            missed["accuracy"] = self.accuracy - accuracy
        if self.points is not None and loss is not None and loss > self.points + _ROUNDING:
            missed["accuracy"] = loss - self.points
        for name in COSTS:
            limit, value = getattr(self, name), costs.get(name)
            if limit is not None and value is not None and value > limit:
                missed[name] = value / limit - 1
        return missed

    @property
    def costs(self) -> dict[str, float]:
        """The limits on costs that are given."""
        return {name: getattr(self, name) for name in COSTS if getattr(self, name) is not None}

    @property
    def limits_accuracy(self) -> bool:
        """Whether the accuracy is limited."""
        return self.accuracy is not None or self.points is not None


class Amount(NamedTuple):
    """A limit as given: a share of the network's own value, or an amount."""

    value: float
    is_share: bool

    def of(self, whole: float) -> float:
        """The limit in absolute numbers for a network whose own value is ``whole``."""
        return self.value * whole if self.is_share else self.value


class Wanted(NamedTuple):
    """The limits as given, before the network is known."""

    accuracy: float | None
    points: float | None
    costs: dict[str, Amount]

    @classmethod
    def read(cls, accuracy: float | str | None = None, **costs: float | str | None) -> Wanted:
        """Check every limit; at least one must be given."""
        given = {name: value for name, value in costs.items() if value is not None}
        if accuracy is None and not given:
            raise UsageError(
                "tailoring needs a limit: give at least one of accuracy, params, macs, bytes, energy and time"
            )
        least, points = (None, None) if accuracy is None else _accuracy(accuracy)
        return cls(least, points, {name: _READERS[name](value) for name, value in given.items()})

    def of(self, **whole: float) -> Limits:
        """The limits for a network with these costs."""
        found = {name: amount.of(whole.get(name, 1.0)) for name, amount in self.costs.items()}
        counted = {name: math.floor(found[name] + _ROUNDING) for name in ("params", "macs", "bytes") if name in found}
        limits = Limits(
            accuracy=self.accuracy,
            points=self.points,
            energy=found.get("energy"),
            time=found.get("time"),
            **counted,
        )
        for name, limit in limits.costs.items():
            if not limit > 0:
                raise OptionError(f"{name} is limited to {limit}, which no network meets: give more than 0")
        return limits


def missed_text(missed: Mapping[str, float]) -> str:
    """The result of :meth:`Limits.excess` in words: accuracy in points, the others in per cent or as a factor.

    >>> missed_text({"accuracy": 0.012, "params": 0.25, "energy": 84.0})
    'accuracy by 1.2 points, params by 25.0 %, energy by a factor of 85'
    """
    return ", ".join(f"{name} by {_much(name, much)}" for name, much in missed.items())


def _much(name: str, much: float) -> str:
    if name != "accuracy" and much >= _MANY:
        return f"a factor of {1 + much:,.0f}"
    return f"{100 * much:.1f} {'points' if name == 'accuracy' else '%'}"


def read_seconds(given: float | str | None) -> float | None:
    """A duration: seconds, or text as ``90s``, ``10m``, ``1.5h``.

    >>> read_seconds("10m"), read_seconds(90), read_seconds(None)
    (600.0, 90.0, None)
    """
    if given is None:
        return None
    number, unit = _parts("budget", given)
    if unit.lower() not in _SECONDS:
        raise OptionError(f"budget {given!r}: write a duration as 90s, 10m or 1.5h")
    return _positive("budget", number * _SECONDS[unit.lower()], given)


def _accuracy(given: float | str) -> tuple[float | None, float | None]:
    """The least share of right answers, or the points below the network's as a share."""
    number, unit = _parts("accuracy", given)
    if unit not in ("", "%"):
        raise OptionError(f"accuracy {given!r}: write a share as 90, 90% or 0.9, or points below the network's as -2")
    if number < 0:
        if number <= -100:
            raise OptionError(f"accuracy {given!r}: fewer than 100 points below the network's")
        return None, -number / 100
    share = number / 100 if unit or number > 1 else number
    if not 0 < share <= 1:
        raise OptionError(f"accuracy must be > 0 and at most 100 %, not {given!r}")
    return share, None


def _energy(given: float | str) -> Amount:
    return _amount("energy", given, _PICOJOULES, "an amount needs its unit, as 1.5uJ")


def _bytes(given: float | str) -> Amount:
    return _amount("bytes", given, _SIZES, "an amount needs its unit, as 300kB")


def _time(given: float | str) -> Amount:
    return _amount("time", given, {}, "it is a share of the network's own time")


def _amount(what: str, given: float | str, units: Mapping[str, float], otherwise: str) -> Amount:
    number, unit = _parts(what, given)
    if unit.lower() in units:
        return Amount(_positive(what, number * units[unit.lower()], given), is_share=False)
    if unit not in ("", "%"):
        raise OptionError(f"{what} {given!r}: write a share as 0.2 or 20% ({otherwise})")
    return Amount(_share(what, number / 100 if unit else number, given, otherwise), True)


def _parts(what: str, given: float | str) -> tuple[float, str]:
    """The number and the unit after it."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise OptionError(f"{what} must be a number or text, not {given!r}")
    if not isinstance(given, str):
        found, unit = float(given), ""
    else:
        match = _NUMBER.fullmatch(given)
        if match is None:
            raise OptionError(f"{what} {given!r} does not begin with a number")
        found, unit = float(match[1].replace("_", "")), match[2]
    if not math.isfinite(found):
        raise OptionError(f"{what} must be a finite number, not {given!r}")
    return found, unit


def _share(what: str, share: float, given: float | str, otherwise: str) -> float:
    if not 0 < share <= 1:
        raise OptionError(f"{what} as a share must be > 0 and ≤ 1, not {given!r} ({otherwise})")
    return share


def _positive(what: str, number: float, given: float | str) -> float:
    if number <= 0:
        raise OptionError(f"{what} must be > 0, not {given!r}")
    return number


def _count(what: str, given: float | str) -> Amount:
    number, unit = _parts(what, given)
    if unit not in ("", "%"):
        raise OptionError(f"{what} {given!r}: write a share as 0.5 or 50%, or a number")
    if not unit and number > 1:
        if number != int(number):
            raise OptionError(f"{what} must be a share ≤ 1 or a whole number, not {given!r}")
        return Amount(number, is_share=False)
    return Amount(_share(what, number / 100 if unit else number, given, "a number of them is written plainly"), True)


_READERS: Mapping[str, Callable[[float | str], Amount]] = {
    "params": functools.partial(_count, "params"),
    "macs": functools.partial(_count, "macs"),
    "bytes": _bytes,
    "energy": _energy,
    "time": _time,
}
