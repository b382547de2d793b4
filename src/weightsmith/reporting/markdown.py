"""A description as Markdown, for pages of a documentation site: the same words as on the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weightsmith.reporting._blocks import paragraphs
from weightsmith.reporting._words import number_text, plain
from weightsmith.reporting.parts import Cell, Choice, Drawing, Facts, Notes, Part, Prose, Section, Shown, Table

__all__ = ["markdown"]

_SIGNS = {ord(sign): f"\\{sign}" for sign in "\\|<*_`[]"}


def markdown(section: Section, figures: Mapping[str, str] | None = None) -> str:
    """The section as a page; ``figures`` are the files of its drawings by their titles, the others are left out.

    Cells may hold links: text of the form ``[words](address)`` in a :class:`~weightsmith.reporting.parts.Shown` whose
    value is the words stays as it is. All other text is escaped.

    >>> from weightsmith.reporting.parts import Column
    >>> print(markdown(Section("Sizes", "One layer.", (Table("", (Column("layer"),), (("a|b",),)),))))
    # Sizes
    <BLANKLINE>
    One layer.
    <BLANKLINE>
    | layer |
    |---|
    | a\\|b |
    """
    lines = [
        f"# {_text(section.title)}",
        *map(_text, filter(None, [section.about])),
        *map(_text, paragraphs(section.lead)),
    ]
    if section.chips:
        lines.append("\n".join(f"- {_text(name)}: {_text(value)}" for name, value in section.chips))
    lines += _parts(section.parts, figures or {})
    for title, remarks in (("Look at", section.look_at), ("Try next", section.try_next)):
        if remarks:
            lines += [f"## {title}", _listed(remarks)]
    return "\n\n".join(lines) + "\n"


def _parts(parts: Sequence[Part], figures: Mapping[str, str]) -> Iterator[str]:
    for part in parts:
        match part:
            case Table():
                yield from _table(part)
            case Drawing():
                if part.title in figures:
                    yield f"![{_text(part.title)}]({figures[part.title]})"
                    yield _text(part.how)
            case Facts():
                yield from _titled(part.title)
                yield "\n".join(f"- {_text(name)}: {_text(value)}" for name, value in part.pairs)
            case Notes():
                yield _listed(part.lines)
            case Prose():
                yield from map(_text, paragraphs(part.text))
            case Choice():
                for name, inside in part.options:
                    yield f"### {_text(name)}"
                    yield from _parts(inside, figures)


def _table(table: Table) -> Iterator[str]:
    yield from _titled(table.title)
    if table.caption:
        yield _text(table.caption)
    heads = [_text(column.head) for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    rule = "|" + "---|" * len(heads)
    yield "\n".join([_row(heads), rule, *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _titled(title: str) -> Iterator[str]:
    if title:
        yield f"## {_text(title)}"


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_text(line)}" for line in lines)


def _cell(cell: Cell | Shown) -> str:
    if isinstance(cell, Shown):
        return cell.text if cell.text.startswith(f"[{cell.value}](") else _text(cell.text)
    return _text(number_text(cell) if not isinstance(cell, str) else cell)


def _text(text: str) -> str:
    return plain(text).replace("\n", " ").translate(_SIGNS)
