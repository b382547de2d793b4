"""One part as a block of the page: the data for the template, and its size in bytes.

All text is sanitised here, figures are drawn, and data become links.
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


_WIDE = 7.0  # inches from which a figure gets a row of its own
_AROUND, _AROUND_LINE = 900, 40  # bytes of the template around a drawing or table, and around a cell or line
_MOST_ROWS = 1_000  # rows shown of a table; its CSV has all of them
_MOST_CSV = 500_000  # bytes of data for one table or drawing
_LONGEST_CELL = 500
_ROOM, _PADDING = 128, 3  # characters beside the table of contents at 1,300 pixels, and of a gap
_WRAPPED = {"phrase": 18, "text": 52}  # characters of a line of wrapped words, and of sentences (as in page.css)
_LONG = 14  # rows from which a table scrolls
_PHRASE, _SENTENCE = 26, 60  # letters from which a cell may wrap, and from which its column is a wide one
_SORTABLE = 3  # rows from which a table is sortable
_PREFIX = re.compile(r"\s*how to read it\s*:\s*", re.IGNORECASE)


class Block(NamedTuple):
    """``kind`` is the macro of the template, ``data`` its input, ``size`` is in bytes."""

    kind: str
    title: str
    data: Mapping[str, Any]
    size: int


def block_of(part: Table | Drawing | Facts | Notes | Prose, own: str) -> Block:
    """The part as a block; ``own`` makes the ids in its SVG unique on the page."""
    match part:
        case Drawing():
            return _drawing(part, own)
        case Table():
            return _table(part)
        case Facts(title=title, pairs=pairs):
            shown = [(plain(name, LONGEST_NAME), plain(text)) for name, text in pairs]
            return Block("facts", plain(title, LONGEST_NAME), {"pairs": shown}, _weight(sum(shown, ())))
        case Notes(lines=lines):
            lines_shown = [plain(line) for line in lines]
            return Block("notes", "", {"lines": lines_shown}, _weight(lines_shown))
        case Prose(text=text):
            lines_shown = paragraphs(text)
            return Block("prose", "", {"lines": lines_shown}, _weight(lines_shown))


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, separated by empty lines."""
    return [plain(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip()]


def _weight(texts: Iterable[str]) -> int:
    """The bytes of texts after escaping, each with its tags."""
    return sum(len(html.escape(text).encode("utf-8", "replace")) + _AROUND_LINE for text in texts)


def _drawing(drawing: Drawing, own: str) -> Block:
    from markupsafe import Markup

    figure = drawing.figure()
    title = plain(drawing.title, LONGEST_NAME)
    # Safe markup: all foreign text in it was escaped by matplotlib or by inline_svg.
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
    """The points as the value of an attribute in single quotes, so that JSON's quotes need no escaping."""
    from markupsafe import Markup

    text = json.dumps(points, ensure_ascii=False, separators=(",", ":"))
    for letter, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;")):
        text = text.replace(letter, escaped)
    return Markup(text)


def _csv(rows: Sequence[Mapping[str, Cell]]) -> str:
    """The rows as a link; empty if there are none, or too many for a page."""
    link = csv_link(rows) if rows else ""
    return link if len(link) <= _MOST_CSV else ""


class _Head(NamedTuple):
    """The head of a column, the class of its cells (``number``, ``words`` or ``text``), and its characters in a row.

    A column that is ``more`` is shown on request: with it the table would be wider than the page.
    """

    text: str
    meaning: str
    numeric: bool
    look: str
    width: int
    more: bool = False


class _Entry(NamedTuple):
    """A cell: its text, its sort key if that differs, and its full text."""

    text: str
    value: str | None
    name: str


def _table(table: Table) -> Block:
    values = table.to_rows()
    rows = [
        [_entry(cell, column.numeric) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows[:_MOST_ROWS]
    ]
    columns = _fitting(
        [_head(column, [row[index].text for row in rows]) for index, column in enumerate(table.columns)],
        [column.spare for column in table.columns],
    )
    full = _csv(values)
    csv = full or _csv(values[:_MOST_ROWS])
    data = {
        "columns": columns,
        "rows": rows,
        "total": len(table.rows),
        "whole": bool(full),
        "caption": plain(table.caption),
        "csv": csv,
        "file": _file(table.file or table.title),
        "sortable": len(rows) >= _SORTABLE,
        "long": len(rows) > _LONG,
        "tight": _characters(columns) > _ROOM,
    }
    size = _weight(text for row in rows for cell in row for text in (cell.text, cell.value or ""))
    return Block("table", plain(table.title, LONGEST_NAME), data, size + len(csv) + _AROUND)


def _head(column: Column, texts: Sequence[str]) -> _Head:
    longest = max(map(len, texts), default=0)
    words = "words" if longest <= _PHRASE else "phrase" if longest <= _SENTENCE else "text"
    look = "number" if column.numeric else words
    head = plain(column.head, LONGEST_NAME)
    width = max(len(head) + 2, _WRAPPED.get(look, longest))
    return _Head(head, plain(column.meaning), column.numeric, look, width)


def _fitting(heads: Sequence[_Head], spare: Sequence[int]) -> list[_Head]:
    """The columns; spare ones become ``more`` one by one until the rest fits."""
    found = list(heads)
    for index in sorted((index for index, turn in enumerate(spare) if turn), key=spare.__getitem__):
        if _characters(found) <= _ROOM:
            break
        found[index] = found[index]._replace(more=True)
    return found


def _characters(heads: Sequence[_Head]) -> int:
    """The characters of the shown columns, each with its padding."""
    return sum(head.width + _PADDING for head in heads if not head.more)


def _entry(cell: Cell | Shown, numeric: bool) -> _Entry:
    value, text = cell if isinstance(cell, Shown) else (cell, number_text(cell))
    shown = plain(text, _LONGEST_CELL)
    return _Entry(shown, _sorted_by(value, shown, numeric), text)


def _sorted_by(value: Cell, shown: str, numeric: bool) -> str | None:
    """The sort key for the script in place of the text; empty, which sorts last, if there is no value."""
    if value is None or (isinstance(value, str) and numeric):
        return ""
    if isinstance(value, str):
        # A sanitised name is sorted by its sanitised text.
        return None if plain(value, _LONGEST_CELL) == shown else plain(value, LONGEST_NAME)
    if isinstance(value, int):
        written = str(int(value))
    elif math.isnan(value):
        return ""
    else:
        written = repr(float(value)).replace("inf", "Infinity")
    return None if written == shown else written


def _file(name: str) -> str:
    """A valid file name on every system."""
    bare = re.sub(r"[^\w.-]+", "-", plain(name.removesuffix(".csv"), 60)).strip("-.")
    return f"{bare or 'data'}.csv"


# Figures and tables in one HTML page: SVG with the page's colours, CSV behind a link.
#
# Matplotlib writes an SVG for a file of its own. In a page its CSS rules for ``*`` would apply to the whole page, and
# the ids of two figures would collide; its white does not suit the dark mode, and half of its bytes are blanks and
# superfluous decimals.


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
"""The colours of figures, and the CSS variable that replaces each."""

_LEAST, _MOST = 0.85, 1.5  # pixels per point of the figure: smaller is unreadable, larger is too large
_TAG = re.compile(r"<[^>]*>")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_NAMES = {colour.lower(): f"var(--{name})" for colour, name in COLOURS.items()}
# Some are too pale for text, though not for lines: the style sheet has a darker variant of each.
_PALE = ("var(--orange)", "var(--grey)")
_DOTS_PER_INCH = 144  # resolution of rasterised parts: heat maps, clouds of points


def inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """``figure`` as an inline SVG element; ``prefix`` makes its ids unique.

    Its text remains text in a font of the same widths, so that it can be searched and read aloud; ``label`` is the
    accessible name of the figure.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    content, before = io.StringIO(), figure.dpi
    with style.house_style(), mpl.rc_context({"svg.fonttype": "none"}):
        figure.dpi = _DOTS_PER_INCH
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)
            figure.set_layout_engine("none")
        # savefig would draw a figure with a layout twice, even if the layout is done already.
        FigureCanvasSVG(figure).print_svg(content, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
        figure.dpi = before
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", content.getvalue(), flags=re.DOTALL)
    body = _shorter(text[text.index(">", text.index("<svg")) + 1 :], prefix)
    width, height = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    size = (
        f'viewBox="0 0 {width:g} {height:g}" style="min-width:{_LEAST * width:.0f}px;max-width:{_MOST * width:.0f}px"'
    )
    # Foreign colours, such as those of a heat map, were chosen for white paper.
    card = ' class="card"' if "<image" in body or _COLOUR.search(body) else ""
    return f'<svg{card} {size} role="img" aria-label="{html.escape(label)}">{body}'


def _shorter(body: str, prefix: str) -> str:
    """The tags with the page's colours and unique ids, without elements that draw nothing."""
    used = set(re.findall(r"[\"(]#(\w+)", body))
    kept: list[bool] = []  # stack of the open groups

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
        # A tick inherits its colour from the line it repeats.
        text = re.sub(r'(<use .*) style="fill:var\(--axis\);stroke:var\(--axis\);[^"]*"', r"\1", text)
        if text.startswith("<g"):
            kept.append(text != "<g>")
            return text if kept[-1] else ""
        return text

    body = _TAG.sub(tag, body)
    return re.sub(r">\s*\n\s*<", "><", body).strip()


def _grey(colour: str) -> str:
    """A shade between ink and paper as a mixture of the page's colours; other colours unchanged."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    if not red == green == blue:
        return colour
    share = min(100, round(100 * (255 - red) / (255 - int(style.INK[1:3], 16))))
    return f"color-mix(in srgb,var(--ink) {share}%,var(--paper))"


def csv_link(rows: Sequence[Mapping[str, Cell]]) -> str:
    """The rows as CSV in a data URL: ``<a download="…" href="{csv_link(rows)}">``.

    Columns are all keys of the rows in order of appearance; a missing key gives an empty cell. No cell can act
    as a formula in a spreadsheet: names come from files.
    """
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = ([_short(row.get(head)) for head in heads] for row in rows)
    content = csv_text([*map(_short, heads)], cells, line_end="\r\n") if heads else ""
    return "data:text/csv;charset=utf-8," + urllib.parse.quote(content.encode("utf-8", "replace"), safe=",.:;+-_()[]")


def _short(cell: Cell) -> Cell:
    return cut(cell, LONGEST_TEXT) if isinstance(cell, str) else cell
