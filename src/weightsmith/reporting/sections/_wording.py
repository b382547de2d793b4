"""Numbers, settings and origins as text, shared by all sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weightsmith.core.records import Origin
from weightsmith.core.statistics import Interval
from weightsmith.reporting.parts import Facts

__all__ = ["counted", "facts_of", "percent", "percent_within", "setting_text"]


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.89722), percent(None)
    ('89.7 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"


def percent_within(interval: Interval) -> str:
    """A share with its interval.

    >>> percent_within(Interval(0.9, 0.8512, 0.9344, 0.95, "Wilson"))
    '90.0 % [85.1, 93.4]'
    """
    return f"{percent(interval.value)} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


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
    """How a result was computed: ``before``, settings, seed, digests of the inputs, ``after``, and versions."""
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
    )
