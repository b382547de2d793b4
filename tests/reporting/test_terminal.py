"""One description, shown on a terminal, on a page and in a notebook: the same answer, numbers, cells, notes, advice."""

from __future__ import annotations

import dataclasses
import html
import io
import json
import re

import pytest
from rich.console import Console

import weightsmith as ws
from weightsmith.reporting import terminal
from weightsmith.reporting._words import number_text
from weightsmith.reporting.describe import describe
from weightsmith.reporting.page import fragment, render
from weightsmith.reporting.parts import Choice, Column, Drawing, Facts, Notes, Prose, Section, Shown, Table
from weightsmith.reporting.sections.reductions import methods_section


def printed(section, width=1000, files=()):
    console = Console(width=width, file=io.StringIO(), highlight=False)
    terminal.show(section, console, files)
    return console.file.getvalue()


def squeezed(text):
    return "".join(text.split())


def page_text(page):
    bare = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return squeezed(html.unescape(re.sub(r"<[^>]*>", "", bare)))


def words_of(section):
    """Every text of a description that all must show."""
    yield from filter(None, [section.about, section.lead, *section.look_at, *section.try_next])
    for name, text in section.chips:
        yield from (name, text)
    for part in section:
        match part:
            case Table(detail=False):
                yield from filter(None, [part.title, part.caption, *(column.head for column in part.columns)])
                yield from (c.text if isinstance(c, Shown) else number_text(c) for row in part.rows for c in row)
            case Notes(lines=lines):
                yield from lines
            case Facts(detail=False, pairs=pairs):
                yield from (text for pair in pairs for text in pair)


@pytest.fixture(scope="module")
def run():
    return ws.train("mlp:24", "digits", optimiser="adam", schedule=0.02, epochs=2)


@pytest.fixture(scope="module")
def reductions(run):
    methods = ("angles:60", "magnitude", "random")
    return [ws.reduce(run, "digits", by=by, target="params:0.5", recover="fine-tune:1", random=2) for by in methods]


@pytest.fixture(scope="module")
def descriptions(run, reductions):
    """Of each kind one that has as much to say as possible."""
    asked = {"least_accuracy": 100.0, "kept": False}
    spiking = ws.spike(run, "digits", adjust="l4:1.0", steps=6, test_rows=60, watch=2)
    return {
        "reduction": describe(reductions[0], "runs/small", **asked),
        "methods": methods_section(reductions, "runs/small", **asked),
        "spiking": describe(spiking, "runs/snn", **asked),
        "grades": describe(ws.grade(run.network, evidence="fast:resamples=50"), "runs/whole"),
    }


KINDS = ("reduction", "methods", "spiking", "grades")


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_page_and_notebook_show_the_same(descriptions, kind):
    section = descriptions[kind]
    here, there, inside = squeezed(printed(section)), page_text(render("Page", [section])), page_text(fragment(section))
    words = [squeezed(text) for text in words_of(section)]
    assert len(words) > 30
    assert [text for text in words if text not in here] == []
    assert [text for text in words if text not in there] == []
    assert [text for text in words if text not in inside] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(descriptions, kind, width):
    lines = printed(descriptions[kind], width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("kind", KINDS)
def test_for_programs_everything_is_plain_values(descriptions, kind):
    section = descriptions[kind]
    told = json.loads(json.dumps(section.to_dict(), allow_nan=False))
    assert told["answer"] == section.lead
    assert told["numbers"] == dict(section.chips)
    assert (told["look_at"], told["try_next"]) == (list(section.look_at), list(section.try_next))
    (first, *_) = [part for part in section if isinstance(part, Table)]
    assert told["tables"][0]["title"] == first.title
    assert len(told["tables"][0]["rows"]) == len(first.rows)


WIDE = Table(
    "Wide",
    (Column("layer"), Column("α", numeric=True), Column("D", numeric=True, spare=1), Column("what", "a remark")),
    tuple((f"block.{n}.conv", n, Shown(0.123, "0.123"), "a remark of some length") for n in range(8)),
)


def of_table(table, width):
    return printed(Section("T", "", (table,)), width)


def test_columns_to_spare_go_first_and_are_named():
    assert "0.123" in of_table(WIDE, 80)
    narrow = of_table(WIDE, 42)
    assert "0.123" not in narrow
    assert "a wider terminal has D" in " ".join(narrow.split())
    assert "block.7.conv" in narrow


def test_heads_of_rows_lose_their_beginning_last():
    long = dataclasses.replace(WIDE, rows=tuple(("x" * 60 + f".query{n}", *row[1:]) for n, row in enumerate(WIDE.rows)))
    shown = of_table(long, 60)
    assert "…xx" in shown
    assert ".query7" in shown
    assert max(map(len, shown.splitlines())) <= 60


def test_a_table_of_few_rows_is_turned_on_its_side_and_loses_nothing():
    shown = of_table(dataclasses.replace(WIDE, rows=WIDE.rows[:2]), 40)
    lines = [line.split() for line in shown.splitlines()]
    assert ["block.0.conv", "block.1.conv"] in lines
    assert ["D", "0.123", "0.123"] in lines


def test_details_and_drawings_are_left_to_the_page():
    hidden = dataclasses.replace(WIDE, title="Hidden", detail=True)
    drawing = Drawing("Drawn", "how", lambda: None, [])
    facts = (Facts("Far", (("a", "b"),), detail=True), Facts("Near", (("name", "value"),)))
    shown = printed(Section("T", "", (hidden, drawing, *facts, Choice("c", (("one", (Prose("first"), drawing)),)))))
    assert [word in shown for word in ("Hidden", "Drawn", "Far", "Near", "first")] == [False, False, False, True, False]


def test_all_options_of_a_choice_with_tables_are_shown():
    options = tuple((name, (dataclasses.replace(WIDE, title=f"Of {name}"),)) for name in ("fc1", "fc2"))
    shown = printed(Section("T", "", (Choice("Layer", options),)))
    assert [word in shown for word in ("Layer: fc1", "Of fc1", "Layer: fc2", "Of fc2")] == [True] * 4


def test_text_is_never_markup_and_has_no_control_characters():
    hostile = "[bold]evil[/bold][link=file:///etc/passwd]\x1b[31m"
    section = Section(hostile, hostile, (Notes((hostile,)),), ((hostile, hostile),), hostile, (hostile,), (hostile,))
    shown = printed(section)
    assert "\x1b" not in shown
    assert shown.count("[bold]evil[/bold][link=file:///etc/passwd]") == 7  # a name this long wraps


def test_many_lines_and_files_are_counted(tmp_path):
    section = Section("T", "", (Notes(tuple(f"note {n}" for n in range(9))),))
    shown = printed(section, 3000, [tmp_path / str(n) for n in range(15)])
    assert "note 5" in shown
    assert "note 6" not in shown
    assert "and 3 more: --json has all" in shown
    assert "11 and 3 more" in shown


@pytest.mark.parametrize(("encoding", "bars"), [("utf-8", "▁█"), ("ascii", "_#")])
def test_bars_are_shown_as_the_terminal_can(encoding, bars):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    terminal.show(Section("T", "", (), (("curve", "▁█"),)), Console(width=80, file=file))
    file.flush()
    assert bars in file.buffer.getvalue().decode(encoding)
