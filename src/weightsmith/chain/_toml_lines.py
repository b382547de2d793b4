"""On which line of a TOML text each key stands: the parser of the standard library does not say.

The text is valid TOML already; only headers, keys and the ends of values have to be found.
"""

from __future__ import annotations

import re
import tomllib

__all__ = ["Place", "key_lines"]

Place = tuple[str | int, ...]
"""Where a value is: ``("train", "epochs")``, ``("reduce", 1, "by")``."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_NAME = re.compile(rf"\s*({_PART})\s*")
_HEADER = re.compile(r"\[(\[?)")
# What ends, opens or closes inside a value: strings of four kinds, comments, brackets, the end of a line.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n', re.DOTALL
)


def key_lines(text: str) -> dict[Place, int]:
    """The line, counted from 1, of every table and of every key outside inline tables.

    >>> key_lines('data = "digits"\\n[train]\\nepochs = 3\\n[[reduce]]\\nby = "groups"\\n')
    {('data',): 1, ('train',): 2, ('train', 'epochs'): 3, ('reduce',): 4, ('reduce', 0): 4, ('reduce', 0, 'by'): 5}
    """
    text = text.replace("\r\n", "\n")
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    position, line, counted = 0, 1, 0
    while position < len(text):
        rest = re.compile(r"(?:\s|#[^\n]*)*").match(text, position)
        position = position if rest is None else rest.end()
        if position >= len(text):
            break
        line, counted = line + text.count("\n", counted, position), position
        header = _HEADER.match(text, position)
        start = position if header is None else header.end()
        names, position = _names(text, start)
        if header is None:
            lines.setdefault((*table, *names), line)
            position = _after_value(text, position)
            continue
        table = _inside(names[:-1], counts)
        lines.setdefault((*table, names[-1]), line)
        table = (*table, names[-1])
        if header[1]:
            counts[table] = counts.get(table, -1) + 1
            table = (*table, counts[table])
            lines[table] = line
        elif table in counts:
            table = (*table, counts[table])
        position = _after_value(text, position)
    return lines


def _names(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """The parts of a dotted key, and where they end."""
    names: list[str] = []
    while found := _NAME.match(text, position):
        part = found[1]
        names.append(next(iter(tomllib.loads(f"{part} = 0"))))
        position = found.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    return tuple(names), position


def _inside(names: tuple[str, ...], counts: dict[Place, int]) -> Place:
    """The table that dotted names lead to, through the last entry of every array of tables."""
    place: Place = ()
    for name in names:
        place = (*place, name)
        if place in counts:
            place = (*place, counts[place])
    return place


def _after_value(text: str, position: int) -> int:
    """Where the line ends on which the value that begins somewhere behind ``position`` is complete."""
    depth = 0
    for token in _TOKEN.finditer(text, position):
        found = token[0]
        if found == "\n" and depth <= 0:
            return token.end()
        depth += (found in "[{") - (found in "]}") if len(found) == 1 and found != "\n" else 0
    return len(text)
