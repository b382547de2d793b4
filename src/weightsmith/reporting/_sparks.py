"""Sparklines: curves in one line of a terminal, in ASCII if it cannot show bars."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["can_show", "first_to_last", "for_encoding", "spark", "spectrum_spark"]

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-~=+*#"
_DECADES = 4  # decades below the largest eigenvalue that have bars


def spark(values: Sequence[float | None], width: int, *, ascii_only: bool | None = None) -> str:
    """Numbers as a row of at most ``width`` bars, scaled from smallest to largest; longer series are thinned.

    None, NaN and infinity are gaps. Without ``ascii_only`` the encoding of stdout decides.

    >>> spark([4, 2, None, 1, 1.5], 40, ascii_only=False), spark([4, 2, None, 1, 1.5], 40, ascii_only=True)
    ('█▃·▁▂', '#- _.')
    """
    if len(values) > width:
        last = max(1, width - 1)
        values = [values[round(index * (len(values) - 1) / last)] for index in range(width)]
    known = [value for value in values if value is not None and math.isfinite(value)]
    plain = not can_show(f"{_BARS}·") if ascii_only is None else ascii_only
    bars, gap = (_ASCII_BARS, " ") if plain else (_BARS, "·")
    least, largest = min(known, default=0.0), max(known, default=0.0)
    span = largest / 2 - least / 2  # halves: the difference itself may overflow
    top = len(bars) - 1

    def mark(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return gap
        return bars[round(top * ((value / 2 - least / 2) / span)) if span > 0 else 0]

    return "".join(map(mark, values))


def first_to_last(values: Sequence[float | None], shown: str = "{:.4f}") -> str:
    """``0.9012 → 0.1834``: the first and the last finite number."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return " → ".join(shown.format(value) for value in (known[0], known[-1])).replace("-", "−") if known else ""


def spectrum_spark(eigenvalues: NDArray[np.float64], width: int, *, ascii_only: bool | None = None) -> str:
    """A histogram of log λ with log counts as heights, so that a single outlier is visible; "" without any λ > 0.

    Eigenvalues more than four decades below the largest have no bars.
    """
    positive = eigenvalues[eigenvalues > 0]
    if not positive.size or width < 1:
        return ""
    sizes = np.log10(positive)
    low, high = max(float(sizes.min()), float(sizes.max()) - _DECADES), float(sizes.max())
    if not high > low:
        return spark([1.0], 1, ascii_only=ascii_only)
    counts, _ = np.histogram(sizes, bins=width, range=(low, high))
    heights = [math.log1p(count) if count else None for count in counts.tolist()]
    return spark(heights, width, ascii_only=ascii_only)


def for_encoding(text: str, encoding: str) -> str:
    """``text`` with its bars in ASCII if the encoding does not have them.

    >>> for_encoding("α ▁█·", "utf-8"), for_encoding("▁█·", "ascii")
    ('α ▁█·', '_# ')
    """
    if not set(text) & set(_BARS) or can_show(_BARS, encoding):
        return text
    return text.translate(str.maketrans(f"{_BARS}·", f"{_ASCII_BARS} "))


def can_show(text: str, encoding: str | None = None) -> bool:
    """Whether the encoding, by default that of stdout, has ``text``."""
    try:
        text.encode(encoding or getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
