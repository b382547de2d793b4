"""A self-contained HTML page from sections: no network access, no other files, readable without scripts.

Names come from files and may hold anything. Jinja escapes all text, control characters are replaced by signs, and the
page's content security policy allows only its own script, by digest, and no loading of anything.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weightsmith._version import __version__
from weightsmith.core.errors import UsageError
from weightsmith.reporting._blocks import Block, block_of, paragraphs
from weightsmith.reporting._words import LONGEST_NAME, plain
from weightsmith.reporting.parts import Choice, Drawing, Facts, Part, Section, Table

if TYPE_CHECKING:
    import jinja2

__all__ = ["fragment", "render"]


_ROOM = 2_600_000  # bytes for all sections, so that a page stays below 3 MB


def render(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The page of these sections as text, below 3 MB; write it as UTF-8. Equal sections give equal bytes.

    Figures are drawn here, by calling each :class:`~weightsmith.reporting.parts.Drawing`. Parts beyond the size limit
    are left out, options of choices first, and the page says how many.
    """
    if not sections:
        raise UsageError(f"the page {title!r} has no sections: there is nothing to write")
    from markupsafe import Markup

    environment = _environment()
    assert environment.loader is not None
    # As in the elements: a browser digests exactly these characters.
    script, style = (Markup(environment.loader.get_source(environment, name)[0]) for name in ("page.js", "page.css"))
    page = environment.get_template("report.html").render(
        title=plain(title, LONGEST_NAME),
        lead=paragraphs(lead),
        sections=_section_views(sections, _ROOM),
        version=__version__,
        style=style,
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # The text of a figure may hold lone surrogates, which UTF-8 cannot encode.
    return page.strip().encode("utf-8", "replace").decode() + "\n"


def fragment(section: Section) -> str:
    """One section for a place inside another page, such as a notebook: without drawings, which take time."""
    kept = dataclasses.replace(section, parts=_undrawn(section.parts))
    (view,) = _section_views([kept], _ROOM)
    return _environment().get_template("notebook.html").render(section=view).strip().encode("utf-8", "replace").decode()


def _undrawn(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts without drawings, and without choices that hold nothing else."""
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Choice):
            options = tuple((name, _undrawn(inside)) for name, inside in part.options)
            if any(isinstance(one, Table | Facts) for _, inside in options for one in inside):
                kept.append(dataclasses.replace(part, options=options))
        elif not isinstance(part, Drawing):
            kept.append(part)
    return tuple(kept)


def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weightsmith.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> str:
    """A name that may be broken after a slash, an underscore or a dot that is not inside a number, escaped."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([_/]|\.(?!\d)|(?<!\d)\.)(?=\S)", r"\1<wbr>", str(escape(name))))


# Sections in the form of the template, within the size limit of a page.
#
# Text has priority, then tables, then drawings; first those that are visible, then the first option of each choice,
# then the others. A sentence names what was left out.


_SHORT = 60  # characters of a title in the table of contents
_MISSES = 3  # stop after this many drawings did not fit: drawing them takes time


class _PartView(NamedTuple):
    """One part: its kind, which is a macro of the template, the level of its heading, and the macro's data."""

    kind: str
    id: str
    level: int
    title: str
    data: Mapping[str, Any]


Group = tuple[bool, list[_PartView]]  # whether these are drawings, which are side by side


class _SectionView(NamedTuple):
    """One section; ``entries`` are its parts in the table of contents."""

    id: str
    title: str
    short: str
    about: str
    lead: list[str]
    chips: list[tuple[str, str]]
    ends: list[tuple[str, list[str]]]
    groups: list[Group]
    entries: list[tuple[str, str]]


class _Plan(NamedTuple):
    """A part, its id and heading level; the smaller ``turn``, the higher its priority."""

    part: Part
    id: str
    level: int
    turn: int

    @property
    def when(self) -> int:
        return 3 * self.turn + (2 if isinstance(self.part, Drawing) else 1 if isinstance(self.part, Table) else 0)


class _Option(NamedTuple):
    """One option of a choice."""

    name: str
    id: str
    plans: list[_Plan]


def _section_views(sections: Sequence[Section], room: int) -> list[_SectionView]:
    """All sections, in ``room`` bytes."""
    plans = [
        [_Plan(part, f"s{number}-{index}", 3, 0) for index, part in enumerate(section.parts, 1)]
        for number, section in enumerate(sections, 1)
    ]
    blocks = _fitting([plan for found in plans for outer in found for plan in _unfolded(outer)], room)
    return [
        _section_view(section, f"s{number}", found, blocks)
        for number, (section, found) in enumerate(zip(sections, plans, strict=True), 1)
    ]


