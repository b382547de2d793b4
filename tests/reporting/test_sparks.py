from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.reporting._sparks import can_show, first_to_last, spark, spectrum_spark

NUMBERS = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
        ([3, 3], "▁▁"),
        ([1], "▁"),
        ([8, 1], "█▁"),
        ([None, 1, math.nan, 2, math.inf], "·▁·█·"),
        ([None], "·"),
        ([], ""),
        ([-1e308, 1e308], "▁█"),
    ],
)
def test_bars_rise_from_least_to_largest(values, line):
    assert spark(values, 40, ascii_only=False) == line


@pytest.mark.parametrize("width", [0, 1, 2, 7, 40])
def test_a_long_line_keeps_its_ends(width):
    line = spark(range(1000), width, ascii_only=False)
    assert len(line) == width
    assert line == "" or line[0] == "▁"
    assert width < 2 or line[-1] == "█"
    assert sorted(line) == list(line)


@given(st.lists(NUMBERS, max_size=80), st.integers(0, 50))
def test_a_larger_number_never_has_a_lower_bar(values, width):
    line, plain = (spark(values, width, ascii_only=each) for each in (False, True))
    assert len(line) == len(plain) == min(len(values), width)
    assert plain.isascii()
    assert [mark == "·" for mark in line] == [mark == " " for mark in plain]
    if len(values) <= width:
        known = sorted((value, mark) for value, mark in zip(values, line, strict=True) if mark != "·")
        assert [mark for _, mark in known] == sorted(mark for _, mark in known)


def test_the_ascii_marks_are_eight_different_ones():
    assert len(set(spark(range(8), 8, ascii_only=True))) == 8


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "_#"), ("latin-1", "_#"), ("utf-8", "▁█"), ("cp437", "_#")])
def test_the_terminal_is_asked_what_it_can_show(monkeypatch, encoding, shown):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert spark([1, 2], 5) == shown


def test_a_stdout_without_encoding_shows_ascii(monkeypatch):
    monkeypatch.setattr(sys, "stdout", object())
    assert not can_show("▁")
    assert can_show("#")


def test_the_ends_of_a_curve_are_numbers_that_exist():
    assert first_to_last([None, 0.5, math.nan, 0.25, None]) == "0.5000 → 0.2500"
    assert first_to_last([1.5], "{:.1f}") == "1.5 → 1.5"
    assert first_to_last([-8.5, 0.5], "{:.1%}") == "−850.0% → 50.0%"
    assert first_to_last([None]) == ""


def test_a_spectrum_is_a_histogram_of_logarithms():
    # One, three and seven eigenvalues in the first, third and last of four bins: log(1 + n) is as 1 : 2 : 3.
    values = np.array([1.0] + [10**2.5] * 3 + [10**3.5] * 6 + [1e4])
    assert spectrum_spark(values, 4, ascii_only=False) == "▁·▅█"


def test_a_spectrum_has_four_decades_at_most():
    values = np.array([0.0, 1e-30, 1.0, 1e4])
    assert spectrum_spark(values, 4, ascii_only=False) == "▁··▁"
    assert spectrum_spark(values * 1e-20, 4, ascii_only=False) == "▁··▁"


def test_spectra_without_extent():
    assert spectrum_spark(np.zeros(3), 12) == ""
    assert spectrum_spark(np.empty(0), 12) == ""
    assert spectrum_spark(np.full(5, 2.0), 12, ascii_only=False) == "▁"
