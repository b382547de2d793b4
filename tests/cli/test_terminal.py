from __future__ import annotations

import io
import json
import sys

import pytest

from weightsmith.cli import terminal


def test_numbers_as_people_read_them():
    assert terminal.count_text(269722) == "269,722"


def test_errors_are_one_line_whatever_they_hold(capsys):
    terminal.say_error("a\nb\t[bold]c")
    assert capsys.readouterr().err == "weightsmith: a b [bold]c\n"


def test_json_refuses_nan(capsys):
    terminal.print_json({"ä": 0.1})
    assert json.loads(capsys.readouterr().out) == {"ä": 0.1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        terminal.print_json({"a": float("nan")})


def test_progress_is_a_line_per_tenth_where_there_is_no_terminal(capsys):
    with terminal.progress_bar("work", quiet=False) as progress:
        for done in range(1, 101):
            progress(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "work: 100 of 100"
    with terminal.progress_bar("work", quiet=True) as nothing:
        assert nothing is None


def test_progress_is_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm-256color")
    with terminal.progress_bar("fetch", quiet=False, unit="bytes") as progress:
        progress(5, 10)
    assert "fetch" in shown.getvalue()
    assert "5/10 bytes" in shown.getvalue()


def test_tables_are_not_wrapped_in_a_pipe(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    rows = terminal.table("name", "count", numbers=("count",))
    rows.add_row("x" * 120, "7")
    terminal.out().print(rows)
    assert any("x" * 120 in line and "7" in line for line in capsys.readouterr().out.splitlines())
