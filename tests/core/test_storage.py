from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.core.storage import file_digest, reading, remove_leftovers, write_atomic


def test_text_bytes_and_blocks_are_written(tmp_path):
    assert write_atomic(tmp_path / "new" / "a", "ä").read_bytes() == "ä".encode()
    assert write_atomic(tmp_path / "b", b"x").read_bytes() == b"x"
    assert write_atomic(tmp_path / "c", iter([b"1", b"2"])).read_bytes() == b"12"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "c", "new"]


def test_a_failure_in_mid_write_leaves_the_old_file_and_nothing_else(tmp_path):
    write_atomic(tmp_path / "a", "old")

    def blocks():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a", blocks())
    assert (tmp_path / "a").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot ask whether a process runs")
def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    script = """
import os, signal, sys
from weightsmith.core.storage import write_atomic
def blocks():
    yield b"a part"
    os.kill(os.getpid(), signal.SIGKILL)
write_atomic(sys.argv[1], blocks())
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "file")], timeout=60, check=False)
    assert len(list(tmp_path.iterdir())) == 1
    others = [".mine.part", "file.part", f".running.{os.getpid()}-0123abcd.part", ".first.1-0123abcd.part"]
    for name in others:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_files_are_as_readable_as_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        path = write_atomic(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_refusals_name_the_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileRefused, match=r"file/inside: cannot be written"):
        write_atomic(tmp_path / "file" / "inside", "x")
    with pytest.raises(FileRefused, match="gone: no such file"):
        file_digest(tmp_path / "gone")
    with pytest.raises(FileRefused, match="is a folder, not a file"):
        file_digest(tmp_path)
    with pytest.raises(FileRefused, match="p: no permission"), reading("p"):
        raise PermissionError


def test_digest_is_sha256(tmp_path):
    empty = write_atomic(tmp_path / "e", b"")
    assert file_digest(empty) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
