from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from weightsmith.core.errors import FileRefused, UnknownName
from weightsmith.data.formats.cells import classes_of
from weightsmith.data.formats.table import Table

HEADER = ["label", *(f"lpq{i}" for i in range(1, 6)), *(f"phog{i}" for i in range(1, 6))]


def rows_of(count=20):
    """As the SFEW table: seven classes 1…7, then ten numbers."""
    draw = np.random.default_rng(0)
    return [[i % 7 + 1, *np.round(draw.normal(size=10), 6).tolist()] for i in range(count)]


def csv(tmp_path, rows, name="t.csv"):
    path = tmp_path / name
    path.write_text("\n".join(",".join("" if c is None else str(c) for c in row) for row in rows) + "\n")
    return str(path)


def xlsx(tmp_path, rows):
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    return str(tmp_path / "t.xlsx")


@pytest.mark.parametrize("write", [csv, xlsx])
def test_a_table_of_features_and_classes(tmp_path, write):
    part = Table(write(tmp_path, [HEADER, *rows_of()])).read()["train"]
    assert part.x.dtype == np.float32
    assert np.array_equal(part.x, np.array([row[1:] for row in rows_of()], np.float32))
    assert part.y.tolist() == [i % 7 for i in range(20)]
    assert part.classes == tuple("1234567")
    assert part.notes == ()


@pytest.mark.parametrize("write", [csv, xlsx])
@pytest.mark.parametrize("gap", [None, "NaN", "nan", " NA ", "null"])
def test_rows_with_missing_values_are_dropped_and_reported(tmp_path, write, gap):
    rows = rows_of()
    rows[4][6:] = [gap] * 5
    rows[9][0] = gap
    part = Table(write(tmp_path, [HEADER, *rows])).read()["train"]
    assert len(part.y) == 18
    assert part.notes == (
        "2 of 20 rows left out for missing values: rows 6, 11 (columns phog1, phog2, phog3, phog4, phog5, label)",
    )


def test_the_label_column(tmp_path):
    rows = [["a", "label", "c"], [1, "x", 3], [4, "y", 6]]
    path = csv(tmp_path, rows)
    assert Table(path).read()["train"].classes == ("x", "y")
    assert Table(path, label="c").read()["train"].x.tolist() == [[1, 1, 0], [4, 0, 1]]  # the text is an input then
    other = csv(tmp_path, [["emotion", "c"], ["sad", 3], ["glad", 6]], "o.csv")
    assert Table(other).read()["train"].classes == ("glad", "sad")
    with pytest.raises(UnknownName, match=r"column of o\.csv 'emotoin'; did you mean 'emotion'"):
        Table(other, label="emotoin").read()


def test_a_split_column_divides_and_a_path_column_is_no_input(tmp_path):
    header = ["path", "label", "split", "x"]
    rows = [
        ["a.png", "sad", "test", 1],
        ["b.png", "glad", "train", 2],
        [None, "sad", "train", 3],
        ["d", "sad", "test", ""],
    ]
    parts = Table(csv(tmp_path, [header, *rows])).read()
    assert list(parts) == ["train", "test"]
    assert parts["train"].x.tolist() == [[2], [3]]  # a gap where the path should be takes nothing away
    assert parts["test"].x.tolist() == [[1]]
    assert parts["train"].y.tolist() == [0, 1]
    assert parts["test"].y.tolist() == [1]
    assert parts["train"].classes == parts["test"].classes == ("glad", "sad")
    assert parts["train"].notes == (
        "no inputs: the columns path",
        "1 of 4 rows left out for missing values: row 5 (column x)",
    )


def test_split_and_path_can_be_called_otherwise(tmp_path):
    rows = [["part", "file", "label", "split", "path"], ["test", "f", 0, 0.5, 7], ["train", "g", 1, 0.25, 8]]
    path = csv(tmp_path, rows)
    parts = Table(path, split="part", ignore=("file",)).read()
    assert parts["train"].x.tolist() == [[0.25, 8]]
    assert parts["test"].x.tolist() == [[0.5, 7]]
    whole = Table(path, split="", ignore=("file", "part")).read()
    assert whole["train"].x.tolist() == [[0.5, 7], [0.25, 8]]
    written = Table.parse(f'table:{path},split="",ignore=[file,part]').read()
    assert np.array_equal(written["train"].x, whole["train"].x)
    with pytest.raises(
        FileRefused, match=r"row 2, column split: '0\.5' is not one of train, validation, test .*split=\"\""
    ):
        Table(path, ignore=("file", "part")).read()
    for wrong in ({"split": "fiel"}, {"ignore": ("fiel",)}):
        with pytest.raises(UnknownName, match="did you mean 'file'"):
            Table(path, **wrong).read()


