from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.csv_text import csv_rows, csv_text, guarded, unguarded

STARTS = (
    "=",
    "+",
    "-",
    "@",
    "＝",
    "＋",
    "－",
    "＠",
    "\t=",
    " =",
    "\u00a0@",
    "\ufeff=",
    "\r",
    "\n+",
    "\tcmd",
    "'=",
    "''-",
)


@pytest.mark.parametrize("start", STARTS)
def test_no_text_is_taken_for_a_formula(start):
    text = f"{start}cmd|' /C calc'!A0"
    assert guarded(text) == f"'{text}"
    head, row = csv.reader(io.StringIO(csv_text([text, "n"], [[text, -1.5]]), newline=""))
    assert (head, row) == ([f"'{text}", "n"], [f"'{text}", "-1.5"])


@pytest.mark.parametrize(
    "cell", [-3, -0.5, 1e-300, True, None, "-3", "+4.5e-3", "-.5", "fc1", "it's", "", "'quoted'", "a=b"]
)
def test_numbers_and_plain_words_stay_as_they_are(cell):
    assert guarded(cell) is cell
    assert not isinstance(cell, str) or unguarded(cell) == cell


@pytest.mark.parametrize("text", ["-", "+", "--1", "-1+1", "-1e", "-1 ", "1e5+A1", "-0x10", "-1\n"])
def test_what_only_begins_as_a_number_is_none(text):
    assert guarded(text) == (text if text.startswith("1") else f"'{text}")


@given(st.lists(st.text(alphabet="'=+-@ \t\r\n,;\"1.eé") | st.text(max_size=9), min_size=1, max_size=5))
def test_the_reader_gets_back_what_was_written(cells):
    (read,) = csv.reader(io.StringIO(csv_text(cells, []), newline=""))
    assert list(map(unguarded, read)) == cells


def test_floats_read_back_exactly():
    numbers = [0.1, -1 / 3, 1e-310, 123456789.123456789, -2]
    _, row = csv.reader(io.StringIO(csv_text("abcde", [numbers])))
    assert [float(cell) for cell in row] == numbers


def test_rows_by_name_share_one_head():
    assert csv_rows([{"a": 1, "b": None}, {"c": "x", "a": 2}]) == "a,b,c\n1,,\n2,,x\n"
    assert csv_rows([]) == ""


def test_a_cell_cannot_begin_a_line_of_its_own():
    assert csv_text(["a"], [["x\r=cmd()"], ["x\n=cmd()"]]) == 'a\n"x\r=cmd()"\n"x\n=cmd()"\n'
