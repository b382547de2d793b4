from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.core.statistics import Interval
from weightsmith.reporting.describe import describe
from weightsmith.reporting.notebook import html


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
