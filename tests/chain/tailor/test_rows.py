from __future__ import annotations

import pytest
import torch

from weightsmith.chain.tailor.rows import divided
from weightsmith.core.errors import DataMismatch
from weightsmith.data.judging import draw_rows
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


def test_training_rows_are_looked_at_or_select_and_test_rows_judge():
    found = divided(data(train=TRAIN, validation=VALIDATION, test=TEST), rows=1000, test_rows=None, seed=0)
    looked, selection = numbers(found.choosing.train), numbers(found.choosing.test)
    assert (len(looked), len(selection)) == (30, 10)
    assert not looked & selection
    assert looked | selection == numbers(TRAIN)
    assert numbers(found.judging.test) == numbers(TEST)
    assert (found.train.rows, found.selection.rows, found.judged.rows, found.judged.split) == (30, 10, 30, "test")


def test_without_a_test_split_the_validation_rows_judge():
    found = divided(data(train=TRAIN, validation=VALIDATION), rows=20, test_rows=8, seed=0)
    assert found.judged.split == "validation"
    assert len(found.judging.test) == 8
    assert torch.equal(found.judging.test.x, draw_rows(data(validation=VALIDATION), "validation", 8, 0).part.x)
    assert (found.train.rows, found.selection.rows, found.train.of) == (15, 5, 40)


def test_the_seed_draws_the_rows():
    drawn = [divided(data(train=TRAIN, test=TEST), rows=12, test_rows=None, seed=seed).inputs for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("splits", [{"train": TRAIN}, {"test": TEST}, {"train": rows(0, 4), "test": TEST}])
def test_too_little_is_refused_by_name(splits):
    with pytest.raises(DataMismatch, match="numbered"):
        divided(data(**splits), rows=100, test_rows=None, seed=0)
