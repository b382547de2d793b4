from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weightsmith.core.errors import FileRefused
from weightsmith.data.datasets import load
from weightsmith.data.formats.cells import as_float, is_missing, target_arrays, whole_number
from weightsmith.data.formats.table import Table

HERE = Path("t.csv")


def read(tmp_path, text, **options):
    (tmp_path / "t.csv").write_text(text)
    return Table(str(tmp_path / "t.csv"), **options).read()["train"]


def test_cells():
    assert [as_float("1.5"), as_float("a"), whole_number("3.0"), whole_number("3.5")] == [1.5, None, 3, None]
    assert [is_missing(cell) for cell in ("", " NA ", float("nan"), 0, "0")] == [True, True, True, False, False]


HOUSES = "rooms,price,y\n1,100.5,2\n2,200.25,3\n3,310,4\n"


@pytest.mark.parametrize(
    ("options", "values", "names"),
    [
        ({"label": "price"}, [[100.5], [200.25], [310]], ("price",)),
        ({"task": "regression"}, [[2], [3], [4]], ("y",)),
        ({"targets": ("price", "y")}, [[100.5, 2], [200.25, 3], [310, 4]], ("price", "y")),
    ],
)
def test_numbers_with_fractions_are_values_and_that_is_said(tmp_path, options, values, names):
    part = read(tmp_path, HOUSES, **options)
    assert part.y.dtype == np.float32
    assert part.y.tolist() == values
    assert part.classes == names
    assert any("is predicted" in note for note in part.notes)
    assert part.x.shape == (3, 3 - len(names))


def test_what_was_only_guessed_is_no_value(tmp_path):
    text = "a,b\n0.5,1.5\n1.5,2.5\n"
    with pytest.raises(
        FileRefused, match=r"the first, 'a', holds numbers with fractions; name what to predict: .*,label=b"
    ):
        read(tmp_path, text)
    assert read(tmp_path, text, task="regression").classes == ("b",)  # the last


def test_labels_of_several_columns_and_binary(tmp_path):
    part = read(tmp_path, "a,rain,fog\n1,0,1\n2,1,1\n", targets=("rain", "fog"))
    assert part.y.dtype == np.bool_
    assert part.y.tolist() == [[False, True], [True, True]]
    sick = read(tmp_path, "a,label\n1,well\n2,sick\n3,well\n", task="binary")
    assert (sick.y.tolist(), sick.classes) == ([[True], [False], [True]], ("well",))
    assert sick.notes == ("an output above 0 means well, else sick",)


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({"task": "binary"}, "a,label\n1,x\n2,y\n3,z\n", "needs two classes, but there are 3"),
        ({"task": "multi-label"}, "a,label\n1,0\n2,1\n", r"several columns: targets=\[label,…\]"),
        ({"task": "multi-label", "targets": ("b", "c")}, "a,b,c\n1,0,2\n2,1,0\n", "labels are 0 or 1"),
        ({"task": "classification", "label": "b"}, "a,b\n1,0.5\n2,1.5\n", "'0.5' is not a class"),
        ({"targets": ("b",), "task": "regression"}, "a,b\n1,x\n2,1\n", "row 2, column b: 'x' is not a finite number"),
    ],
)
def test_targets_that_do_not_fit_the_task_are_refused(tmp_path, options, text, message):
    with pytest.raises(FileRefused, match=message):
        read(tmp_path, text, **options)


def test_many_whole_numbers_may_be_a_quantity():
    notes = target_arrays(HERE, np.arange(101), tuple(map(str, range(101))), "auto").notes
    assert "task=regression if it is a quantity" in notes[0]
    assert not target_arrays(HERE, np.arange(101), tuple(map(str, range(101))), "classification").notes


def test_weights_are_a_column_that_is_no_input(tmp_path):
    text = "a,w,label,split\n1,2,x,train\n2,0.5,y,train\n3,1,x,test\n"
    (tmp_path / "t.csv").write_text(text)
    data = load(Table(str(tmp_path / "t.csv"), weights="w"))
    assert data.train.weights.tolist() == [2, 0.5]
    assert data.test.weights.tolist() == [1]
    assert data.input_shape == (1,)


@pytest.mark.parametrize(
    ("x", "y", "kind"),
    [
        (np.zeros((4, 2)), np.array([0.5, 1, 2, 3]), "regression"),
        (np.zeros((4, 2)), np.array([[0, 1], [1, 1], [0, 0], [1, 0]]), "multi-label"),
        (np.zeros((4, 5, 2)), np.array([True, False, True, True]), "multi-label"),
        (np.arange(8).reshape(4, 2), np.array([0, 1, 1, 0]), "classification"),
    ],
)
def test_numpy_archives_bring_their_kind(tmp_path, x, y, kind):
    np.savez(tmp_path / "t.npz", x=x, y=y)
    data = load(tmp_path / "t.npz")
    assert data.kind.value == kind
    assert data.input_shape == x.shape[1:]
