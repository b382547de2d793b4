from __future__ import annotations

import numpy as np
import pytest
import torch

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.data.tensors import Data, Split


def split(n: int = 12, classes: int = 3) -> Split:
    return Split(torch.arange(n * 2).float().view(n, 2), torch.arange(n) % classes)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(3, 2, 2).byte(), torch.zeros(3, dtype=torch.int64), r"x\[:, None\]"),
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), r"float32 \(0, 2\)"),
        (torch.zeros(3, 2, dtype=torch.int32), torch.zeros(3, dtype=torch.int64), "int32"),
        (torch.zeros(3, 2), torch.zeros(3), "float32"),
        (torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64), "3 inputs need an int64 label"),
        (torch.zeros(3, 2), torch.tensor([0, -1, 2]), "not -1"),
    ],
)
def test_a_split_that_cannot_be(x, y, message):
    with pytest.raises(DataMismatch, match=message):
        Split(x, y)


def test_take_keeps_the_order_asked_for():
    taken = split().take([5, 1])
    assert taken.y.tolist() == [2, 1]
    assert taken.x.tolist() == [[10.0, 11.0], [2.0, 3.0]]
    assert len(split().take(slice(0, 4))) == 4
    assert split().take(np.array([0])).x.tolist() == [[0.0, 1.0]]


def test_digest_sees_values_types_and_shapes():
    base = split()
    assert base.digest() == split().digest()
    changed = base.x.clone()
    changed[3, 1] += 1
    others = [Split(changed, base.y), Split(base.x.double(), base.y), Split(base.x, (base.y + 1) % 3)]
    images = Split(base.x.view(12, 1, 1, 2), base.y)
    assert len({part.digest() for part in (base, *others, images)}) == 5


def test_data_digest_does_not_depend_on_where_it_came_from():
    one = Data("a", train=split(), classes=("x", "y", "z"), origin="here", notes=("n",))
    assert one.digest() == Data("b", train=split(), classes=("x", "y", "z")).digest()
    assert one.digest() != Data("a", test=split(), classes=("x", "y", "z")).digest()
    assert one.digest() != Data("a", train=split(), classes=("x", "y", "w")).digest()


def test_splits_by_name():
    data = Data("toy", train=split(), test=split(6))
    assert data.split("test") is data.test
    assert data.input_shape == (2,)
    assert list(data.splits) == ["train", "test"]
    with pytest.raises(UsageError, match=r"toy has no validation split here, only train, test; make one with with_val"):
        data.split("validation")
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        data.split("trian")


def test_data_whose_parts_do_not_fit():
    with pytest.raises(UsageError, match="at least one split"):
        Data("toy")
    with pytest.raises(DataMismatch, match=r"test inputs have shape \(3,\), others \(2,\)"):
        Data("toy", train=split(), test=Split(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)))
    with pytest.raises(DataMismatch, match="label 2, but there are 2 classes"):
        Data("toy", train=split(), classes=("a", "b"))


@pytest.mark.parametrize("name", ["validation", "test"])
def test_rows_moved_into_another_split(name):
    data = Data("toy", train=split(), classes=("a", "b", "c"))
    moved = getattr(data, f"with_{name}")(0.25, seed=4)
    assert (len(moved.train), len(moved.split(name))) == (9, 3)
    assert moved.split(name).y.bincount().tolist() == [1, 1, 1]
    together = torch.cat([moved.train.x, moved.split(name).x])
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, data.train.x.tolist()))
    assert moved.notes == (f"{name} split: 3 of 12 training rows, stratified, seed 4",)
    assert len(data.train) == 12
    assert moved.digest() == getattr(data, f"with_{name}")(0.25, seed=4).digest()
    with pytest.raises(UsageError, match="already"):
        getattr(moved, f"with_{name}")(0.25)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5])
def test_fractions_that_make_no_split(fraction):
    with pytest.raises(UsageError, match="between 0 and 1"):
        Data("toy", train=split()).with_validation(fraction)


def test_repr_is_short():
    assert repr(Data("toy", train=split(), test=split(6))) == "Data('toy', train 12, test 6, input (2,), 0 classes)"
    assert repr(split()) == "Split(12 × (2,) torch.float32)"
