"""The grammar of the text form of options: items, values, quotes; and the natural order of names.

    items   := item ("," item)*          item := value | key "=" value
    value   := none | true | false | number | word | "quoted text" | "[" items "]"

A word is text without commas, brackets, quotes or an equals sign; anything else is written in double quotes.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from weightsmith.core.errors import OptionError

__all__ = ["natural", "quote", "read_share", "read_value", "split_items"]

_WORD = re.compile(r"[^\s,=\[\]\"]+(?: [^\s,=\[\]\"]+)*")
_MOST_DIGITS, _DEEPEST = 1000, 20
_INTEGER = re.compile(r"[+-]?\d+")
_LARGEST_SHARE = 10  # a larger share is probably a percentage without its % sign
_CONSTANTS = {"none": None, "true": True, "false": False}


def natural(name: str) -> list[tuple[bool, int, str]]:
    """The key that sorts names in natural order.

    >>> sorted(["run-10", "run-2"], key=natural)
    ['run-2', 'run-10']
    """
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdecimal(), int(part[:18]) if part.isdecimal() else 0, part) for part in parts]


def quote(value: Any) -> str:
    """Write one value so that :func:`read_value` gives it back.

    >>> [quote(v) for v in (1.0, 3, True, None, "mean", "a,b", "7", (1, 2))]
    ['1.0', '3', 'true', 'none', 'mean', '"a,b"', '"7"', '[1,2]']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{','.join(map(quote, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    plain = _WORD.fullmatch(value) and isinstance(read_value(value), str)
    return value if plain else json.dumps(value, ensure_ascii=False)


def read_value(text: str) -> Any:
    """Read one value: none, true, false, a number, a list, a word or quoted text.

    >>> [read_value(t) for t in ("1e-3", "20", "none", "avg", "[1,2]", "inf")]
    [0.001, 20, None, 'avg', (1, 2), inf]
    """
    text = text.strip()
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if text.startswith('"'):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise OptionError(f"{text!r}: the quotes do not close") from None
    if text.startswith("["):
        if not text.endswith("]"):
            raise OptionError(f"{text!r}: the bracket does not close")
        positional, named = split_items(text[1:-1], text)
        if named:
            raise OptionError(f"{text!r}: a list takes values only, not {named[0][0]}=…")
        return tuple(map(read_value, positional))
    if _INTEGER.fullmatch(text):
        if len(text) > _MOST_DIGITS:
            raise OptionError(f"{text[:20]}… has {len(text)} digits, more than {_MOST_DIGITS}")
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def split_items(text: str, whole: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Split ``v1,v2,key=v3`` into positional and named items; ``whole`` is named in errors."""
    if not text.strip():
        return [], []
    positional: list[str] = []
    named: list[tuple[str, str]] = []
    for item in _cut(text, whole):
        key, equals, value = item.partition("=")
        if equals and re.fullmatch(r"\s*[A-Za-z_]\w*\s*", key):
            if not value.strip():
                raise OptionError(f"{whole!r}: {key.strip()} has no value")
            named.append((key.strip(), value.strip()))
        elif named:
            raise OptionError(f"{whole!r}: the plain value {item.strip()!r} must come before the named ones")
        elif not item.strip():
            raise OptionError(f"{whole!r}: a value is missing between two commas")
        else:
            positional.append(item.strip())
    return positional, named


def _cut(text: str, whole: str) -> list[str]:
    """Cut at the commas that are neither quoted nor inside brackets."""
    items, start, depth, quoted, escaped = [], 0, 0, False, False
    for position, letter in enumerate(text):
        if quoted:
            quoted = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
        elif letter == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
        if not 0 <= depth <= _DEEPEST:
            break
    if depth or quoted:
        raise OptionError(f"{whole!r}: a bracket or quote does not close")
    return [*items, text[start:]]


def read_share(value: Any) -> float:
    """A share above 0, given as a number or as text: ``0.3``, ``"0.3"`` or ``"30%"``.

    >>> read_share("30%"), read_share("0.3"), read_share(0.3)
    (0.3, 0.3, 0.3)
    """
    text = str(value).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if isinstance(value, bool) or not 0 < share < math.inf:
        raise OptionError(f"a share is a number above 0 such as 0.3 or 30%, not {value!r}")
    if share > _LARGEST_SHARE:
        raise OptionError(f"{value} is a share of {100 * share:,.0f} %; did you mean {share:g}%?")
    return share
