from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats import archives
from weightsmith.data.formats.archives import is_archive, read_members, unzipped

CONTENT = {"one": b"1" * 700, "two": b"2" * 512, "three": b""}


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar", "a.tgz"])
def test_members_are_read_by_their_last_name(tar, name):
    path = tar(CONTENT, name, folder="deep/er/")
    assert is_archive(path)
    assert read_members(path, {"one", "two", "missing"}, 1000) == {"one": CONTENT["one"], "two": CONTENT["two"]}


def test_a_folder_is_read_in_the_same_way(files):
    assert read_members(files(CONTENT), {"one", "three", "missing"}, 1000) == {"one": CONTENT["one"], "three": b""}
    with pytest.raises(FileRefused, match="the file claims 700 bytes"):
        read_members(files(CONTENT), {"one"}, 699)


def test_nothing_is_written_and_no_path_is_followed(tar, tmp_path):
    path = tar({"one": b"mine"}, folder="../../../etc/")
    before = sorted(tmp_path.rglob("*"))
    assert read_members(path, {"one"}, 10) == {"one": b"mine"}
    assert sorted(tmp_path.rglob("*")) == before


def test_links_and_devices_are_passed_over(tmp_path):
    path = tmp_path / "a.tar"
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("one")
            info.type, info.linkname = kind, str(secret)
            archive.addfile(info)
    assert read_members(path, {"one"}, 10) == {}


def test_a_huge_member_is_refused_before_it_is_read(tmp_path):
    """Its content is not even there: only the header claims it."""
    path = tmp_path / "a.tar.gz"
    info = tarfile.TarInfo("unwanted")
    info.size = 8 << 30
    with gzip.open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(2000))
    tracemalloc.start()
    with pytest.raises(FileRefused, match=r"member 'unwanted' claims 8,589,934,592 bytes; the limit is 1,000"):
        read_members(path, {"one"}, 1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
def test_a_huge_extended_header_is_refused(tmp_path, kind):
    """tarfile reads these whole, whatever size they claim."""
    path = tmp_path / "a.tar.gz"
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, 1 << 30
    with gzip.open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(5000))
    with pytest.raises(FileRefused, match="claims 1,073,741,[0-9]+ bytes in one piece"):
        read_members(path, {"one"}, 1000)


def test_a_negative_size_does_not_loop_for_ever(tmp_path):
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("one")
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[124:136] = b"\xff" * 10 + (-1024).to_bytes(2, "big", signed=True)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    path.write_bytes(bytes(head) + bytes(2048))
    with pytest.raises(FileRefused):
        read_members(path, {"one"}, 1000)


def test_many_members_are_refused(tar, monkeypatch):
    monkeypatch.setattr(archives, "_MOST_MEMBERS", 5)
    with pytest.raises(FileRefused, match="more than 5 members"):
        read_members(tar({str(i): b"" for i in range(6)}), {"one"}, 1000)


def test_a_name_twice_is_refused(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for folder in ("a", "b"):
            archive.addfile(tarfile.TarInfo(f"{folder}/one"), io.BytesIO())
    with pytest.raises(FileRefused, match="'one' twice"):
        read_members(path, {"one"}, 1000)


@pytest.mark.parametrize("cut", [20, 150, 600])
def test_cut_short_archives_are_refused(tar, cut):
    path = tar({"one": bytes(range(256)) * 3}, "a.tar")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FileRefused, match="damaged or cut short|is cut short"):
        read_members(path, {"one"}, 1000)


@pytest.mark.parametrize("damage", [lambda b: b[:-2000], lambda b: b[:2000] + b"?" + b[2001:], lambda b: b[:9]])
def test_damaged_gzip_is_refused(tar, damage):
    path = tar({"one": np.random.default_rng(0).bytes(5000)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileRefused, match="damaged or cut short"):
        read_members(path, {"one"}, 10_000)


def test_no_such_archive(tmp_path):
    assert not is_archive(tmp_path / "a.tar.gz")
    with pytest.raises(FileRefused, match="no such file"), unzipped(tmp_path / "a.tar.gz"):
        pass