def test_tables_without_a_header(tmp_path):
    numbers = csv(tmp_path, [[1, 0.5], [2, 0.25]])
    assert Table(numbers).read()["train"].x.tolist() == [[0.5], [0.25]]
    mixed = csv(tmp_path, [["sad", 0.5], ["glad", 0.25]], "mixed.csv")
    with pytest.raises(FileRefused, match="give header=yes or header=no"):
        Table(mixed).read()
    assert len(Table(mixed, header="no").read()["train"].y) == 2
    named = csv(tmp_path, [["label", 1, 2], [0, 5, 6], [1, 7, 8]], "named.csv")
    assert Table(named, header="yes").read()["train"].x.tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["label", "x"], [0, 1], [1, "abc"]], "row 3, column x: 'abc' is not a finite number"),
        ([["label", "x"], [0, 1], [1, "inf"]], "row 3, column x: 'inf' is not a finite number"),
        ([["label", "x"], [0, 1], [1, "1e39"]], "row 3, column x: '1e39' is not a finite number"),
        ([["label", "x"], [0, "1,5"]], "row 2 has 3 cells, not 2"),
        ([["label", "x"], [0, 1], [1]], "row 3 has 1 cells, not 2"),
        ([["a", "x"], [0.5, 1]], "the first, 'a', holds numbers with fractions"),
        ([["label", "x", "x"], [0, 1, 2]], "column 2 has the same name as another, 'x'"),
        ([["label", "x"]], "has 0 complete rows"),
        ([["label", "x"], [0, "nan"]], "has 0 complete rows"),
        ([["label"], [0]], "0 input columns"),
        ([], "holds no rows"),
    ],
)
def test_damaged_tables_are_named_by_row_and_column(tmp_path, rows, message):
    with pytest.raises(FileRefused, match=None) as caught:
        Table(csv(tmp_path, rows)).read()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_excel_cells_that_are_not_numbers(tmp_path):
    from datetime import datetime

    with pytest.raises(FileRefused, match=r"row 2, column x: datetime"):
        Table(xlsx(tmp_path, [["label", "x"], [0, datetime(2020, 1, 1)]])).read()
    with pytest.raises(FileRefused, match=r"row 2, column x: True"):
        Table(xlsx(tmp_path, [["label", "x"], [0, True]])).read()


def test_numpy_archives(tmp_path):
    x = np.arange(8.0).reshape(4, 2)
    x[1, 1] = np.nan
    np.savez(tmp_path / "t.npz", x=x, y=np.array([3, 3, 7, 3]))
    part = Table(str(tmp_path / "t.npz")).read()["train"]
    assert part.x.tolist() == [[0, 1], [4, 5], [6, 7]]
    assert part.y.tolist() == [0, 1, 0]
    assert part.classes == ("3", "7")
    assert part.notes == ("1 of 4 rows left out for missing values: row 1 (column x)",)
    np.savez(tmp_path / "t.npz", x=x * np.nan, y=np.zeros(4, int))
    with pytest.raises(FileRefused, match="no row of x and y without nan"):
        Table(str(tmp_path / "t.npz")).read()


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileRefused, match=r"use \.csv, \.npz, \.tsv, \.txt, \.xlsx"):
        Table(str(tmp_path / "t.json")).read()


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1))
def test_whole_numbers_are_classes_in_numeric_order(labels):
    y, classes = classes_of([str(n) if n % 2 else float(n) for n in labels], Path("t"))
    assert [int(classes[i]) for i in y] == labels
    assert [int(name) for name in classes] == sorted(set(labels))


@given(st.lists(st.sampled_from(["sad", "glad", "a b", "x1", 3]), min_size=1))
def test_text_labels_are_classes_in_alphabetical_order(labels):
    labels = ["zz", *labels]
    y, classes = classes_of(labels, Path("t"))
    assert [classes[i] for i in y] == [str(label) for label in labels]
    assert list(classes) == sorted({str(label) for label in labels})


@pytest.mark.parametrize(
    ("header", "rows", "label", "note"),
    [
        (["a", "b", "status"], [[1, 2, "ok"], [3, 4, "bad"], [5, 6, "ok"]], "status", "the only column of text"),
        (["kind", "a", "b"], [["ok", 1, 2], ["bad", 3, 4], ["ok", 5, 6]], "kind", "the only column of text"),
        (["colour", "a", "kind"], [["red", 1, "x"], ["blue", 3, "y"], ["red", 5, "x"]], "kind", "the last, of text"),
        (["a", "Class", "b"], [[1.5, 0, 2], [3.5, 1, 4], [5.5, 0, 6]], "Class", "by its name"),
        (["id", "a", "kind"], [[i, i / 3, i % 2] for i in range(8)], "kind", "the first differs in every row"),
        (["kind", "a", "b"], [[i % 2, i / 3, i % 3] for i in range(8)], "kind", "the first column, 'kind'"),
    ],
)
def test_a_label_that_is_not_named_is_guessed_by_its_kind_and_said(tmp_path, header, rows, label, note):
    path = csv(tmp_path, [header, *rows])
    guessed = Table(path).read()["train"]
    named = Table(path, label=label).read()["train"]
    assert guessed.y.tolist() == named.y.tolist()
    assert guessed.x.tolist() == named.x.tolist()
    assert note in guessed.notes[0]
    assert repr(label) in guessed.notes[0]
    assert "label=" in guessed.notes[0]
    assert not any("taken for the label" in line for line in named.notes)


