"""Figures and tables as part of one HTML page: SVG that follows the page's colours, CSV behind a link.

Matplotlib writes an SVG for a file of its own. Inside a page its rules for ``*`` would apply to the whole page, and the
names of two figures would collide; its white is the wrong one at night, and half of it is blanks and sixth decimals.
"""

from __future__ import annotations

import html
import io
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weightsmith.core.csv_text import csv_text
from weightsmith.reporting._words import LONGEST_TEXT, cut
from weightsmith.reporting.figures import style
from weightsmith.reporting.parts import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "Cell", "csv_link", "inline_svg"]

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
