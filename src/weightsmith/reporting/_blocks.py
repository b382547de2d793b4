"""One part as a block of the page: what the template reads, and how many bytes that will take.

Here all text is made fit to be shown, figures are drawn, and data become links.
"""

from __future__ import annotations

import html
import io
import json
import math
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weightsmith.core.csv_text import csv_text
from weightsmith.reporting._words import LONGEST_NAME, LONGEST_TEXT, cut, number_text, plain
from weightsmith.reporting.figures import style
from weightsmith.reporting.hover import hover_points
from weightsmith.reporting.parts import Cell, Column, Drawing, Facts, Notes, Prose, Shown, Table

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "Block", "block_of", "csv_link", "inline_svg", "paragraphs"]


_WIDE = 7.0  # inches, from which on a figure does not share its row
_AROUND, _AROUND_LINE = 900, 40  # bytes of the template around a drawing or table, and around a cell or line
_MOST_ROWS = 1_000  # rows of a table that are shown; its CSV has all of them
_MOST_CSV = 500_000  # bytes of data that go with one table or drawing
_LONGEST_CELL = 500
_LONG = 14  # rows from which on a table scrolls in a box of its own
_SENTENCE = 26  # letters from which on a cell may be broken into lines
_SORTABLE = 3  # rows from which on sorting is of use
_PREFIX = re.compile(r"\s*how to read it\s*:\s*", re.IGNORECASE)


class Block(NamedTuple):
    """``kind`` says which macro of the template shows it, ``data`` is what that reads, ``size`` is in bytes."""

    kind: str
    title: str
    data: Mapping[str, Any]
    size: int


def block_of(part: Table | Drawing | Facts | Notes | Prose, own: str) -> Block:
    """The part as a block; ``own`` keeps the names in its SVG apart from those of other figures."""
    match part:
        case Drawing():
            return _drawing(part, own)
        case Table():
            return _table(part)
        case Facts(title=title, pairs=pairs):
            shown = [(plain(name, LONGEST_NAME), plain(text)) for name, text in pairs]
            return Block("facts", plain(title, LONGEST_NAME), {"pairs": shown}, _weight(sum(shown, ())))
        case Notes(lines=lines):
            told = [plain(line) for line in lines]
            return Block("notes", "", {"lines": told}, _weight(told))
        case Prose(text=text):
            told = paragraphs(text)
            return Block("prose", "", {"lines": told}, _weight(told))


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, which empty lines part."""
    return [plain(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _weight(texts: Iterable[str]) -> int:
    """The bytes of texts once they are escaped, each with its tags."""
    return sum(len(html.escape(text).encode("utf-8", "replace")) + _AROUND_LINE for text in texts)


def _drawing(drawing: Drawing, own: str) -> Block:
    from markupsafe import Markup

    figure = drawing.figure()
    title = plain(drawing.title, LONGEST_NAME)
    # Markup because it is: every letter in it that is not ours was escaped by matplotlib or by inline_svg.
    svg = Markup(inline_svg(figure, f"{own}-", title))
    found = hover_points(figure)
    points = "" if found is None else _attribute(found)
    csv = _csv(drawing.rows)
    data = {
        "svg": svg,
        "points": points,
        "how": plain(_PREFIX.sub("", drawing.how, count=1)),
        "csv": csv,
        "heavy": len(drawing.rows) if drawing.rows and not csv else 0,
        "file": _file(drawing.file or drawing.title),
        "wide": figure.get_figwidth() > _WIDE,
    }
    size = sum(len(text.encode("utf-8", "replace")) for text in (svg, points, csv))
    return Block("drawing", title, data, size + _AROUND)


def _attribute(points: Mapping[str, Any]) -> Markup:
    """The points as the value of an attribute in single quotes, so that JSON's own quotes need not be escaped."""
    from markupsafe import Markup

    text = json.dumps(points, ensure_ascii=False, separators=(",", ":"))
    for letter, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;")):
        text = text.replace(letter, escaped)
    return Markup(text)


def _csv(rows: Sequence[Mapping[str, Cell]]) -> str:
    """The rows as a link; nothing where there are none, or too many for a page."""
    link = csv_link(rows) if rows else ""
    return link if len(link) <= _MOST_CSV else ""


