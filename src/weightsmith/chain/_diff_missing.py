"""What a comparison leaves out, and why, in as few sentences as tell it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Missing", "sentences"]


class Missing(NamedTuple):
    """Something that could not be told of a network, and the reason."""

    what: str
    of: str
    reason: str


def sentences(missing: Iterable[Missing]) -> list[str]:
    """A sentence for every reason, however much is missing for it, of one network or of both alike.

    >>> sentences([Missing("MACs", "a", "no code"), Missing("accuracy", "b", "shape"), Missing("time", "a", "no code")])
    ['MACs and time of a: no code', 'accuracy of b: shape']
    >>> sentences([Missing("MACs", name, "no code") for name in "ab"])
    ['MACs of a and b: no code']
    """
    whats: dict[tuple[str, str], list[str]] = {}
    for each in missing:
        found = whats.setdefault((each.of, each.reason), [])
        if each.what not in found:
            found.append(each.what)
    names: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (name, reason), found in whats.items():
        names.setdefault((tuple(found), reason), []).append(name)
    return [f"{_listed(found)} of {_listed(of)}: {reason}" for (found, reason), of in names.items()]


def _listed(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1]) if words[1:] else words)
