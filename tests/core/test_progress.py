from __future__ import annotations

import io
import types

import pytest
from rich.console import Console

from weightsmith.core.progress import as_callback, for_stage, progress_bar, shows_progress


def test_a_stage_reports_under_its_name():
    heard = []
    report = for_stage(lambda *each: heard.append(each), "testing")
    report(1, 2)
    report(2, 2)
    assert heard == [("testing", 1, 2), ("testing", 2, 2)]


@pytest.mark.parametrize("nobody", [None, False, True])
def test_nobody_listens(nobody):
    assert for_stage(nobody, "testing") is None
    assert as_callback(nobody) is None


@shows_progress
def work(news, progress=None):
    """Work."""
    if progress is not None:
        progress(*news)
    return progress


@pytest.fixture
def shown(monkeypatch):
    """What a terminal of 100 columns is written."""
    written = io.StringIO()
    made = Console(file=written, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **_: made)
    return written


@pytest.mark.parametrize(
    ("news", "words"),
    [
        ((3, 8), ("work", "3/8")),
        (("racing", 3, 8), ("work: racing", "3/8")),
        ((types.SimpleNamespace(epoch=2, epochs=4, step=3, steps=10),), ("work: training", "13/40")),
    ],
)
def test_true_is_a_bar_whatever_is_reported(shown, news, words):
    assert callable(work(news, progress=True))
    for word in words:
        assert word in shown.getvalue()


def test_a_new_stage_begins_at_nothing(shown):
    with progress_bar("sweep") as report:
        report("racing", 8, 8)
        report("testing", 1, 30)
    assert "sweep: testing" in shown.getvalue()
    assert "1/30" in shown.getvalue()


def test_a_callback_is_passed_on_and_false_is_none(shown):
    heard = []
    assert work((1, 2), lambda *news: heard.append(news)) is not None
    assert heard == [(1, 2)]
    assert work((1, 2), progress=False) is None
    assert work((1, 2)) is None
    assert shown.getvalue() == ""
    assert (work.__name__, work.__doc__) == ("work", "Work.")
