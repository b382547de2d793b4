from __future__ import annotations

import zipfile

import pytest
from openpyxl import Workbook

from weightsmith.core.errors import FileRefused, UnknownName
from weightsmith.data.formats.spreadsheets import Row, read_csv, read_xlsx


def csv(tmp_path, text: str | bytes):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_divider_is_the_one_the_first_line_has_most_of(tmp_path, delimiter):
    rows = read_csv(csv(tmp_path, delimiter.join("abc") + "\n" + delimiter.join(["1", "x y", "3"]) + "\n"))
    assert rows == [Row(1, ("a", "b", "c")), Row(2, ("1", "x y", "3"))]


def test_row_numbers_are_those_of_the_file(tmp_path):
    text = '\ufeffa,b\r\n\r\n1,"two\r\nlines"\r\n ,  \r\n3,4'
    assert read_csv(csv(tmp_path, text)) == [Row(1, ("a", "b")), Row(4, ("1", "two\r\nlines")), Row(6, ("3", "4"))]


@pytest.mark.parametrize(
    ("content", "message"), [(b"a,b\n\xff,1", "not UTF-8 text \\(byte 4"), (b'a,b\n"1"x,2\n', "line 2 is not CSV")]
)
def test_what_is_not_csv(tmp_path, content, message):
    with pytest.raises(FileRefused, match=message):
        read_csv(csv(tmp_path, content))


@pytest.fixture
def workbook(tmp_path):
    book = Workbook()
    first = book.active
    first.title = "first"
    first.append(["label", "x"])
    first.append([])
    first.append([1, 2.5, None])
    first.append(["NaN"])
    second = book.create_sheet("second")
    second.append([7])
    path = tmp_path / "t.xlsx"
    book.save(path)
    return path


def test_sheets(workbook):
    assert read_xlsx(workbook) == [Row(1, ("label", "x")), Row(3, (1, 2.5)), Row(4, ("NaN", None))]
    assert read_xlsx(workbook, "second") == [Row(1, (7,))]
    with pytest.raises(UnknownName, match=r"sheet of t\.xlsx 'secnd'; did you mean 'second'"):
        read_xlsx(workbook, "secnd")


def rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: {},
        lambda m: {k: v for k, v in m.items() if k != "xl/workbook.xml"},
        lambda m: {k: v[: len(v) // 2] for k, v in m.items()},
        lambda m: m | {"xl/worksheets/sheet1.xml": b"<worksheet><sheetData><row><c t='n'><v>x</v></c></row>"},
    ],
)
def test_damaged_workbooks(workbook, change):
    rewritten(workbook, change)
    with pytest.raises(FileRefused, match="is not a readable workbook"):
        read_xlsx(workbook)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(workbook, monkeypatch):
    from weightsmith.data import arrays

    monkeypatch.setattr(arrays, "LIMIT", 1_000_000)
    rewritten(workbook, lambda m: m | {"xl/worksheets/sheet1.xml": bytes(3_000_000)})
    assert workbook.stat().st_size < 20_000
    with pytest.raises(FileRefused, match="the workbook, unpacked, would take"):
        read_xlsx(workbook)


def test_expanding_entities_do_not_expand(workbook):
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "lol"}">' for i in range(12))
    cell = '<row><c t="str"><v>&e11;</v></c></row>'
    bomb = f"<!DOCTYPE w [{entities}]><worksheet><sheetData>{cell}</sheetData></worksheet>"
    rewritten(workbook, lambda m: m | {"xl/worksheets/sheet1.xml": bomb.encode()})
    with pytest.raises(FileRefused, match="is not a readable workbook"):
        read_xlsx(workbook)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"label,x\n1,2\n"])
def test_what_is_no_workbook(tmp_path, content):
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(FileRefused, match="is not a readable workbook"):
        read_xlsx(tmp_path / "t.xlsx")


def test_missing_files(tmp_path):
    for read in (read_csv, read_xlsx):
        with pytest.raises(FileRefused, match="no such file"):
            read(tmp_path / "nothing")
