from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.zips import read_directory, read_member


def archive(path: Path, packed: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", packed) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_members_are_where_the_directory_says(tmp_path):
    path = archive(tmp_path / "a.zip", one=b"hello", two=b"world!")
    members = read_directory(path)
    content = path.read_bytes()
    assert {name: content[m.offset : m.offset + m.size] for name, m in members.items()} == {
        "one": b"hello",
        "two": b"world!",
    }
    assert read_member(path, members["two"], 100) == b"world!"
    with pytest.raises(FileRefused, match="more than it can need"):
        read_member(path, members["two"], 3)


def test_packed_members_are_unpacked(tmp_path):
    path = archive(tmp_path / "a.zip", zipfile.ZIP_DEFLATED, one=b"a" * 5000)
    member = read_directory(path)["one"]
    assert not member.stored
    assert member.packed < member.size == 5000
    assert read_member(path, member, 5000) == b"a" * 5000


def test_another_name_before_the_data(tmp_path):
    path = archive(tmp_path / "a.zip", one=b"hello")
    path.write_bytes(path.read_bytes().replace(b"one", b"two", 1))
    with pytest.raises(FileRefused, match="has another name"):
        read_directory(path)


def test_names_that_differ_in_case_only(tmp_path):
    with pytest.raises(FileRefused, match="twice"):
        read_directory(archive(tmp_path / "a.zip", one=b"1", ONE=b"2"))


def central(content: bytes, number: int) -> int:
    offset = -1
    for _ in range(number + 1):
        offset = content.index(b"PK\x01\x02", offset + 1)
    return offset


def patched(path: Path, number: int, offset: int, value: bytes) -> Path:
    content = bytearray(path.read_bytes())
    begin = central(content, number) + offset
    content[begin : begin + len(value)] = value
    path.write_bytes(content)
    return path


def test_members_that_overlap(tmp_path):
    path = archive(tmp_path / "a.zip", one=b"1" * 200, two=b"2" * 200)
    # The second entry becomes a copy of the first under a name of the same length.
    content = bytearray(path.read_bytes())
    first, second = central(content, 0), central(content, 1)
    inner = archive(tmp_path / "inner.zip", two=b"x" * 9).read_bytes()
    content[40:49] = b"y" * 9
    assert inner.startswith(b"PK")
    content[second + 20 : second + 28] = content[first + 20 : first + 28]
    content[second + 42 : second + 46] = struct.pack("<I", 60)
    content[60:90] = content[content.index(b"PK\x03\x04", 10) :][:30]
    content[90:93] = b"two"
    path.write_bytes(content)
    with pytest.raises(FileRefused, match="overlaps"):
        read_directory(path)


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (24, struct.pack("<I", 1 << 30), "claims 1,073,741,824"),  # size unpacked
        (20, struct.pack("<II", 1 << 30, 1 << 30), "cut short|cut-off"),  # both sizes
        (8, b"\x01\x00", "encrypted"),
        (10, b"\x0c\x00", "weight files never have"),  # bzip2
        (42, struct.pack("<I", 1 << 30), "cut-off"),  # where it begins
        (10, struct.pack("<HIIII", 8, 0, 0, 0, 1 << 30), "expands 1,073,741,824× to 1.1 GB"),  # packed to nothing
    ],
)
def test_lies_in_the_directory(offset, value, reason, tmp_path):
    path = patched(archive(tmp_path / "a.zip", one=b"hello", two=b"world"), 0, offset, value)
    with pytest.raises(FileRefused, match=reason):
        read_directory(path)


def test_many_small_members_expand_together(tmp_path):
    block = bytes(60 << 20)
    path = archive(tmp_path / "a.zip", zipfile.ZIP_DEFLATED, **{f"m{i}": block for i in range(2)})
    with pytest.raises(FileRefused, match=r"expands 1,0\d\d×"):
        read_directory(path)


def test_a_directory_of_gigabytes_is_not_read(tmp_path):
    path = archive(tmp_path / "a.zip", one=b"hello")
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\x05\x06")
    content[end + 12 : end + 16] = struct.pack("<I", 3 << 30)
    with path.open("wb") as file:
        file.truncate(5 << 30)
        file.seek(0, 2)
        file.write(content[end:])
    with pytest.raises(FileRefused, match="zip directory claims 3,221 MB"):
        read_directory(path)


@pytest.mark.parametrize("content", [b"PK\x05\x06", b"PK\x03\x04 nothing else", b""])
def test_what_is_no_archive(content, tmp_path):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(FileRefused, match="cut-off zip archive; copy or download it again"):
        read_directory(tmp_path / "a.zip")
