"""Sanitise text from files for display: no control characters, no overlong names.

Invisible characters and those that change the direction (control characters, bidi overrides, lone surrogates) are
replaced by a visible sign; text that is too long loses its middle. HTML escaping is done elsewhere.
"""

from __future__ import annotations

import math
import re

from weightsmith.reporting.parts import Cell

__all__ = ["LONGEST_NAME", "LONGEST_TEXT", "cut", "number_text", "plain"]

LONGEST_NAME, LONGEST_TEXT = 120, 4_000  # characters of a name, and of a text that may hold several
_LONGEST_WORD = 200  # a digest has 64 characters, and a path seldom more than this
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")


def _signs() -> dict[int, int]:
    """Characters that must not be written literally, with the sign that replaces each."""
    unknown = ord("\N{REPLACEMENT CHARACTER}")
    hidden = [*range(0x80, 0xA0), *range(0xD800, 0xE000), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    hidden += [0x2028, 0x2029, 0xFFFE, 0xFFFF]
    pictures = {code: 0x2400 + code for code in range(0x20)} | {0x7F: ord("\N{SYMBOL FOR DELETE}")}
    return dict.fromkeys(hidden, unknown) | pictures


_SIGNS = _signs()


def plain(text: str, longest: int = LONGEST_TEXT) -> str:
    """``text`` on one line without control characters, cut to ``longest`` characters and its words to 200.

    >>> plain("fc1\\x1b[31m\\u202e"), plain("a" * 1000, 9)
    ('fc1␛[31m�', 'aaaa…aaaa')
    """
    if len(text) > 4 * longest + 4 * _LONGEST_WORD:  # do not process megabytes that are not shown
        text = cut(text, 4 * longest + 4 * _LONGEST_WORD)
    text = _LONG_WORD.sub(lambda word: cut(word[0], _LONGEST_WORD), text)
    return cut(text, longest).translate(_SIGNS)


def cut(text: str, longest: int) -> str:
    """``text`` without its middle if it has more than ``longest`` characters.

    >>> cut("encoder.blocks.11.output", 11)
    'encod…utput'
    """
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]}…{text[len(text) - (longest - 1) // 2 :]}"


def number_text(value: Cell) -> str:
    """A value as text: four digits, whole numbers in full, a dash for none.

    >>> [number_text(value) for value in (None, 12345, -0.123456, 2.0, 123456.7, 2e-7, True, float("inf"), "ks")]
    ['–', '12,345', '−0.1235', '2', '123,457', '2e−07', 'yes', '∞', 'ks']
    """
    match value:
        case None:
            return "–"
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case int():
            text = f"{value:,}"
        case _ if math.isnan(value):
            return "not a number"
        case _ if math.isinf(value):
            text = "-∞" if value < 0 else "∞"
        case _:
            text = f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
    return text.replace("-", "−")