def test_text_columns_become_categories(tmp_path):
    rows = [["label", "colour", "a"], [0, "red", 1], [1, "blue", 2], [0, "red", 3]]
    part = Table(csv(tmp_path, rows)).read()["train"]
    assert part.x.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]
    assert part.notes == ("the text in column 'colour' becomes 2 inputs of 0 and 1: blue, red",)
    with pytest.raises(FileRefused, match=r"row 3, column a: 'x' is not a finite number"):  # a slip, no category
        Table(csv(tmp_path, [["label", "a"], [0, 1], [1, "x"]])).read()
    many = [["label", "name"], *([i % 2, f"n{i}"] for i in range(60))]
    with pytest.raises(FileRefused, match=r"column name holds 60 different texts.*ignore=\[name\]"):
        Table(csv(tmp_path, many)).read()


def test_a_first_column_without_a_name_numbers_the_rows_and_is_no_input(tmp_path):
    path = tmp_path / "pandas.csv"
    path.write_text(",width,kind\n0,1.5,cat\n1,2.5,dog\n2,3.5,cat\n")
    part = Table(str(path)).read()["train"]
    assert part.x.tolist() == [[1.5], [2.5], [3.5]]
    assert part.classes == ("cat", "dog")
    assert "no inputs: the columns column 1" in part.notes


def test_a_column_called_id_is_no_input_if_its_values_all_differ(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,a,b,label\n1,0.5,2,x\n2,0.1,3,y\n3,0.2,4,x\n")
    found = Table(str(path)).read()["train"]
    assert found.x.shape == (3, 2)
    assert "no inputs: the columns id" in found.notes
    path.write_text("id,a,b,label\n1,0.5,2,x\n1,0.1,3,y\n3,0.2,4,x\n")
    assert Table(str(path)).read()["train"].x.shape == (3, 3)


def test_a_sheet_with_an_empty_first_cell_and_merged_header_cells(tmp_path, recwarn):
    path = tmp_path / "sheet.xlsx"
    book = Workbook()
    sheet = book.active
    sheet.append([None, "LPQ", None, None, "Label", "PHOG", None])
    sheet.merge_cells("B1:D1")
    sheet.merge_cells("F1:G1")
    for row in range(6):
        sheet.append([f"image{row}.png", 0.5 + row, 1.5, 2.5, row % 2 + 1, 3.5, 4.5 * row])
    book.save(path)
    part = Table(str(path)).read()["train"]
    assert part.x[1].tolist() == [1.5, 1.5, 2.5, 3.5, 4.5]
    assert part.y.tolist() == [0, 1] * 3
    assert not recwarn.list
    named = Table(str(path), ignore=("LPQ 2", "PHOG 2")).read()["train"]
    assert named.x[1].tolist() == [1.5, 2.5, 3.5]


def test_two_rows_of_names_are_read_together(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("LPQ,,label\nfirst,second,\n1,2,a\n3,4,b\n")
    part = Table(str(path), ignore=("LPQ second",)).read()["train"]
    assert part.x.tolist() == [[1.0], [3.0]]


def test_rows_of_a_group_carry_its_number_and_the_column_is_no_input(tmp_path):
    path = tmp_path / "subjects.csv"
    path.write_text("x,label,subject\n" + "".join(f"{row},{row % 2},s{row // 4}\n" for row in range(24)))
    part = Table(str(path), split_by="subject").read()["train"]
    assert part.x.shape == (24, 1)
    assert part.groups.tolist() == [row // 4 for row in range(24)]
    with pytest.raises(UnknownName, match="unknown column of subjects.csv 'subjct'; did you mean 'subject'"):
        Table(str(path), split_by="subjct").read()


def test_a_guessed_column_with_fractions_is_named_with_the_way_out(tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text("a,b,price\n0.5,1,2.5\n0.25,2,3.5\n0.75,3,4.5\n")
    with pytest.raises(
        FileRefused, match="the first, 'a', holds numbers with fractions; name what to predict: .*label=price"
    ):
        Table(str(path)).read()