def _options(plan: _Plan, choice: Choice) -> list[_Option]:
    """The options of a choice; the one shown first has priority."""
    options = []
    for number, (name, parts) in enumerate(choice.options):
        own, turn = f"{plan.id}-{number + 1}", plan.turn + (1 if number == choice.first else 2)
        inner = [_Plan(part, f"{own}-{index}", min(plan.level + 1, 6), turn) for index, part in enumerate(parts, 1)]
        options.append(_Option(name, own, inner))
    return options


def _unfolded(plan: _Plan) -> Iterator[_Plan]:
    """The part and all parts inside it."""
    if not isinstance(plan.part, Choice):
        yield plan
        return
    for option in _options(plan, plan.part):
        for inner in option.plans:
            yield from _unfolded(inner)


def _fitting(plans: Sequence[_Plan], room: int) -> dict[str, Block]:
    """The blocks that fit, by the id of their part."""
    blocks: dict[str, Block] = {}
    misses = 0
    for plan in sorted(plans, key=lambda plan: plan.when):  # a stable sort keeps the order of the page within a turn
        if isinstance(plan.part, Choice) or (isinstance(plan.part, Drawing) and misses >= _MISSES):
            continue
        block = block_of(plan.part, plan.id)
        if block.size <= room:
            blocks[plan.id] = block
            room -= block.size
        else:
            misses += isinstance(plan.part, Drawing)
    return blocks


def _section_view(section: Section, own: str, plans: Sequence[_Plan], blocks: Mapping[str, Block]) -> _SectionView:
    links = _links(plans, blocks)
    views = [_view(plan, blocks, links) for plan in plans]
    return _SectionView(
        id=own,
        title=plain(section.title, LONGEST_NAME),
        short=plain(section.title, _SHORT),
        about=plain(section.about),
        lead=paragraphs(section.lead),
        ends=[
            (name, [plain(line) for line in lines])
            for name, lines in (("Look at", section.look_at), ("Try next", section.try_next))
            if lines
        ],
        chips=[(plain(name, LONGEST_NAME), plain(text, LONGEST_NAME)) for name, text in section.chips],
        groups=_groups(views),
        entries=[(view.id, plain(view.title, _SHORT)) for view in views if view.title and view.kind != "missing"],
    )


def _links(plans: Sequence[_Plan], blocks: Mapping[str, Block]) -> dict[str, str]:
    """The link of a row's head: to the option of the same name, in the same section."""
    found: dict[str, str] = {}
    for plan in plans:
        if isinstance(plan.part, Choice):
            for option in _options(plan, plan.part):
                if not _is_lost(option, blocks):
                    found.setdefault(option.name, option.id)
    return found


def _absent(option: _Option, blocks: Mapping[str, Block]) -> list[_Plan]:
    """The drawings of the option that did not fit."""
    return [plan for plan in option.plans if isinstance(plan.part, Drawing) and plan.id not in blocks]


def _is_lost(option: _Option, blocks: Mapping[str, Block]) -> bool:
    """Whether the option held only drawings, and none fitted."""
    return bool(option.plans) and len(_absent(option, blocks)) == len(option.plans)


def _view(plan: _Plan, blocks: Mapping[str, Block], links: Mapping[str, str]) -> _PartView:
    if isinstance(plan.part, Choice):
        return _choice_view(plan, plan.part, blocks, links)
    if plan.id not in blocks:
        title = getattr(plan.part, "title", "")
        data = {"what": type(plan.part).__name__.lower()}
        return _PartView("missing", plan.id, plan.level, plain(title, LONGEST_NAME), data)
    block = blocks[plan.id]
    return _PartView(block.kind, plan.id, plan.level, block.title, {**block.data, "links": links})


def _choice_view(plan: _Plan, choice: Choice, blocks: Mapping[str, Block], links: Mapping[str, str]) -> _PartView:
    """The options with content, and the number of drawings of all options that did not fit."""
    shown: list[tuple[str, str, list[Group]]] = []
    drawings = absent = 0
    for option in _options(plan, choice):
        missing = {one.id for one in _absent(option, blocks)}
        drawings += sum(isinstance(one.part, Drawing) for one in option.plans)
        absent += len(missing)
        if not _is_lost(option, blocks):
            views = [_view(one, blocks, links) for one in option.plans if one.id not in missing]
            shown.append((option.id, plain(option.name, LONGEST_NAME), _groups(views)))
    first = f"{plan.id}-{choice.first + 1}"
    ids = [own for own, _, _ in shown]
    data = {
        "options": shown,
        "first": first if first in ids else next(iter(ids), ""),
        "drawings": drawings,
        "absent": absent,
        "lost": len(choice.options) - len(shown),
    }
    return _PartView("choice", plan.id, plan.level, plain(choice.label, LONGEST_NAME), data)


def _groups(views: Sequence[_PartView]) -> list[Group]:
    """Neighbouring drawings together, everything else separately."""
    groups: list[Group] = []
    for view in views:
        drawn = view.kind == "drawing"
        if drawn and groups and groups[-1][0]:
            groups[-1][1].append(view)
        else:
            groups.append((drawn, [view]))
    return groups
