"""The settings of a sweep: every leak with every reset, every threshold factor with every smoothing and without."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.spiking.l4.adjust import L4
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.sweep.results import Setting

__all__ = ["Grid", "beyond", "neuron_of", "widened"]


@dataclasses.dataclass(frozen=True)
class Grid:
    """Values to try: numbers as floats, without duplicates; only smoothings may be left out."""

    leaks: tuple[float, ...]
    resets: tuple[str, ...]
    factors: tuple[float, ...]
    smoothings: tuple[float, ...]
    delay: bool = False

    def __post_init__(self) -> None:
        for name in ("leaks", "resets", "factors", "smoothings"):
            values = _listed(name, getattr(self, name))
            object.__setattr__(self, name, values)
            if not values and name != "smoothings":
                raise UsageError(f"a sweep needs at least one of {name}")
            if len({value if isinstance(value, str) else f"{value:g}" for value in values}) < len(values):
                # settings are identified by this text
                raise UsageError(f"{name}: {', '.join(map(str, values))} has a value twice")
        for factor in self.factors:
            if not 0 < factor < math.inf:
                raise UsageError(f"a threshold factor must be a finite number > 0, not {factor!r}")
        for smoothing in self.smoothings:
            if not L4(smoothing).smoothing < math.inf:
                raise UsageError("an infinite smoothing changes nothing: it is the baseline, which every sweep has")
        self.neurons()  # refuses leaks and resets that neurons do not support

    def neurons(self) -> list[IF | LIF]:
        """One neuron for every leak and reset."""
        return [neuron_of(leak, reset, delay=self.delay) for leak in self.leaks for reset in self.resets]

    def races(self) -> list[tuple[IF | LIF, list[Setting]]]:
        """The settings that compete: for each neuron those without adjustment, then those with, if any."""
        found = []
        for neuron in self.neurons():
            for smoothings in ((None,), self.smoothings):
                settings = [
                    Setting(neuron.leak, neuron.reset, factor, smoothing)
                    for factor in self.factors
                    for smoothing in smoothings
                ]
                found += [(neuron, settings)] if settings else []
        return found

    def written(self) -> dict[str, Any]:
        """The text form for records."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


def widened(settings: Sequence[Setting], winners: Iterable[Setting]) -> list[Setting]:
    """The settings of a race, and those one step beyond each edge of its grid on which a winner lies."""
    factors = sorted({setting.factor for setting in settings})
    smoothings = sorted({setting.smoothing for setting in settings if setting.smoothing is not None})
    more, further = list(factors), list(smoothings)
    for winner in winners:
        for values, known, value in ((more, factors, winner.factor), (further, smoothings, winner.smoothing)):
            new = None if value is None else beyond(known, value)
            if new is not None and new not in values:
                values.append(new)
    every = [
        Setting(settings[0].leak, settings[0].reset, factor, smoothing)
        for factor in more
        for smoothing in (further or (None,))
    ]
    known_keys = {setting.key for setting in settings}
    return [*settings, *(setting for setting in every if setting.key not in known_keys)]


def beyond(values: Sequence[float], value: float) -> float | None:
    """The next value beyond the edge of rising ``values`` at which ``value`` lies, by the last ratio; None inside.

    >>> beyond([0.3, 0.4, 0.5], 0.3), beyond([1.0, 2.0, 5.0], 5.0), beyond([1.0, 2.0, 5.0], 2.0)
    (0.225, 12.5, None)
    """
    if len(values) < 2 or value not in (values[0], values[-1]):
        return None
    edge, inner = (values[0], values[1]) if value == values[0] else (values[-1], values[-2])
    if edge == 0:
        return None
    return float(f"{edge * edge / inner:.3g}") if inner > 0 else 2 * edge


def neuron_of(leak: float, reset: str, *, delay: bool) -> IF | LIF:
    """The neuron of that leak and reset; without leak it is an IF."""
    values = {"reset": reset, "delay": delay}
    return IF.from_values(values) if leak == 1 else LIF.from_values({"leak": leak, **values})


def _listed(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"{name} must be a list or tuple, not {given!r}")
    return tuple((_name if name == "resets" else _number)(name, value) for value in given)


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} are names, not {value!r}")
    return value


def _number(what: str, value: Any) -> float:
    if isinstance(value, str):  # float() would read it
        raise UsageError(f"{what} are numbers, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} are numbers, not {value!r}") from error
