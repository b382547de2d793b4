"""Valid files of every format of data, damaged: they are read or refused by name, and nothing else happens."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import struct
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook
from PIL import Image

from weightsmith.core.errors import FileRefused
from weightsmith.data.formats.idx import read_idx
from weightsmith.data.formats.npz import read_npz
from weightsmith.data.formats.parquet import ParquetFiles
from weightsmith.data.formats.spreadsheets import read_csv, read_xlsx
from weightsmith.data.formats.unpickle import read_pickle

# What stands in headers and tables, where a flipped bit alone would seldom make sense.
WORDS = (b"-1", b"999999999999", b"(" * 120, b"[", b"'", b'"', b"\\", b"\0", b"<", b"{", b"lambda:", b"O", b"nan", b",")
WORDS += (b'r="1000000000"', b't="d"', b't="s"', b"ZZZZ1")


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.arange(12.0).reshape(6, 2), y=np.array([0, 1, 0, 1, 0, 1]))
    return file.getvalue()


def xlsx() -> bytes:
    book, file = Workbook(), io.BytesIO()
    for row in (["a", "b", "label"], *([n * 1.5, n, "xy"[n % 2]] for n in range(6))):
        book.active.append(row)
    book.save(file)
    return file.getvalue()


def parquet() -> bytes:
    picture, file = io.BytesIO(), io.BytesIO()
    Image.fromarray((np.arange(4 * 4 * 3) % 251).astype(np.uint8).reshape(4, 4, 3)).save(picture, "PNG")
    images = [{"bytes": picture.getvalue(), "path": "a"}] * 3
    pq.write_table(pa.table({"img": pa.array(images), "label": pa.array([0, 1, 1])}), file)
    return file.getvalue()


def read_parquet(path: Path) -> None:
    ParquetFiles(path, {"train": (path,)}, (4, 4), "label", 2).read(["train"])


FORMATS: dict[str, tuple[Callable[[], bytes], Callable[[Path], object]]] = {
    "npz": (npz, read_npz),
    "xlsx": (xlsx, read_xlsx),
    "parquet": (parquet, read_parquet),
    "csv": (lambda: "a;b;ä\n".encode() + b'1.5;"2";x\n' * 6, read_csv),
    "idx": (lambda: gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, 4, 5, 5) + bytes(100)), lambda p: read_idx(p, 3)),
    "pickle": (
        lambda: pickle.dumps({b"labels": [1, 2], b"data": np.arange(6, dtype=np.uint8).reshape(2, 3)}, 2),
        lambda path: read_pickle(path.read_bytes(), path),
    ),
}


def changed(content: bytes, draw: random.Random) -> bytes:
    """Some bytes flipped, cut out, written over or put in."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 5))):
        place = draw.randrange(min(len(made), draw.choice((140, len(content)))) or 1)
        word = draw.choice(WORDS)
        match draw.randrange(5):
            case 0 if made:
                made[place] ^= 1 << draw.randrange(8)
            case 1:
                del made[place : place + draw.choice((1, 4, 40))]
            case 2:
                made[place:place] = word
            case 3:
                made[place : place + len(word)] = word
            case _ if draw.random() < 0.3:
                del made[place:]
    return bytes(made)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """The file changed as a whole, or, if it is an archive, one of its members, packed soundly again."""
    if not content.startswith(b"PK") or draw.random() < 0.4:
        return changed(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name, file = draw.choice(sorted(members)), io.BytesIO()
    members[name] = draw.choice((b"", members[min(members)], *[changed(members[name], draw)] * 6))
    with zipfile.ZipFile(file, "w") as archive:
        for member, held in members.items():
            archive.writestr(member, held)
    return file.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused(kind, tmp_path):
    build, read = FORMATS[kind]
    sound, path, draw, outcomes = build(), tmp_path / f"t.{kind}", random.Random(kind), Counter()
    path.write_bytes(sound)
    read(path)
    for number in range(300):
        path.write_bytes(sound[: number * len(sound) // 60] if number < 60 else damaged(sound, draw))
        try:
            read(path)
            outcomes["read"] += 1
        except FileRefused as error:
            outcomes["refused" if str(path) in str(error) else f"badly told: {error}"] += 1
    assert set(outcomes) == {"read", "refused"}
    assert min(outcomes.values()) > 10


@pytest.mark.parametrize(
    ("method", "flags"), [(99, 0), (14, 0), (12, 0), (0, 1)], ids=["unknown", "lzma", "bzip2", "encrypted"]
)
def test_a_workbook_packed_in_a_strange_way_is_refused(tmp_path, method, flags):
    content = bytearray(xlsx())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        begin = content.find(mark)
        while begin >= 0:
            content[begin + place : begin + place + 4] = struct.pack("<HH", flags, method)
            begin = content.find(mark, begin + 4)
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(FileRefused, match="is not a readable workbook|cannot be read"):
        read_xlsx(tmp_path / "t.xlsx")


def repacked(tmp_path: Path, member: str, old: str, new: str) -> Path:
    with zipfile.ZipFile(io.BytesIO(xlsx())) as archive, zipfile.ZipFile(tmp_path / "t.xlsx", "w") as made:
        for info in archive.infolist():
            text = archive.read(info).decode()
            assert info.filename != member or old in text
            made.writestr(info.filename, text.replace(old, new) if info.filename == member else text)
    return tmp_path / "t.xlsx"


SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize(
    ("member", "old", "new", "said"),
    [
        ("xl/workbook.xml", "sheets>", "moons>", "is a workbook without a sheet"),
        (SHEET, '<row r="7"', '<row r="1000000000"', "has a row beyond 1,048,576"),
        (SHEET, "</sheetData>", "", "is not a readable workbook"),
        (SHEET, 't="n"><v>1.5<', 't="s"><v>99<', "is not a readable workbook"),
    ],
)
def test_what_is_wrong_with_a_workbook_is_said(tmp_path, member, old, new, said):
    with pytest.raises(FileRefused, match=said):
        read_xlsx(repacked(tmp_path, member, old, new))


def test_what_a_sheet_says_of_its_own_size_is_not_believed(tmp_path):
    path = repacked(tmp_path, SHEET, 'ref="A1:C7"', 'ref="A1:A1"')
    assert [len(row.cells) for row in read_xlsx(path)] == [3] * 7


def test_a_member_that_ends_early_is_no_interrupt(tmp_path):
    """Zip answers it with an EOFError, which a command line takes for a key that was pressed."""
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(io.BytesIO(xlsx())) as archive, zipfile.ZipFile(path, "w") as made:
        for info in archive.infolist():
            made.writestr(info.filename, archive.read(info))
    content = bytearray(path.read_bytes())
    last = content.rfind(b"PK\1\2")
    content[last + 20 : last + 28] = struct.pack("<II", 1 << 20, 1 << 20)
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive, pytest.raises(EOFError):
        archive.read(archive.infolist()[-1])
    with pytest.raises(FileRefused, match="is not a readable workbook"):
        read_xlsx(path)
