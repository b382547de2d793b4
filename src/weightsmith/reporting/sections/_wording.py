"""Numbers, settings and origins as text, shared by all sections."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from weightsmith.core.records import Origin
from weightsmith.core.statistics import Comparison, Interval
from weightsmith.reporting.figures.spiking._panels import spread
from weightsmith.reporting.parts import Cell, Facts

__all__ = [
    "LARGE_LOSS",
    "MOST_ROWS",
    "accuracy",
    "bytes_text",
    "chance",
    "changed",
    "conclusion",
    "counted",
    "energy_text",
    "facts_of",
    "gathered",
    "percent",
    "percent_within",
    "points",
    "rounded",
    "seconds_text",
    "setting_text",
    "short_network",
    "significant",
    "some",
    "thinned",
]


_NARROW = 2.0  # points: the width of an accuracy's interval below which a second decimal is meaningful


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.89722), percent(None), percent(-8.4891)
    ('89.7 %', '–', '−848.9 %')
    """
    return "–" if share is None else f"{100 * share:.1f} %".replace("-", "−")


def percent_within(interval: Interval) -> str:
    """A share with its interval, to the digits that the interval's width allows.

    >>> percent_within(Interval(0.9, 0.8512, 0.9344, 0.95, "Wilson"))
    '90.0 % [85.1, 93.4]'
    >>> percent_within(Interval(0.9173, 0.91174, 0.92254, 0.95, "Wilson"))
    '91.73 % [91.17, 92.25]'
    """
    value, low, high = (
        f"{100 * each:.{_decimals(interval)}f}" for each in (interval.value, interval.low, interval.high)
    )
    return f"{value} % [{low}, {high}]".replace("-", "−")


def accuracy(interval: Interval, images: int, split: str) -> str:
    """An accuracy with the rows it was measured on.

    >>> accuracy(Interval(0.9, 0.8512, 0.9344, 0.95, "Wilson"), 200, "test")
    '90.0 % [85.1, 93.4] of 200 rows (test)'
    """
    return f"{percent_within(interval)} of {counted(images, 'row')} ({split})"


def _decimals(interval: Interval, scale: float = 100.0, narrow: float = _NARROW) -> int:
    """Two decimals if the interval is narrower than ``narrow`` points, as for thousands of rows, else one."""
    return 2 if scale * (interval.high - interval.low) < narrow else 1


