from __future__ import annotations

import numpy as np
import pytest
import torch

import weightsmith as ws
from weightsmith.chain.tailor.rows import divided
from weightsmith.core.errors import DataMismatch
from weightsmith.data.tensors import Data, Split


def rows(first, count):
    """Rows that hold their own numbers, so that it can be seen which is which; classes by turns."""
    number = torch.arange(first, first + count)
    return Split(torch.stack([number, number], dim=1).float(), number % 4)


def numbers(split):
    return set(split.x[:, 0].int().tolist())


TRAIN, VALIDATION, TEST = rows(0, 40), rows(100, 20), rows(200, 30)


def data(**splits):
    return Data("numbered", **splits, classes=("a", "b", "c", "d"))


def test_the_validation_split_chooses_and_the_test_split_judges():
    found = divided(data(train=TRAIN, validation=VALIDATION, test=TEST), test_rows=None, tune_rows=None, seed=0)
    assert numbers(found.choosing.test) == numbers(VALIDATION)
    assert numbers(found.judging.test) == numbers(TEST)
    assert (found.selection.split, found.selection.rows, found.judged.split, found.judged.rows) == (
        "validation", 20, "test", 30,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["test", "validation"])
def test_one_split_is_halved_and_no_row_does_both(name):
    found = divided(data(train=TRAIN, **{name: TEST}), test_rows=None, tune_rows=None, seed=3)
    chosen, judged = numbers(found.choosing.test), numbers(found.judging.test)
    assert not chosen & judged
    assert chosen | judged == numbers(TEST)
    assert (len(chosen), len(judged), found.selection.split, found.judged.split) == (15, 15, name, name)


def test_halves_have_every_class_in_its_share():
    found = divided(data(train=TRAIN, test=rows(200, 40)), test_rows=None, tune_rows=None, seed=1)
    for part in (found.choosing.test, found.judging.test):
        assert torch.bincount(part.y).tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize(("images", "count"), [(4, 4), (15, 15), (1000, 15)])
def test_images_are_as_many_for_each_purpose(images, count):
    found = divided(data(train=TRAIN, test=TEST), test_rows=images, tune_rows=None, seed=0)
    chosen, judged = numbers(found.choosing.test), numbers(found.judging.test)
    assert not chosen & judged
    assert (len(chosen), len(judged)) == (count, count)


def test_nothing_can_be_trained_on_rows_that_choose_or_judge():
    found = divided(data(train=TRAIN, validation=VALIDATION, test=TEST), test_rows=7, tune_rows=None, seed=0)
    for part in (found.choosing, found.judging):
        assert part.validation is None  # training would look at it
        assert numbers(part.train) == numbers(TRAIN)
        assert not numbers(part.train) & numbers(part.test)


def test_the_seed_draws_and_the_digests_tell():
    first, again, other = (
        divided(data(train=TRAIN, test=TEST), test_rows=8, tune_rows=16, seed=seed) for seed in (0, 0, 1)
    )
    assert first.inputs == again.inputs
    assert all(first.inputs[name] != other.inputs[name] for name in ("train", "selection", "judging"))
    assert (first.train.rows, first.train.of) == (16, 40)
    assert np.bincount(first.choosing.train.y).tolist() == [4, 4, 4, 4]


def test_data_by_name_bring_all_their_splits():
    found = divided("digits", test_rows=None, tune_rows=None, seed=0)
    assert (found.selection.rows, found.judged.rows, found.train.rows) == (180, 180, 1437)


@pytest.mark.parametrize("splits", [{"train": TRAIN}, {"test": TEST}])
def test_without_rows_for_each_purpose_it_is_refused(splits):
    with pytest.raises(DataMismatch, match=r"with_test\(0.2\)"):
        divided(data(**splits), test_rows=None, tune_rows=None, seed=0)


def test_a_single_row_cannot_choose_and_judge():
    with pytest.raises(DataMismatch, match="one held-out row"):
        divided(data(train=TRAIN, test=rows(200, 1)), test_rows=None, tune_rows=None, seed=0)


def test_arrays_that_do_not_say_what_they_are_are_training_rows():
    x = np.random.default_rng(0).random((10, 3), np.float32)
    with pytest.raises(DataMismatch, match="only train rows"):
        divided((x, np.arange(10) % 2), test_rows=None, tune_rows=None, seed=0)
    assert ws.DataMismatch is DataMismatch
