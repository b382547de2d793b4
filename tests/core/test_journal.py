from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.journal import Journal, claimed, read_journal
from weightsmith.core.records import digest_of

CALL = {"function": "train", "settings": [{"rate": 0.1}, {"rate": 1}], "seed": 0, "versions": {"torch": "2.13.0"}}
ROWS = {"a": {"loss": 0.1 + 0.2}, "é": [1, None, "x\ny"], "c": True}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "journal.jsonl"


@pytest.fixture
def written(path):
    with Journal(path, CALL) as journal:
        for key, value in ROWS.items():
            journal.append(key, value, seconds=1.5)
    return path


def test_a_new_journal_holds_its_call_and_nothing_else(path):
    with Journal(path, CALL) as journal:
        assert len(journal) == 0
    (line,) = path.read_text().splitlines()
    row = json.loads(line)
    assert row["call"] == CALL
    assert row["digest"] == digest_of(line.rpartition(', "digest"')[0])
    assert [file.name for file in path.parent.iterdir()] == ["journal.jsonl"]


def test_rows_are_there_again(written):
    with Journal(written, CALL) as journal:
        assert dict(journal) == ROWS
        assert list(journal) == list(ROWS)
        assert journal.seconds("a") == 1.5
        journal.append("d", 4, seconds=2)
        assert journal["d"] == 4
    content = read_journal(written)
    assert (content.call, content.values) == (CALL, {**ROWS, "d": 4})
    assert content.seconds["d"] == 2.0


def test_each_digest_is_chained_over_the_one_before(written):
    before = ""
    for line in written.read_text().splitlines():
        digest = json.loads(line)["digest"]
        assert digest == digest_of(before + line.rpartition(', "digest"')[0])
        before = digest


def test_a_fresh_value_reads_like_a_resumed_one(path):
    with Journal(path, CALL) as journal:
        journal.append("a", {"pair": (1, 2.0)}, seconds=0)
        fresh = journal["a"]
    with Journal(path, CALL) as journal:
        assert journal["a"] == fresh == {"pair": [1, 2.0]}


def test_every_append_reaches_the_disk_before_it_returns(path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    with Journal(path, CALL) as journal:
        synced.clear()
        journal.append("a", 1, seconds=0)
        assert synced == [path.stat().st_size]


# Kill and damage


def test_cut_at_any_byte_it_resumes_or_is_refused(written, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # hundreds of journals: nothing here depends on the disk
    whole = written.read_bytes()
    header = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        written.write_bytes(whole[:cut])
        if cut < header:
            with pytest.raises(FileRefused, match=r"journal\.jsonl: (line 1 is not|is empty)"):
                Journal(written, CALL)
            continue
        finished = whole[:cut].count(b"\n") - 1
        with Journal(written, CALL) as journal:
            assert dict(journal) == dict(list(ROWS.items())[:finished])
            for key, value in list(ROWS.items())[finished:]:
                journal.append(key, value, seconds=1.5)
        assert written.read_bytes() == whole


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])  # 7: a bit or two of each byte
def test_a_flipped_bit_anywhere_is_refused(written, stride):
    whole = written.read_bytes()
    for offset, bit in [divmod(number, 8) for number in range(0, 8 * len(whole), stride)]:
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << bit
        written.write_bytes(damaged)
        with pytest.raises(FileRefused, match=r"journal\.jsonl: line \d"):
            read_journal(written)
        if offset % 50 == 0:  # opening goes through the same check, and leaves the damaged file as it is
            with pytest.raises(FileRefused, match=r"journal\.jsonl: line \d"):
                Journal(written, CALL)
            assert written.read_bytes() == damaged


@pytest.mark.parametrize("number", [2, 3, 4])
def test_the_damaged_line_is_named(written, number):
    lines = written.read_text().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace("1.5", "1.4")
    written.write_text("".join(lines))
    with pytest.raises(FileRefused, match=f"line {number} is damaged: it does not match its digest"):
        Journal(written, CALL)


def test_rows_cannot_change_places_or_be_left_out(written):
    head, a, b, c = written.read_text().splitlines(keepends=True)
    for lines in ([head, b, a, c], [head, b, c], [head, a, a, b, c]):
        written.write_text("".join(lines))
        with pytest.raises(FileRefused, match=r"line \d is damaged"):
            Journal(written, CALL)


@pytest.mark.parametrize("text", ["", "\n", "[]\n", "{}\n", '{"digest": 1}\n', "x" * 100, "\0" * 50, '{"a": NaN}\n'])
def test_other_files_are_refused(path, text):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(FileRefused, match=r"journal\.jsonl"):
        Journal(path, CALL)
    assert path.read_text() == text
    assert [file.name for file in path.parent.iterdir()] == ["journal.jsonl"]


@pytest.mark.parametrize(
    "body", ['{"journal": 2, "call": {}', '{"journal": 1, "calls": {}', '{"journal": 1, "call": NaN']
)
def test_a_header_of_another_kind_is_refused_even_with_a_right_digest(path, body):
    path.parent.mkdir()
    path.write_text(f'{body}, "digest": "{digest_of(body)}"}}\n')
    with pytest.raises(FileRefused, match="format 1|does not match"):
        Journal(path, {})


