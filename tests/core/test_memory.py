from __future__ import annotations

import subprocess
import sys

import pytest

from weightsmith.core import memory
from weightsmith.core.errors import UsageError
from weightsmith.core.memory import check_memory, free_memory


def test_the_least_of_machine_container_and_limit_counts(monkeypatch):
    for machine, container, limit in ((3, 5, 7), (5, 3, 7), (7, 5, 3)):
        monkeypatch.setattr(memory, "_of_machine", lambda value=machine: value)
        monkeypatch.setattr(memory, "_of_container", lambda value=container: value)
        monkeypatch.setattr(memory, "_of_limits", lambda value=limit: value)
        assert free_memory() == 3


def test_a_container_s_limit_is_read_and_none_is_none(monkeypatch, tmp_path):
    limit, used = tmp_path / "limit", tmp_path / "used"
    monkeypatch.setattr(memory, "_CGROUPS", ((str(limit), str(used)),))
    assert memory._of_container() == sys.maxsize
    limit.write_text("max\n")
    used.write_text("10\n")
    assert memory._of_container() == sys.maxsize
    limit.write_text("1000\n")
    assert memory._of_container() == 990


@pytest.mark.skipif(sys.platform != "linux", reason="address limits and /proc are Linux's")
def test_an_address_limit_leaves_what_is_not_taken_yet():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "from weightsmith.core.memory import free_memory; before = free_memory();"
        "taken = bytearray(200 << 20); print(before, before - free_memory())"
    )
    before, less = map(
        int, subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split()
    )
    assert before < 1 << 30
    assert abs(less - (200 << 20)) < 4 << 20


def test_what_does_not_fit_is_refused_with_both_figures(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 2_000_000_000)
    check_memory("a small thing", 1_999_999_999, "nothing is needed")
    with pytest.raises(
        UsageError, match=r"^a thing needs 3\.2 GB of memory at once, but 2\.0 GB are free; be smaller$"
    ):
        check_memory("a thing", 3.2e9, "be smaller")
