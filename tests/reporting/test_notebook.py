from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.core.statistics import Interval
from weightsmith.reporting.describe import describe
from weightsmith.reporting.figures.grading import alpha_figure
from weightsmith.reporting.notebook import html
from weightsmith.training.run import EpochRow, History


@pytest.fixture(scope="module")
def grades():
    return ws.grade(ws.networks.mlp(16, 12, 10), evidence="none")


def test_a_result_shows_its_description_without_drawings(grades):
    shown = grades._repr_html_()
    assert shown.startswith('<div class="weightsmith">')
    assert grades.coverage.line in shown
    assert "Measures of the whole network" in shown
    assert "<svg" not in shown
    assert "<script" not in shown


def test_one_table_or_drawing_is_shown_alone(grades):
    description = describe(grades, "mine")
    table = html(description["Left out"])
    assert "bias" in table
    assert "Measures" not in table
    assert html(description["α against depth"]).startswith("<svg")


def test_what_has_no_description_keeps_its_plain_form():
    assert Interval(0.5, 0.4, 0.6, 0.95, "Wilson")._repr_html_() is None


def test_records_without_a_description_show_their_rows(grades):
    history = History((EpochRow(1, 45, 0.01, 2.0217102, 0.334), EpochRow(2, 45, 0.01, 1.5, 0.61)))
    shown = history._repr_html_()
    assert "train loss" in shown
    assert "2.022" in shown
    assert "validation" not in shown
    assert "EpochRow(" not in shown


def test_a_comparison_and_a_figure_show_themselves(grades):
    assert "Networks side by side" in ws.compare([grades, grades])._repr_html_()
    assert alpha_figure(grades)._repr_png_().startswith(b"\x89PNG")
