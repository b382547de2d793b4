"""The faults that ``benchmarks.mutations`` plants: each changes the source at one place, and stays Python."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.mutations import belonging, faults_of

SOURCE = '''"""A file."""
LIMIT: int = 3


def small(x, y=2):
    """Whether it is small."""
    if not x and y:
        return x * (y - 1) < LIMIT
    return None
'''


def test_every_kind_of_fault_at_its_place(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SOURCE)
    made = {}
    for fault in faults_of(path, tmp_path):
        assert SOURCE[fault.start : fault.end] == fault.old
        changed = SOURCE[: fault.start] + fault.new + SOURCE[fault.end :]
        ast.parse(changed)
        made.setdefault(fault.old, set()).add(fault.new)
    assert made == {
        "3": {"4"},
        "2": {"3"},
        "1": {"2"},
        "not x and y": {"(not x or y)"},
        "not x": {"(x)"},
        "x * (y - 1) < LIMIT": {"(x * (y - 1) <= LIMIT)", "None"},
        "x * (y - 1)": {"(x + y - 1)"},
        "y - 1": {"(y + 1)"},
    }


def test_the_tests_of_a_file_are_found():
    assert belonging("src/weightsmith/core/journal.py")[0] == "tests/core/test_journal.py"
    assert belonging("src/weightsmith/core/_processes.py")[0] == "tests/core"
    assert "tests/core/test_sweep.py" in belonging("src/weightsmith/core/options.py")
    assert belonging("src/weightsmith/training/schedules/_base.py") == ["tests/training/schedules"]
