"""The page holds all that its parts say, needs nothing but itself, can be read by everyone, and lets no name act."""

from __future__ import annotations

import base64
import csv
import hashlib
import html.parser
import io
import itertools
import json
import re
import urllib.parse
from collections import Counter
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from weightsmith.core.errors import UsageError
from weightsmith.reporting._blocks import COLOURS, block_of, csv_link, inline_svg
from weightsmith.reporting._words import number_text, plain
from weightsmith.reporting.figures.style import GREY, INK, ORANGE, house_style, new_figure
from weightsmith.reporting.page import render
from weightsmith.reporting.parts import Choice, Column, Drawing, Facts, Notes, Prose, Section, Shown, Table

VOID = {"meta", "br", "wbr", "path", "use", "rect", "image"}
STYLE = (files("weightsmith.reporting") / "templates" / "page.css").read_text(encoding="utf-8")


class Page(html.parser.HTMLParser):
    """What a browser would find: elements with their attributes and ancestors, the text, and closed tags."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open, self.scripts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len(dict(attrs))
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)

    def every(self, tag, key=None):
        found = [attrs for name, attrs in self.elements if name == tag]
        return found if key is None else [attrs[key] for attrs in found if key in attrs]

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


def table_of(link):
    head, _, content = link.partition(",")
    assert head == "data:text/csv;charset=utf-8"
    return list(csv.DictReader(io.StringIO(urllib.parse.unquote(content), newline="")))


def figure(width=5.0, **more):
    with house_style():
        drawn, (axes,) = new_figure(width, 3)
        axes.plot([1, 2, 3], [1, 4, 9], label="training", **more)
        axes.set_xlabel("epoch")
        axes.set_ylabel("accuracy (%)")
    return drawn


def drawing(title="Curves", **more):
    return Drawing(title, "it should rise", figure, [{"epoch": n, "accuracy": n * n} for n in (1, 2, 3)], **more)


SIZES = Table(
    "Sizes",
    (Column("layer", "its name"), Column("units", "before", numeric=True), Column("left", numeric=True)),
    (("fc1", 12345, Shown(0.512345, "51 %")), ("fc2", 7, None), ("fc3", 2.5, "unknown"), ("fc10", float("inf"), 1)),
    caption="Of every layer.",
    file="sizes",
)
SECTIONS = [
    Section(
        "Training: first",
        "It learnt.\n\nQuickly.",
        (
            Notes(("look here",)),
            drawing(),
            drawing("Wide", file="wide.csv"),
            SIZES,
            Choice("Layer", (("fc1", (drawing("Spectrum of fc1"),)), ("fc2", (Prose("nothing to see"),))), first=1),
            Facts("How it was computed", (("seed", "7"), ("digest", "ab" * 32))),
        ),
        chips=(("accuracy", "94.4 %"),),
    ),
    Section("Grades", "As told.", (Prose("one\n\ntwo"),)),
]


@pytest.fixture(scope="module")
def text():
    return render("A report", SECTIONS, lead="Of one network.")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_says_all_that_its_parts_say(text, page):
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    expected = (
        "A report",
        "Of one network.",
        "It learnt.",
        "Quickly.",
        "look here",
        "Of every layer.",
        "nothing to see",
    )
    for words in (*expected, "accuracy94.4 %", "seed7", "ab" * 32, "12,345", "51 %", "unknown", "∞", "As told."):
        assert words in page.text
    assert page.text.count("How to read it: it should rise") == 3
    assert len(page.every("figure")) == 3


def test_equal_sections_give_equal_bytes(text):
    assert render("A report", SECTIONS, lead="Of one network.") == text


def test_it_needs_no_network_and_no_other_file(text, page):
    for _, attributes in page.elements:
        for key in ("src", "href", "action", "xlink:href", "srcset", "data"):
            assert attributes.get(key, "#").startswith(("#", "data:text/csv", "data:image/png"))
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)
    assert "@import" not in text
    assert not {"link", "img", "iframe", "object", "base", "form"} & {tag for tag, _ in page.elements}


def test_only_its_own_script_may_run(page):
    (policy,) = [meta["content"] for meta in page.every("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    (script,) = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["img-src"] == "data:"
    assert len(page.every("script")) == 1
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]


def test_headings_are_in_order_and_everything_has_a_name(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later <= sooner + 1 for sooner, later in itertools.pairwise(levels))
    tags = Counter(tag for tag, _ in page.elements)
    assert tags["main"] == tags["nav"] == tags["header"] == tags["footer"] == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]
    assert set(named) <= set(ids)
    assert {link[1:] for link in page.every("a", "href") if link.startswith("#")} <= set(ids)
    focusable = [attributes for _, attributes in page.elements if attributes.get("tabindex") == "0"]
    assert focusable
    assert all("aria-labelledby" in attributes and "role" in attributes for attributes in focusable)
    assert [svg["aria-label"] for svg in page.every("svg")] == ["Curves", "Wide", "Spectrum of fc1"]
    assert page.every("a")[0]["href"] == "#content"
    assert page.every("p", "aria-live") == ["polite"]
    assert page.every("th", "scope").count("row") == 4


def test_contents_lead_to_every_section_and_part(page):
    links = page.every("a", "href")
    assert links[1:9] == ["#s1", "#s1-2", "#s1-3", "#s1-4", "#s1-5", "#s1-6", "#s2", *links[8:9]]


def test_tables_sort_by_values_and_carry_them_whole(page):
    values = [row.get("data-value") for row in page.every("td")]
    assert values == ["12345", "0.512345", None, "", None, "", "Infinity", None]
    (table,) = page.every("table")
    assert "data-sortable" in table
    links = {
        re.sub(r"^s[\d-]+-", "", link["download"]): table_of(link["href"])  # without the number of the part
        for link in page.every("a")
        if "download" in link
    }
    assert set(links) == {"Curves.csv", "wide.csv", "sizes.csv", "Spectrum-of-fc1.csv"}
    assert [row["units"] for row in links["sizes.csv"]] == ["12345", "7", "2.5", "inf"]
    assert [row["left"] for row in links["sizes.csv"]] == ["0.512345", "", "unknown", "1"]
    assert links["Curves.csv"][2] == {"epoch": "3", "accuracy": "9"}


def test_small_tables_do_not_sort_and_equal_heads_are_kept_apart():
    columns = (Column("a"), Column("x"), Column("x"))
    page = Page(render("t", [Section("s", "", (Table("T", columns, (("r", 1, 2), ("q", 3, 4))),))]))
    assert "data-sortable" not in page.every("table")[0]
    assert table_of(page.every("a", "href")[-1])[0] == {"a": "r", "x": "1", "x (2)": "2"}
    empty = Page(render("t", [Section("s", "", (Table("T", columns, ()),))]))
    assert "There are no rows." in empty.text


def test_choices_show_one_and_rows_lead_to_it(text, page):
    (choice,) = [part for part in page.every("div") if "data-choose" in part]
    assert choice["data-first"] == "s1-5-2"
    options = [part for part in page.every("details") if re.fullmatch(r"s1-5-\d", part.get("id", ""))]
    assert [part["id"] for part in options] == ["s1-5-1", "s1-5-2"]
    assert ["open" in part for part in options] == [False, True]
    assert '<a href="#s1-5-1">fc1</a>' in text
    assert '<a href="#s1-5-2">fc2</a>' in text
    assert ">fc3</a>" not in text


def test_points_of_figures_are_in_the_page(page):
    found = [json.loads(part["data-points"]) for part in page.every("div") if "data-points" in part]
    assert len(found) == 3
    assert found[0]["panels"][0]["series"][0]["name"] == "training"
    assert found[0]["panels"][0]["y"] == ["accuracy", "%"]


def test_how_to_read_it_is_said_once():
    part = Drawing("D", "How to read it: upwards is better", figure, [])
    page = Page(render("t", [Section("s", "", (part,))]))
    assert page.text.count("How to read it:") == 1
    assert not [link for link in page.every("a") if "download" in link]


def test_hostile_names_stay_text(hostile):
    columns = (Column(hostile, hostile), Column("n", numeric=True))
    parts = (
        Notes((hostile,)),
        Drawing(hostile, hostile, figure, [{hostile: hostile}], file=hostile),
        Table(
            hostile, columns, ((hostile, 1), (Shown(hostile, hostile), 2), ("c", Shown(3, hostile))), hostile, hostile
        ),
        Choice(hostile, ((hostile, (Prose(hostile),)), (hostile + "2", ()))),
        Facts(hostile, ((hostile, hostile),)),
        Prose(hostile),
    )
    section = Section(hostile, hostile, parts, ((hostile, hostile),))
    text = render(hostile, [section, section], lead=hostile)
    page = Page(text.encode().decode())
    assert len(page.every("script")) == 1
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert "<script>alert(1)</script>" in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "␛[31m� �" in page.text
    for link in page.every("a"):
        if "download" in link:
            assert re.fullmatch(r"[\w.-]+\.csv", link["download"])
            for row in table_of(link["href"]):
                assert not [cell for cell in (*row, *row.values()) if cell.startswith("=")]


def test_long_names_are_cut_and_do_not_fill_the_page():
    long = "a name " * 1500
    rows = tuple((f"{number} {long}", number) for number in range(300))
    parts = (
        Table(long, (Column(long), Column("n", numeric=True)), rows),
        Choice(long, tuple((f"{number} {long}", (Prose(long),)) for number in range(100))),
        Facts(long, ((long, "x" * 100_000),)),
        *(Drawing(long, long, figure, [{"name": long}]) for _ in range(2)),
    )
    text = render(long, [Section(long, long, parts, ((long, long),))])
    assert len(text.encode()) < 3_000_000
    assert "x" * 201 not in text
    assert max(map(len, re.findall(r"<h\d[^>]*>(.*?)</h\d>", text))) < 150


def test_what_has_no_room_is_left_out_and_said(monkeypatch):
    def part(title):
        return Drawing(title, "so", lambda: Figure(figsize=(2, 2)), [{"n": "x" * 3000}])

    options = tuple((f"layer {number}", (part(f"Spectrum {number}"),)) for number in range(12))
    also = (("told", (Prose("words stay"), part("Spectrum x"))),)
    rows = (("layer 0", 1), ("layer 7", 2), ("layer 11", 12_345))
    table = Table("T", (Column("layer"), Column("n", numeric=True)), rows)
    sections = [Section("s", "", (part("Top"), Choice("Layer", options + also, first=7), table))]
    assert "left out" not in render("t", sections)
    one, more = block_of(part("Top"), "s1-1").size, block_of(table, "s1-3").size
    monkeypatch.setattr("weightsmith.reporting.page._ROOM", int(4.5 * one) + more)
    page = Page(render("t", sections))
    labels = [svg["aria-label"] for svg in page.every("svg")]
    assert labels == ["Top", "Spectrum 0", "Spectrum 1", "Spectrum 7"]  # what is seen first comes first
    assert "10 of 13 drawings are left out, and with them 9 of 13 options that hold nothing else" in page.text
    assert "words stay" in page.text
    assert "12,345" in page.text
    links = [link for link in page.every("a", "href") if link.startswith("#s1-2-")]
    assert links == ["#s1-2-1", "#s1-2-8"]  # a row does not lead to what is left out
    monkeypatch.setattr("weightsmith.reporting.page._ROOM", 1000)
    bare = Page(render("t", sections))
    assert not bare.every("svg")
    assert "Left out so that the page stays below 3 MB: drawing “Top”" in bare.text


def test_many_rows_are_cut_short_and_data_too_large_are_named():
    columns = (Column("n", numeric=True), Column("text"))
    page = Page(render("t", [Section("s", "", (Table("T", columns, tuple((n, "x") for n in range(1500))),))]))
    assert page.every("th", "scope").count("row") == 1000
    assert "The first 1,000 of 1,500 rows are shown; the CSV holds all of them." in page.text
    assert len(table_of(page.every("a", "href")[-1])) == 1500
    heavy = tuple((n, "x" * 50) for n in range(20_000))
    page = Page(render("t", [Section("s", "", (Table("T", columns, heavy),))]))
    assert "The first 1,000 of 20,000 rows are shown, here and in the CSV." in page.text
    assert len(table_of(page.every("a", "href")[-1])) == 1000
    rows = [{"n": n, "text": "x" * 50} for n in range(20_000)]
    page = Page(render("t", [Section("s", "", (Drawing("D", "so", figure, rows),))]))
    assert "(Its 20,000 rows of data are too many for the page.)" in page.text


def test_a_page_without_sections_is_refused():
    with pytest.raises(UsageError, match="'t' has no sections"):
        render("t", [])


# Colours

PAIRS = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE)}


def luminance(colour):
    parts = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """The ratio of WCAG 2, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("night", [0, 1])