class _Head(NamedTuple):
    """The head of a column as it is shown, and how its cells are set: ``number``, ``words`` or ``text``."""

    text: str
    meaning: str
    numeric: bool
    look: str


class _Entry(NamedTuple):
    """A cell: what is shown, what it is sorted by if that is something else, and what it is called in full."""

    text: str
    value: str | None
    name: str


def _table(table: Table) -> Block:
    keys = _told_apart([column.head for column in table.columns])
    values = [{key: _bare(cell) for key, cell in zip(keys, row, strict=True)} for row in table.rows]
    rows = [
        [_entry(cell, column.numeric) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows[:_MOST_ROWS]
    ]
    columns = [_head(column, [row[place].text for row in rows]) for place, column in enumerate(table.columns)]
    whole = _csv(values)
    csv = whole or _csv(values[:_MOST_ROWS])
    data = {
        "columns": columns,
        "rows": rows,
        "total": len(table.rows),
        "whole": bool(whole),
        "caption": plain(table.caption),
        "csv": csv,
        "file": _file(table.file or table.title),
        "sortable": len(rows) >= _SORTABLE,
        "long": len(rows) > _LONG,
    }
    size = _weight(text for row in rows for cell in row for text in (cell.text, cell.value or ""))
    return Block("table", plain(table.title, LONGEST_NAME), data, size + len(csv) + _AROUND)


def _head(column: Column, texts: Sequence[str]) -> _Head:
    look = "number" if column.numeric else "text" if max(map(len, texts), default=0) > _SENTENCE else "words"
    return _Head(plain(column.head, LONGEST_NAME), plain(column.meaning), column.numeric, look)


def _entry(cell: Cell | Shown, numeric: bool) -> _Entry:
    value, text = cell if isinstance(cell, Shown) else (cell, number_text(cell))
    shown = plain(text, _LONGEST_CELL)
    return _Entry(shown, _sorted_by(value, shown, numeric), text)


def _sorted_by(value: Cell, shown: str, numeric: bool) -> str | None:
    """What the script reads in place of the text; nothing, which comes last, where there is no value of its kind."""
    if value is None or (isinstance(value, str) and numeric):
        return ""
    if isinstance(value, str):
        # A name that is shown with signs in place of what acts in it is sorted as it is shown.
        return None if plain(value, _LONGEST_CELL) == shown else plain(value, LONGEST_NAME)
    if isinstance(value, int):
        written = str(int(value))
    elif math.isnan(value):
        return ""
    else:
        written = repr(float(value)).replace("inf", "Infinity")
    return None if written == shown else written


def _bare(cell: Cell | Shown) -> Cell:
    return cell.value if isinstance(cell, Shown) else cell


def _told_apart(heads: Sequence[str]) -> list[str]:
    """The heads as keys of a row: a head that comes again is numbered."""
    before = [heads[:place].count(head) for place, head in enumerate(heads)]
    return [f"{head} ({again + 1})" if again else head for head, again in zip(heads, before, strict=True)]


def _file(name: str) -> str:
    """A name that every system takes for a file."""
    bare = re.sub(r"[^\w.-]+", "-", plain(name.removesuffix(".csv"), 60)).strip("-.")
    return f"{bare or 'data'}.csv"


# Figures and tables as part of one HTML page: SVG that follows the page's colours, CSV behind a link.
#
# Matplotlib writes an SVG for a file of its own. Inside a page its rules for ``*`` would apply to the whole page, and
# the names of two figures would collide; its white is the wrong one at night, and half of it is blanks and sixth
# decimals.


COLOURS = {
    style.BLUE: "blue",
    style.ORANGE: "orange",
    style.GREEN: "green",
    style.RED: "red",
    style.PURPLE: "purple",
    style.GREY: "grey",
    style.INK: "ink",
    "#555555": "axis",
    "#e6e6e6": "grid",
    "#ffffff": "paper",
    "#000000": "ink",
}
"""The colours of figures, and the variable of the page's style sheet that takes the place of each."""

_LEAST, _MOST = 0.85, 1.5  # pixels to a point of the figure: below they cannot be read, beyond they shout
_TAG = re.compile(r"<[^>]*>")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_NAMES = {colour.lower(): f"var(--{name})" for colour, name in COLOURS.items()}
# Some are too pale for words, though not for lines: the style sheet has a darker one of each.
_PALE = ("var(--orange)", "var(--grey)")
_DOTS_PER_INCH = 144  # of what is not drawn as lines: heat maps, clouds of points


def inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """``figure`` as an SVG element that can stand in a page beside others; ``prefix`` keeps its names apart.

    Its words are text in the reader's font of the same widths, so that they can be found and read aloud; ``label`` is
    what the figure is called.
    """
    import matplotlib as mpl

    content = io.StringIO()
    with style.house_style(), mpl.rc_context({"svg.fonttype": "none"}):
        layout = figure.get_layout_engine()
        if layout is not None:  # laid out once, here: savefig would draw the whole figure for that, and then again
            layout.execute(figure)
            figure.set_layout_engine("none")
        figure.savefig(content, format="svg", dpi=_DOTS_PER_INCH, metadata={"Date": None, "Creator": None})
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", content.getvalue(), flags=re.DOTALL)
    body = _shorter(text[text.index(">", text.index("<svg")) + 1 :], prefix)
    width, height = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    size = (
        f'viewBox="0 0 {width:g} {height:g}" style="min-width:{_LEAST * width:.0f}px;max-width:{_MOST * width:.0f}px"'
    )
    # Colours that are not the page's own, such as those of a heat map, were chosen for white paper.
    card = ' class="card"' if "<image" in body or _COLOUR.search(body) else ""
    return f'<svg{card} {size} role="img" aria-label="{html.escape(label)}">{body}'


def _shorter(body: str, prefix: str) -> str:
    """The tags with the page's colours and the figure's own names, without what draws nothing."""
    used = set(re.findall(r"[\"(]#(\w+)", body))
    kept: list[bool] = []  # of the groups that are open

    def tag(found: re.Match[str]) -> str:
        text = found[0]
        if text == "</g>":
            return text if kept.pop() else ""
        if text.startswith("<image"):
            return re.sub(r"\s+", " ", text).replace("base64, ", "base64,").replace("xlink:href", "href")
        text = re.sub(r' id="([^"]*)"', lambda name: f' id="{prefix}{name[1]}"' if name[1] in used else "", text)
        text = re.sub(r'xlink:href="#', f'href="#{prefix}', text)
        text = text.replace("url(#", f"url(#{prefix}")
        text = _COLOUR.sub(lambda colour: _NAMES.get(colour[0]) or _grey(colour[0]), text)
        if text.startswith(("<text", "<tspan")):
            for pale in _PALE:
                text = text.replace(pale, f"{pale[:-1]}-text)")
        text = re.sub(r" transform=\"rotate\(-0[^\"]*\"| ?font-family: [^;\"]*;?", "", text)
        text = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), text)
        text = re.sub(r"([:;]) ", r"\1", re.sub(r"\s+", " ", text)).replace(' "', '"')
        # A tick has its colour already from the line it repeats.
        text = re.sub(r'(<use .*) style="fill:var\(--axis\);stroke:var\(--axis\);[^"]*"', r"\1", text)
        if text.startswith("<g"):
            kept.append(text != "<g>")
            return text if kept[-1] else ""
        return text

    body = _TAG.sub(tag, body)
    return re.sub(r">\s*\n\s*<", "><", body).strip()


def _grey(colour: str) -> str:
    """A shade between ink and paper as a mixture of the page's own; other colours as they are."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    if not red == green == blue:
        return colour
    share = min(100, round(100 * (255 - red) / (255 - int(style.INK[1:3], 16))))
    return f"color-mix(in srgb,var(--ink) {share}%,var(--paper))"


def csv_link(rows: Sequence[Mapping[str, Cell]]) -> str:
    """The rows as CSV in an address that needs no file: ``<a download="…" href="{csv_link(rows)}">``.

    Columns are all keys of the rows in the order they come; a row without one of them has nothing there. No cell is
    taken for a formula by a spreadsheet: names come from files.
    """
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = ([_short(row.get(head)) for head in heads] for row in rows)
    content = csv_text([*map(_short, heads)], cells, line_end="\r\n") if heads else ""
    return "data:text/csv;charset=utf-8," + urllib.parse.quote(content.encode("utf-8", "replace"), safe=",.:;+-_()[]")


def _short(cell: Cell) -> Cell:
    return cut(cell, LONGEST_TEXT) if isinstance(cell, str) else cell
