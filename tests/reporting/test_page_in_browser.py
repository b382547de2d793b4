"""The page's script at work in a real browser, under the page's own policy; skipped where there is none."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess

import pytest

from weightsmith.reporting.figures.style import house_style, new_figure
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice, Column, Drawing, Facts, Prose, Section, Shown, Table

FOUND = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
BROWSER = None if os.environ.get("WEIGHTSMITH_BROWSER") == "none" else next(FOUND, None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs a browser: no chromium or google-chrome is on the path"),
]

# Keys, clicks and moves as a reader makes them, and what the page then shows; written into the page to be read out.
ACTIONS = """
{
const found = {};
const all = (query) => [...document.querySelectorAll(query)];
const status = () => document.getElementById("status").textContent;
const after = (element, keys) => keys.map((key) => {
  element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  return status();
});
const pointer = (element, name, at, pointerType) => element.dispatchEvent(
  new PointerEvent(name, {clientX: at.x, clientY: at.y, pointerType, bubbles: true}));

const [curves, cells] = all("[data-points]");
const tip = document.querySelector(".tip");
found.role = curves.getAttribute("role");
found.keys = after(curves, ["ArrowRight", "ArrowRight", "ArrowDown", "End", "ArrowRight"]);
found.cells = after(cells, ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"]);
after(cells, ["Escape"]);
found.escaped = [tip.hidden, all(".mark").length];

const series = JSON.parse(curves.dataset.points).panels[0].series[1];
const at = new DOMPoint(series.x[0], series.y[0]).matrixTransform(curves.querySelector("svg").getScreenCTM());
pointer(curves, "pointermove", {x: at.x + 5, y: at.y - 4}, "mouse");
const mark = document.querySelector(".mark").getBoundingClientRect();
const off = Math.hypot(mark.x + mark.width / 2 - at.x, mark.y + mark.height / 2 - at.y);
found.under = [tip.hidden, tip.textContent, off];
pointer(curves, "pointermove", {x: at.x - 200, y: at.y - 200}, "mouse");
found.away = tip.hidden;
pointer(curves, "pointerdown", at, "touch");
found.touched = tip.hidden;

const column = () => all("tbody tr").map((row) => row.cells[0].textContent);
const [, units] = all("thead button");
found.unsorted = column();
found.sorts = [1, 2, 3].map(() => {
  units.click();
  return [units.closest("th").getAttribute("aria-sort"), column(), status()];
});

const shown = () => all(".choice > details").map((part) => [part.open, part.hidden]);
const select = document.querySelector("select");
found.named = document.getElementById(select.getAttribute("aria-labelledby")).textContent;
found.first = [select.value, shown()];
select.value = "s1-3-1";
select.dispatchEvent(new Event("change"));
found.second = shown();

const paper = (query) => getComputedStyle(document.querySelector(query)).backgroundColor;
found.themes = [1, 2].map(() => {
  document.getElementById("theme").click();
  return [document.documentElement.dataset.theme, paper("body"), paper("svg.card")];
});
window.dispatchEvent(new Event("beforeprint"));
found.printed = all(".facts, .columns").every((part) => part.open);
window.dispatchEvent(new Event("afterprint"));
found.folded = all(".facts, .columns").some((part) => part.open);
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const told = document.createElement("pre");
told.id = "told";
told.textContent = JSON.stringify(found);
document.body.append(told);
}
"""


def lines():
    with house_style():
        figure, (axes,) = new_figure(5, 3)
        axes.plot([1, 2, 3], [10, 20, 30.5], "o-", label="training")
        axes.plot([1, 2, 3], [5, 15, 25], "o-", label="validation")
        axes.set_xlabel("epoch")
        axes.set_ylabel("accuracy (%)")
    return figure


def cells():
    with house_style():
        figure, (axes,) = new_figure(4, 3)
        axes.imshow([[1, 2], [30, 40]])
        axes.set_xticks([0, 1], ["cat", "dog"])
        axes.set_yticks([0, 1], ["cat", "dog"])
        axes.set_xlabel("taken for")
    return figure


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The file of a page that goes through the actions and writes down what they gave."""
    rows = (("a", 10), ("b", Shown(9, "nine")), ("c", None), ("d", 100))
    parts = (
        Drawing("Curves", "it should rise", lines, []),
        Table("Sizes", (Column("layer", "its name"), Column("units", numeric=True)), rows),
        Choice("Layer", (("fc1", (Prose("one"),)), ("fc2", (Drawing("Cells", "dark is more", cells, []),))), first=1),
        Facts("Settings", (("seed", "0"),)),
    )
    text = render("A page", [Section("All", "", parts)])
    digest = base64.b64encode(hashlib.sha256(ACTIONS.encode()).digest()).decode()
    text = text.replace("script-src '", f"script-src 'sha256-{digest}' '")
    path = tmp_path_factory.mktemp("browser") / "page.html"
    path.write_text(text.replace("</body>", f"<script>{ACTIONS}</script></body>"), encoding="utf-8")
    return path


def opened(page, fragment=""):
    """What the actions gave on the page at this address."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [f"--user-data-dir={page.parent / 'user'}", "--window-size=1280,1000", "--dump-dom"]
    done = subprocess.run([*command, page.as_uri() + fragment], capture_output=True, timeout=120)
    text = re.search(r'<pre id="told">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert text, "the script of the page or the actions ended early"
    return json.loads(html.unescape(text[1]))


@pytest.fixture(scope="module")
def found(page):
    return opened(page)


def test_tables_sort_up_down_and_back_with_what_is_missing_last(found):
    up, down, back = found["sorts"]
    assert up == ["ascending", ["b", "a", "d", "c"], "sorted by units, ascending"]
    assert down == ["descending", ["d", "a", "b", "c"], "sorted by units, descending"]
    assert back == [None, found["unsorted"], "in the original order"]


def test_one_option_is_shown_at_a_time(found):
    assert found["first"] == ["s1-3-2", [[False, True], [True, False]]]
    assert found["second"] == [[True, False], [False, True]]
    assert found["named"] == "Layer"


def test_an_address_shows_the_option_it_names_and_a_lone_percent_sign_in_it_stops_nothing(page, found):
    assert opened(page, "#s1-3-1")["first"] == ["s1-3-1", [[True, False], [False, True]]]
    odd = opened(page, "#100%")  # which is no code of a letter
    assert [odd[name] for name in ("first", "second", "sorts")] == [
        found[name] for name in ("first", "second", "sorts")
    ]


def test_arrow_keys_read_the_points(found):
    gap = "\u00a0"
    assert found["keys"] == [
        f"training, epoch 1, accuracy 10{gap}%",
        f"training, epoch 2, accuracy 20{gap}%",
        f"validation, epoch 2, accuracy 15{gap}%",
        f"validation, epoch 3, accuracy 25{gap}%",
        f"validation, epoch 3, accuracy 25{gap}%",
    ]
    first, right, below, end = found["cells"]
    assert (first, right, below, end) == (
        "taken for cat, cat, 1",
        "taken for dog, cat, 2",
        *["taken for dog, dog, 40"] * 2,
    )
    assert found["role"] == "application"
    assert found["escaped"] == [True, 0]


def test_the_pointer_and_the_finger_find_the_nearest_point(found):
    hidden, text, away = found["under"]
    assert not hidden
    assert text == "validationepoch 1accuracy 5\u00a0%"
    assert away < 1
    assert found["away"]
    assert not found["touched"]


def test_colours_switch_and_cards_stay_white(found):
    white = "rgb(255, 255, 255)"
    assert found["themes"] == [["dark", "rgb(22, 24, 27)", white], ["light", white, white]]


def test_printed_nothing_is_folded_and_the_page_does_not_scroll_sideways(found):
    assert found["printed"]
    assert not found["folded"]
    assert found["overflow"] == 0