@pytest.mark.parametrize("name", ["ink", "soft", "axis", "blue", "green", "red", "purple", "orange-text", "grey-text"])
def test_all_words_can_be_read_by_day_and_by_night(name, night):
    for ground in ("paper", "shade"):
        assert contrast(PAIRS[name][night], PAIRS[ground][night]) >= 4.5
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("night", [0, 1])
def test_lines_and_borders_of_controls_can_be_seen(night):
    for name in ("blue", "orange", "green", "red", "purple", "grey", "edge"):
        assert contrast(PAIRS[name][night], PAIRS["paper"][night]) >= 3


def test_colours_by_day_are_those_of_the_figures_and_old_browsers_have_them_too():
    for colour, name in COLOURS.items():
        if colour not in {"#000000"}:
            assert PAIRS[name][0] == colour.lower()
    fallback = STYLE[STYLE.index("@supports not") :].split("}")[0]
    assert dict(re.findall(r"--([\w-]+): (#\w{6});", fallback)) == {name: pair[0] for name, pair in PAIRS.items()}


def test_figures_follow_the_page_or_keep_to_white_paper():
    with house_style():
        drawn, (axes,) = new_figure(4, 3)
        axes.plot([1, 2], [1, 2], color=ORANGE)
        axes.plot([1, 2], [2, 1], color="#bfbfbf")
        axes.text(1.5, 1.5, "pale", color=GREY)
        axes.text(1.2, 1.5, "warm", color=ORANGE)
        axes.text(1.8, 1.5, "dark", color=INK)
    svg = inline_svg(drawn, "p-", "f")
    assert "fill:var(--grey-text)" in svg
    assert "fill:var(--orange-text)" in svg
    assert "stroke:var(--orange)" in svg
    assert "color-mix(in srgb,var(--ink) 29%,var(--paper))" in svg
    assert not re.search(r"#[0-9a-f]{6}", svg)
    assert 'class="card"' not in svg
    axes.imshow([[1, 2], [3, 4]])
    image = inline_svg(drawn, "p-", "f")
    assert 'class="card"' in image
    (link,) = re.findall(r'<image [^>]*?href="data:image/png;base64,([^"]*)"', image)
    assert base64.b64decode(link, validate=True).startswith(b"\x89PNG")
    assert 'class="card"' in inline_svg(figure(color="#123456"), "p-", "f")


