from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.ranges import file_size, inside, read_bytes, read_json, read_tensor, shown


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "f").write_bytes(bytes(range(16)))
    return tmp_path / "f"


def test_a_range_is_read_whole_or_not_at_all(file):
    assert read_bytes(file, 3, 2) == b"\x03\x04"
    assert read_bytes(file, 14) == b"\x0e\x0f"
    for offset, size in ((15, 2), (17, 0), (-1, 2), (0, -1)):
        with pytest.raises(FileRefused, match="cut short"):
            read_bytes(file, offset, size)


def test_values_are_read_as_they_lie(file):
    assert read_tensor(file, 4, (2, 1), torch.int16).tolist() == [[0x0504], [0x0706]]
    assert read_tensor(file, 0, (2,), torch.bfloat16).dtype == torch.bfloat16
    assert read_tensor(file, 16, (0, 3), torch.float32).shape == (0, 3)
    with pytest.raises(FileRefused, match="cut short"):
        read_tensor(file, 0, (1 << 50,), torch.float64)


def test_only_plain_files_have_a_size(tmp_path, file):
    os.mkfifo(tmp_path / "pipe")
    assert file_size(file) == 16
    for path, reason in ((tmp_path, "folder"), (tmp_path / "pipe", "pipe"), (tmp_path / "no", "no such file")):
        with pytest.raises(FileRefused, match=reason):
            file_size(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "its index is not JSON"),
        (b"\xff\xfe", "its index is not JSON"),
        (b'{"a": 1, "a": 2}', "its index names 'a' twice"),
        (b"[" * 50_000, "its index is nested too deeply"),
        (b'{"a":' * 50_000, "its index is nested too deeply"),
    ],
)
def test_json_that_is_refused(text, reason, file):
    with pytest.raises(FileRefused, match=reason):
        read_json(file, text, "its index")


def test_json_of_a_file(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [1, 2.5]}')
    assert read_json(tmp_path / "x.json") == {"a": [1, 2.5]}


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "", "a\0b", "..\\x", "x/.."])
def test_names_that_lead_out(name, tmp_path):
    with pytest.raises(FileRefused, match="outside its folder") as caught:
        inside(tmp_path, name, tmp_path / "index.json")
    assert caught.value.path == str(tmp_path / "index.json")


def test_links_that_lead_out(tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (folder / "away").symlink_to(tmp_path / "other")
    (folder / "within").symlink_to(folder / "sub")
    assert inside(folder, "within/x", folder) == folder / "within/x"
    assert inside(folder, "sub/x", folder) == folder / "sub/x"
    with pytest.raises(FileRefused, match="link that leads outside"):
        inside(folder, "away/x", folder)


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(FileRefused, match="cannot be resolved"):
        inside(tmp_path, "a", tmp_path)


def test_only_the_blobs_beside_the_snapshots_are_open(tmp_path):
    folder = tmp_path / "snapshots" / "abc"
    folder.mkdir(parents=True)
    for name in ("blobs", "secrets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").write_text("x")
        (folder / name).symlink_to(tmp_path / name / "1")
    assert inside(folder, "blobs", folder).read_text() == "x"
    with pytest.raises(FileRefused, match="link"):
        inside(folder, "secrets", folder)


def test_names_are_shown_on_one_line():
    assert shown("plain") == "'plain'"
    assert shown("a\nb\x1b[0m") == r"'a\nb\x1b[0m'"
    assert len(shown("x" * 1000)) < 120
    assert shown(b"\x00P") == r"b'\x00P'"