def test_a_folder_or_no_file_is_refused(tmp_path):
    with pytest.raises(FileRefused, match="is a folder"):
        Journal(tmp_path, CALL)
    with pytest.raises(FileRefused, match="no such file"):
        read_journal(tmp_path / "none.jsonl")


def test_a_full_disk_leaves_a_journal_that_goes_on(written, monkeypatch):
    before = written.read_bytes()
    with Journal(written, CALL) as journal:
        with monkeypatch.context() as patch:

            def full(handle):
                raise OSError(errno.ENOSPC, "No space left on device")

            patch.setattr(os, "fsync", full)
            with pytest.raises(FileRefused, match=r"cannot be written \(No space left on device\)"):
                journal.append("d", 4, seconds=0)
        assert "d" not in journal
        assert written.read_bytes() == before
        journal.append("d", 4, seconds=0)
    assert read_journal(written).values == {**ROWS, "d": 4}


# Wrong use


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "seed is 0 in the journal and 1 in this call"),
        ({"seed": False}, "seed is 0 in the journal and False in this call"),
        ({"versions": {"torch": "3"}}, "versions.torch is '2.13.0' in the journal and '3' in this call"),
        ({"versions": {}}, "versions.torch is only in the journal"),
        ({"more": 1}, "more is only in this call"),
        ({"settings": [{"rate": 0.1}]}, "settings has 2 values in the journal and 1 in this call"),
        ({"settings": [{"rate": 0.1}, {"rate": 2}]}, r"settings\[1\].rate is 1 in the journal and 2 in this call"),
    ],
)
def test_another_call_is_refused_with_the_difference_and_the_way_out(written, change, words):
    before = written.read_bytes()
    with pytest.raises(UsageError, match=rf"another call \({words}\); use another folder") as caught:
        Journal(written, {**CALL, **change})
    assert "\n" not in str(caught.value)
    assert written.read_bytes() == before
    Journal(written, CALL).close()  # and nothing stays locked


def test_wrong_rows_are_refused_before_anything_is_written(written):
    before = written.read_bytes()
    with Journal(written, CALL) as journal:
        with pytest.raises(UsageError, match="'a' is in the journal already"):
            journal.append("a", 1, seconds=0)
        with pytest.raises(UsageError, match="'n' cannot be written as JSON"):
            journal.append("n", float("nan"), seconds=0)
        with pytest.raises(UsageError, match="'o' cannot be written as JSON"):
            journal.append("o", object(), seconds=0)
    with pytest.raises(UsageError, match="the journal is closed"):
        journal.append("z", 1, seconds=0)
    journal.close()
    assert written.read_bytes() == before


def test_a_second_opening_is_refused(written):
    with Journal(written, CALL), pytest.raises(UsageError, match="is in use by another process"):
        Journal(written, CALL)
    Journal(written, CALL).close()


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(written):
    script = f"""
import time
from weightsmith.core.journal import Journal
journal = Journal({str(written)!r}, {CALL!r})
print("open", flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(UsageError, match="is in use by another process"):
            Journal(written, CALL)
    finally:
        holder.kill()
        holder.communicate()
    with Journal(written, CALL) as journal:
        assert dict(journal) == ROWS


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_like_one_that_was_not(path):
    script = f"""
import time
from weightsmith.core.journal import Journal
with Journal({str(path)!r}, {CALL!r}) as journal:
    for number in range(400):
        if str(number) not in journal:
            journal.append(str(number), number / 7, seconds=0.5)
            time.sleep(0.002)
"""
    kills = 0
    for delay in (0.03, 0.2, 0.1, 60, 60):
        child = subprocess.Popen([sys.executable, "-c", script])
        try:
            size = path.stat().st_size if path.exists() else 0
            while child.poll() is None and not (path.exists() and path.stat().st_size > size):
                time.sleep(0.001)
            child.wait(timeout=delay)
            break
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            kills += 1
        finally:
            child.kill()
            child.wait()
    assert kills == 3
    interrupted = path.read_bytes()
    path.unlink()
    with Journal(path, CALL) as journal:
        for number in range(400):
            journal.append(str(number), number / 7, seconds=0.5)
    assert interrupted == path.read_bytes()


def test_a_folder_without_a_journal_is_held_too(tmp_path):
    with claimed(tmp_path / "new"):
        with pytest.raises(UsageError, match="in use by another process"), claimed(tmp_path / "new"):
            pass
        with pytest.raises(UsageError, match="in use by another process"):
            Journal(tmp_path / "new" / "journal.jsonl", CALL)
        with claimed(tmp_path / "new", "page.html"):  # one file in it is another matter
            pass
    assert not (tmp_path / "new").exists()  # nothing was written to it
    (tmp_path / "old").mkdir()
    with claimed(tmp_path / "old"):
        pass
    assert (tmp_path / "old").exists()
