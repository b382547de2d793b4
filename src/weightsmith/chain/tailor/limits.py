"""The limits of a tailored network: a minimum accuracy, a maximum energy, a maximum of parameters.

    accuracy    0.9 or "90%"                  share of right answers, at least
    energy      0.2 or "20%", "1.5uJ"         of the network's own (MACs times their price), or an amount per input
    params      0.5 or "50%", 20000           of the network's own, or a number of parameters

>>> wanted = Wanted.read(accuracy="90%", energy="1.5uJ", params=0.5)
>>> limits = wanted.of(energy=4.6e6, params=10_000)
>>> limits
Limits(accuracy=0.9, energy=1500000.0, params=5000)
>>> missed = limits.excess(accuracy=0.775, energy=1.2e6, params=7500)
>>> missed, missed_text(missed)
({'accuracy': 0.125, 'params': 0.5}, 'accuracy by 12.5 points, params by 50.0 %')
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from weightsmith.core.errors import OptionError, UsageError
from weightsmith.core.records import Record

__all__ = ["Amount", "Limits", "Wanted", "missed_text", "read_seconds"]

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*")
_PICOJOULES = {"pj": 1.0, "nj": 1e3, "uj": 1e6, "µj": 1e6, "μj": 1e6, "mj": 1e9}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclasses.dataclass(frozen=True, eq=False)
class Limits(Record):
    """The limits in absolute numbers; energy in picojoules per input, None for no limit."""

    accuracy: float | None = None
    energy: float | None = None
    params: int | None = None

    def excess(self, *, accuracy: float, energy: float, params: float) -> dict[str, float]:
        """The limits that a network of these values misses, and by how much; limits that are met are left out.

        limit − accuracy, energy/limit − 1, params/limit − 1
        """
        missed = {}
        if self.accuracy is not None and accuracy < self.accuracy:
            missed["accuracy"] = self.accuracy - accuracy
        if self.energy is not None and energy > self.energy:
            missed["energy"] = energy / self.energy - 1
        if self.params is not None and params > self.params:
            missed["params"] = params / self.params - 1
        return missed

    @property
    def size_only(self) -> bool:
        """Whether the size is limited and the energy is not."""
        return self.params is not None and self.energy is None


class Amount(NamedTuple):
    """A limit as given: a share of the network's own value, or an amount."""

    value: float
    is_share: bool

    def of(self, whole: float) -> float:
        """In absolute numbers, for a network that has ``whole``."""
        return self.value * whole if self.is_share else self.value


class Wanted(NamedTuple):
    """The limits as given, before the network is known."""

    accuracy: float | None
    energy: Amount | None
    params: Amount | None

    @classmethod
    def read(
        cls,
        accuracy: float | str | None = None,
        energy: float | str | None = None,
        params: float | str | None = None,
    ) -> Wanted:
        """Check every limit; at least one must be given."""
        if accuracy is None and energy is None and params is None:
            raise UsageError("a network is tailored to limits: give accuracy, energy or params, at least one of them")
        return cls(
            None if accuracy is None else _accuracy(accuracy),
            None if energy is None else _energy(energy),
            None if params is None else _params(params),
        )

    def of(self, *, energy: float, params: int) -> Limits:
        """The limits for a network with this energy and number of parameters."""
        return Limits(
            self.accuracy,
            None if self.energy is None else self.energy.of(energy),
            None if self.params is None else math.floor(self.params.of(params) + 1e-9),
        )


def missed_text(missed: Mapping[str, float]) -> str:
    """The result of :meth:`Limits.excess` in words: accuracy in points, the others in per cent of the limit."""
    parts = ((name, f"{100 * much:.1f} {'points' if name == 'accuracy' else '%'}") for name, much in missed.items())
    return ", ".join(f"{name} by {much}" for name, much in parts)


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


def _accuracy(given: float | str) -> float:
    number, unit = _parts("accuracy", given)
    if unit not in ("", "%"):
        raise OptionError(f"accuracy {given!r}: write a share as 0.9 or 90%")
    share = number / 100 if unit else number
    if not 0 < share <= 1:
        hint = f"; {number:g} per cent are written {number:g}%" if not unit and 1 < number <= 100 else ""
        raise OptionError(f"accuracy must be > 0 and ≤ 1, not {given!r}{hint}")
    return share


def _energy(given: float | str) -> Amount:
    number, unit = _parts("energy", given)
    if unit.lower() in _PICOJOULES:
        return Amount(_positive("energy", number * _PICOJOULES[unit.lower()], given), is_share=False)
    if unit not in ("", "%"):
        raise OptionError(f"energy {given!r}: write a share as 0.2 or 20%, an amount in pJ, nJ, uJ or mJ")
    return Amount(_share("energy", number / 100 if unit else number, given, "an amount needs its unit, as 1.5uJ"), True)


def _params(given: float | str) -> Amount:
    number, unit = _parts("params", given)
    if unit not in ("", "%"):
        raise OptionError(f"params {given!r}: write a share as 0.5 or 50%, or a number of parameters")
    if not unit and number > 1:
        if number != int(number):
            raise OptionError(f"params must be a share ≤ 1 or a whole number, not {given!r}")
        return Amount(number, is_share=False)
    return Amount(
        _share("params", number / 100 if unit else number, given, "a number of them is written plainly"), True
    )


def _parts(what: str, given: float | str) -> tuple[float, str]:
    """The number and the unit behind it."""
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