# Words


@given(st.text(), st.integers(1, 300))
def test_plain_text_is_short_and_holds_nothing_that_acts(text, longest):
    shown = plain(text, longest)
    assert len(shown) <= longest
    shown.encode()
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", shown)
    assert plain(shown, longest) == shown


@pytest.mark.parametrize("text", ["fc1", "encoder.layer_1/weight", "名前", "שכבה", "ρ(λ) ∝ λ⁻α", "a b"])
def test_plain_leaves_ordinary_names_alone(text):
    assert plain(text) == text


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "＝", "＋", "－", "＠", "\t=", " =", "\u00a0@", "\ufeff=", "\r", "\n+"]
)
def test_no_cell_is_taken_for_a_formula(start):
    rows = [{f"{start}head": f"{start}cell", "n": -1.5}]
    (row,) = table_of(csv_link(rows))
    assert row == {f"'{start}head": f"'{start}cell", "n": "-1.5"}


def test_rows_of_other_keys_share_one_table():
    assert table_of(csv_link([{"a": 1}, {"b": 2, "a": None}])) == [{"a": "1", "b": ""}, {"a": "", "b": "2"}]
    assert csv_link([]) == "data:text/csv;charset=utf-8,"


def test_numbers_for_people():
    values = (0.0, -1.5, 1234.5, 999999, 1e20, 1e-9, False, float("nan"), -float("inf"))
    expected = ["0", "−1.5", "1,234", "999,999", "1e+20", "1e−09", "no", "not a number", "−∞"]
    assert [number_text(value) for value in values] == expected


def test_names_may_break_after_dots_but_numbers_may_not():
    page = render("t", [Section("s", "", (), about="layer.conv1 × 0.5 in runs/a_b")])
    assert "layer.<wbr>conv1 × 0.5 in runs/<wbr>a_<wbr>b" in page