def counted(count: int, thing: str) -> str:
    """A count with its noun.

    >>> counted(1, "epoch"), counted(1200, "image")
    ('1 epoch', '1,200 images')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def setting_text(value: Any) -> str:
    """A setting of a record as text.

    >>> [setting_text(value) for value in (None, True, [], ["l2:0.1", "l1:0.2"], "constant:0.01", {"a": None})]
    ['–', 'yes', '–', 'l2:0.1, l1:0.2', 'constant:0.01', 'a: –']
    """
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {setting_text(item)}" for key, item in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting_text, value)) or "–"
    return str(value)


def facts_of(
    settings: Mapping[str, Any],
    origin: Origin,
    *,
    before: Iterable[tuple[str, str]] = (),
    after: Iterable[tuple[str, str]] = (),
) -> Facts:
    """How a result was computed: ``before``, settings, seed, digests of the inputs, ``after``, and versions.

    A detail: a terminal shows the settings in the line that says what a result is about.
    """
    return Facts(
        "How it was computed",
        (
            *before,
            *((name, setting_text(value)) for name, value in settings.items() if name != "seed"),
            ("seed", setting_text(origin.seed)),
            *((f"SHA-256 of {name}", digest) for name, digest in sorted(origin.inputs.items())),
            *after,
            ("versions", ", ".join(f"{name} {version}" for name, version in sorted(origin.versions.items())) or "–"),
        ),
        detail=True,
    )


# Differences, sizes and energies as text, and rows behind drawings, shared by several sections.


MOST_ROWS = 1000
"""Rows in the CSV of a drawing at most, to keep pages small."""
LARGE_LOSS = 2.0  # points of accuracy whose loss a reader would want to see excluded

_BYTES = ("B", "kB", "MB", "GB", "TB")
_SECONDS = ("ns", "µs", "ms", "s")
_JOULES = ("pJ", "nJ", "µJ", "mJ", "J")
_OF_DATA = re.compile(r",(?:input_shape=\[[^\]]*\]|classes=\d+)")
_NAMED = 4  # names before a reason; the others are counted

Item = TypeVar("Item")


def points(difference: float, scale: float = 100.0, decimals: int = 1) -> str:
    """A difference of shares in points, with its sign; of percentages with a ``scale`` of 1.

    >>> points(-0.025), points(0), points(1.26, 1)
    ('−2.5', '0.0', '+1.3')
    """
    text = f"{scale * difference:+.{decimals}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text[1:]


def chance(p: float | None) -> str:
    """p as text.

    >>> chance(0.0783), chance(1e-9), chance(None)
    ('p = 0.078', 'p < 0.0001', 'no p')
    """
    if p is None:
        return "no p"
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def changed(comparison: Comparison, scale: float = 100.0) -> str:
    """The difference with its interval.

    >>> from weightsmith.core.statistics import mcnemar
    >>> changed(mcnemar([1, 0, 0, 1], [1, 1, 1, 1]))
    '−50.0 points [−93.0, +26.3]'
    """
    ends = comparison.interval
    if ends is None:
        return f"{points(comparison.difference, scale)} points"
    low, value, high = (
        points(each, scale, _decimals(ends, scale, _NARROW / 2))
        for each in (ends.low, comparison.difference, ends.high)
    )
    return f"{value} points [{low}, {high}]"


def conclusion(comparison: Comparison) -> str:
    """What the interval of a change in accuracy shows or excludes, in points.

    >>> from weightsmith.core.statistics import mcnemar
    >>> equal = [1] * 360
    >>> conclusion(mcnemar(equal, equal))
    'a loss above 0.8 points is excluded at 95 %'
    >>> conclusion(mcnemar([1] * 350 + [0] * 10, equal))
    'a loss of 0.9 to 4.6 points at 95 %'
    >>> conclusion(mcnemar([0] * 3 + [1] * 17, [1] * 20))
    'these 20 rows cannot exclude a loss of 32.7 points'
    """
    ends = comparison.interval
    if ends is None:
        return "no interval: all differences are equal"
    low, high, sure = 100 * ends.low, 100 * ends.high, f"at {100 * ends.confidence:g} %"
    if high < 0:
        return f"a loss of {-high:.1f} to {-low:.1f} points {sure}"
    if low > 0:
        return f"a gain of {low:.1f} to {high:.1f} points {sure}"
    if -low <= LARGE_LOSS:
        return f"a loss above {-low:.1f} points is excluded {sure}"
    return f"these {comparison.n:,} rows cannot exclude a loss of {-low:.1f} points"


def short_network(network: str) -> str:
    """An architecture without the shapes given by the data.

    >>> short_network("mlp:40,input_shape=[1,8,8],classes=10,activation=sigmoid")
    'mlp:40,activation=sigmoid'
    """
    return _OF_DATA.sub("", network)


def significant(value: float | None) -> str:
    """Three significant digits, thousands separated; a dash for a missing value.

    >>> significant(-0.012345), significant(1234567.8), significant(0), significant(None)
    ('−0.0123', '1,234,568', '0', '–')
    """
    if value is None:
        return "–"
    return (f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}").replace("-", "−")


def bytes_text(count: int) -> str:
    """The size of a file.

    >>> bytes_text(0), bytes_text(999), bytes_text(17_234), bytes_text(999_999)
    ('0 B', '999 B', '17.2 kB', '1 MB')
    """
    return _in_units(count, _BYTES)


def seconds_text(seconds: float) -> str:
    """A duration.

    >>> seconds_text(0), seconds_text(2.57e-5), seconds_text(12.3)
    ('0 ns', '25.7 µs', '12.3 s')
    """
    return _in_units(1e9 * seconds, _SECONDS)


def energy_text(picojoules: float) -> str:
    """An energy.

    >>> energy_text(0), energy_text(0.9), energy_text(41_234)
    ('0 pJ', '0.9 pJ', '41.2 nJ')
    """
    return _in_units(picojoules, _JOULES)


def gathered(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """A line for each reason with its names.

    >>> gathered([("too small", "a"), ("tied", "b"), ("too small", "c")])
    ('a, c: too small', 'b: tied')
    """
    groups: dict[str, list[str]] = {}
    for reason, name in pairs:
        groups.setdefault(reason, []).append(name)
    return tuple(f"{some(names)}: {reason}" for reason, names in groups.items())


def rounded(rows: Iterable[Mapping[str, Cell]]) -> list[dict[str, Cell]]:
    """The rows with numbers of six digits, the resolution of a figure.

    >>> rounded([{"layer": "fc", "units": 1234567, "rate": 0.123456789}])
    [{'layer': 'fc', 'units': 1234567, 'rate': 0.123457}]
    """
    return [
        {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


def thinned(items: Sequence[Item], most: int = MOST_ROWS) -> list[Item]:
    """At most ``most`` of them, evenly spaced, including the first and the last.

    >>> thinned(range(10), 4)
    [0, 3, 6, 9]
    """
    return [items[index] for index in spread(len(items), most)]


def _in_units(value: float, units: Sequence[str]) -> str:
    value = float(f"{value:.3g}")  # before choosing the unit: 999.9 kB are 1 MB
    step = max(0, min(int(math.log10(value) // 3), len(units) - 1)) if value > 0 else 0
    return f"{value / 1000**step:.3g} {units[step]}"


def some(names: Sequence[str]) -> str:
    """The first names, and the number of the others.

    >>> some(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
