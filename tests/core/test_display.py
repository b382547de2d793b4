from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.core import display
from weightsmith.core.display import Displayed, show_by


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(display, "_renderers", [])


def test_without_a_renderer_a_result_has_its_plain_form():
    assert Displayed()._repr_html_() is None


def test_the_last_renderer_shows_the_result():
    show_by(lambda result: "first")
    show_by(lambda result: f"<b>{type(result).__name__}</b>")
    assert Displayed()._repr_html_() == "<b>Displayed</b>"


def test_what_verbs_return_shows_itself():
    show_by(lambda result: type(result).__name__)
    assert ws.grade(ws.networks.mlp(8, 4, 2), evidence="none")._repr_html_() == "Grades"
