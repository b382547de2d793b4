"""The family tree of networks derived from each other, and its drawing.

Every network names the digest of its parent and the operation that made it. Members with a common ancestor share its
node, and a parent that is not among the members is shown by its digest alone. Whatever the files claim (cycles,
duplicates, names with control characters), the result is a forest: each network once, under one parent.

>>> trained = Member("b2", parent="a1", operation="trained", name="runs/big")
>>> tree = family([trained, Member("c3", "b2", "reduced"), Member("d4", "b2", "spike lif", "runs/snn")])
>>> print(*tree.lines(), sep="\\n")
a1  not among the files
└── b2  trained  runs/big
    ├── c3  reduced
    └── d4  spike lif  runs/snn
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from weightsmith.core.records import Lineage, Record

__all__ = ["UNKNOWN", "Family", "Kin", "Member", "ancestry", "family", "one_line", "short_digest"]

UNKNOWN = "unknown:"
"""The prefix of a placeholder for the digest of an ancestor whose child does not name it."""

_ABSENT = "not among the files"
_SHORT = 12  # digits of a digest that are shown
_LONGEST = 160  # characters of a text that are shown
_DEEPEST = 24  # generations that are indented; a file may claim a million
_BRANCHES = ("├── ", "└── ", "│   ", "    ", "⋯ ")
_PLAIN_BRANCHES = ("|-- ", "`-- ", "|   ", "    ", ".. ")


@dataclasses.dataclass(frozen=True, eq=False)
class Member(Record):
    """A network: its digest, the digest of its parent, the operation that made it (None if unknown), and its name."""

    network: str
    parent: str | None = None
    operation: str | None = None
    name: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Kin(Record):
    """A node of the tree, by its digest: below ``parent`` (None for a root), ``depth`` generations down.

    Members with the same digest are merged: ``operations`` are all operations that members name for it (none if it is
    known as a parent only), ``names`` all its names. ``also_from`` are further parents that members name.
    """

    network: str
    parent: str | None
    depth: int
    operations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    also_from: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Digest, operations and names in one line."""
        also = [f"(also from {', '.join(map(short_digest, self.also_from))})"] if self.also_from else []
        made = " · ".join(self.operations) or ("" if self.names else _ABSENT)
        parts = (short_digest(self.network), made, ", ".join(self.names), *also)
        return "  ".join(one_line(part) for part in parts if part)


@dataclasses.dataclass(frozen=True, eq=False)
class Family(Record):
    """A forest in the order in which it is drawn: every network directly before its descendants."""

    kin: tuple[Kin, ...]

    @property
    def roots(self) -> tuple[Kin, ...]:
        """The networks without a known parent."""
        return tuple(each for each in self.kin if each.parent is None)

    def branches(self, *, plain: bool = False) -> list[str]:
        """The tree lines before each network; ``plain``: in ASCII."""
        middle, end, line, space, far = _PLAIN_BRANCHES if plain else _BRANCHES
        last = _last_of_siblings(self.kin)
        found: list[str] = []
        stems: list[str] = []  # of the generations above, the youngest last
        for each, is_last in zip(self.kin, last, strict=True):
            del stems[max(0, each.depth - 1) :]
            shown = "".join(stems[1 - _DEEPEST :])
            cut = far if len(stems) >= _DEEPEST else ""
            found.append(f"{cut}{shown}{end if is_last else middle}" if each.depth else "")
            if each.depth:
                stems.append(space if is_last else line)
        return found

    def lines(self, label: Callable[[Kin], str] | None = None, *, plain: bool = False) -> list[str]:
        """The drawing, a line for each network; ``label`` gives its text."""
        labels = [each.label if label is None else one_line(label(each)) for each in self.kin]
        return [branch + text for branch, text in zip(self.branches(plain=plain), labels, strict=True)]


def ancestry(digest: str, lineage: Lineage | None, name: str = "") -> tuple[Member, ...]:
    """The network with that digest and lineage as a member, after its ancestors as far as they are known."""
    if lineage is None:
        return (Member(digest, name=name),)
    steps = [*lineage.ancestors, lineage]
    made = digest
    found: list[Member] = []
    for index in range(len(steps) - 1, -1, -1):
        parent = steps[index].parent
        if parent is None and index:
            parent = f"{UNKNOWN}{digest}:{index}"  # no two of them are the same network
        found.append(Member(made, parent, steps[index].operation, "" if found else name))
        made = parent or ""
    return tuple(reversed(found))


def family(members: Iterable[Member]) -> Family:
    """The forest of ``members`` and the parents they name, in the order in which these first occur.

    If several parents are named, the first counts. A cycle is cut above its first member.
    """
    grouped: dict[str, list[Member]] = {}
    parents: dict[str, str] = {}
    for member in members:
        grouped.setdefault(member.network, []).append(member)
        if member.parent is not None and member.parent != member.network:  # an operation may change nothing
            parents.setdefault(member.network, member.parent)
    everyone = list(dict.fromkeys(name for one in grouped for name in (one, *_claims(grouped[one]))))
    for first in _cycle_members(everyone, parents):
        del parents[first]
    children: dict[str, list[str]] = {}
    for one in everyone:
        if one in parents:
            children.setdefault(parents[one], []).append(one)
    waiting = [(one, 0) for one in reversed(everyone) if one not in parents]
    kin: list[Kin] = []
    while waiting:
        digest, depth = waiting.pop()
        kin.append(_kin(digest, parents.get(digest), depth, grouped.get(digest, [])))
        waiting.extend((child, depth + 1) for child in reversed(children.get(digest, [])))
    return Family(tuple(kin))


def one_line(text: str, most: int = _LONGEST) -> str:
    """A text from a file, safe for one line: no control characters, not too long.

    >>> one_line("reduced\\x1b[2J\\nby \\u202eangles")
    'reduced�[2J�by �angles'
    """
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)


def short_digest(digest: str) -> str:
    """The first digits of a digest, or "unknown"."""
    return "unknown" if digest.startswith(UNKNOWN) else one_line(digest[:_SHORT])


def _claims(members: Sequence[Member]) -> list[str]:
    return [member.parent for member in members if member.parent is not None]


def _kin(digest: str, parent: str | None, depth: int, members: Sequence[Member]) -> Kin:
    operations = (member.operation for member in members if member.operation)
    also = (claim for claim in _claims(members) if claim not in (parent, digest))
    names = (member.name for member in members if member.name)
    return Kin(digest, parent, depth, *(tuple(dict.fromkeys(each)) for each in (operations, names, also)))


def _cycle_members(everyone: Sequence[str], parents: Mapping[str, str]) -> list[str]:
    """The first member of every cycle of ancestors; each network is visited once."""
    order = {one: index for index, one in enumerate(everyone)}
    seen: dict[str, int] = {}
    found = []
    for start, walk in enumerate(everyone):
        one: str | None = walk
        while one is not None and one not in seen:
            seen[one] = start
            one = parents.get(one)
        if one is not None and seen[one] == start:  # this walk returned to a network it has visited
            circle = [one]
            while (after := parents[circle[-1]]) != one:
                circle.append(after)
            found.append(min(circle, key=order.__getitem__))
    return found


def _last_of_siblings(kin: Sequence[Kin]) -> list[bool]:
    """Whether each network is the last of its siblings."""
    last: list[bool] = []
    deeper: list[bool] = []  # by depth: whether a later sibling at that depth was seen
    for each in reversed(kin):
        del deeper[each.depth + 1 :]
        deeper.extend([False] * (each.depth + 1 - len(deeper)))
        last.append(not deeper[each.depth])
        deeper[each.depth] = True
    return last[::-1]
