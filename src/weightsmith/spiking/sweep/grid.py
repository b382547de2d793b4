"""The settings of a sweep: every leak with every reset, every threshold factor with every smoothing and without."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.spiking.l4.adjust import L4
from weightsmith.spiking.neurons import IF, LIF
from weightsmith.spiking.sweep.results import Setting

__all__ = ["Grid", "neuron_of"]


@dataclasses.dataclass(frozen=True)
class Grid:
    """Values to try: numbers as floats, none twice; only smoothings may be left out."""

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
                raise UsageError(f"{name}: {', '.join(map(str, values))} names a value twice")
        for factor in self.factors:
            if not 0 < factor < math.inf:
                raise UsageError(f"a threshold factor must be a finite number > 0, not {factor!r}")
        for smoothing in self.smoothings:
            if not L4(smoothing).smoothing < math.inf:
                raise UsageError("an infinite smoothing changes nothing: it is the baseline, which every sweep has")
        self.neurons()  # refuses leaks and resets that no neuron has

    def neurons(self) -> list[IF | LIF]:
        """One for every leak and reset."""
        return [neuron_of(leak, reset, delay=self.delay) for leak in self.leaks for reset in self.resets]

    def races(self) -> list[tuple[IF | LIF, list[Setting]]]:
        """The settings that compete: for each neuron those without adjustment, then, where asked for, those with."""
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


def neuron_of(leak: float, reset: str, *, delay: bool) -> IF | LIF:
    """The neuron of that leak and reset; one that leaks nothing is plain."""
    values = {"reset": reset, "delay": delay}
    return IF.from_values(values) if leak == 1 else LIF.from_values({"leak": leak, **values})


def _listed(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"{name} are several values in a list or tuple, not {given!r}")
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
