from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.data.splits import group_folds, group_split, stratified_folds, stratified_split

labels = st.lists(st.integers(0, 5), min_size=2, max_size=80)
seeds = st.integers(0, 2**40)


@given(labels, seeds, st.data())
def test_two_parts_have_exact_totals_and_class_shares_rounded(y, seed, data):
    y = np.array(y)
    size = data.draw(st.integers(1, len(y) - 1))
    kept, moved = stratified_split(y, (len(y) - size, size), seed)
    assert (len(kept), len(moved)) == (len(y) - size, size)
    assert sorted([*kept, *moved]) == list(range(len(y)))
    assert list(kept) == sorted(kept)
    for c in np.unique(y):
        exact = (y == c).sum() * size / len(y)
        assert np.floor(exact) <= (y[moved] == c).sum() <= np.ceil(exact)


@given(labels.filter(lambda y: len(y) >= 12), seeds)
def test_three_parts_cover_every_row_once_and_keep_close_to_the_shares(y, seed):
    y = np.array(y)
    parts = stratified_split(y, (0.5, 0.3, 0.2), seed)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    for part in parts:
        for c in np.unique(y):
            assert abs((y[part] == c).sum() - (y == c).sum() * len(part) / len(y)) < 2


@given(labels, seeds, st.data())
def test_folds_are_even_in_size_and_in_every_class(y, seed, data):
    y = np.array(y)
    k = data.draw(st.integers(2, min(10, len(y))))
    folds = stratified_folds(y, k, seed)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(len(y)))
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(len(y)))
    counts = [[(y[fold.test] == c).sum() for fold in folds] for c in np.unique(y)]
    assert all(max(row) - min(row) <= 1 for row in [*counts, [len(fold.test) for fold in folds]])


def test_the_seed_decides_and_nothing_else():
    y = np.arange(100) % 4
    before = np.random.get_state()[1].copy()
    one, again, other = (stratified_split(y, (0.7, 0.3), seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert np.array_equal(before, np.random.get_state()[1])
    assert np.array_equal(one, stratified_split(torch.from_numpy(y), (0.7, 0.3), 1)[1])


def test_rows_of_a_class_are_drawn_at_random():
    """Over many seeds each row is in the test part about a fifth of the time."""
    y = np.zeros(20, int)
    hits = np.zeros(20)
    for seed in range(400):
        hits[stratified_split(y, (16, 4), seed)[1]] += 1
    assert hits.min() > 40 and hits.max() < 120  # mean 80, sd 8  # noqa: PT018


def test_the_courses_split_of_fashion_mnist():
    kept, moved = stratified_split(np.repeat(np.arange(10), 6000), (0.7, 0.3))
    assert (len(kept), len(moved)) == (42_000, 18_000)
    assert np.bincount(moved // 6000).tolist() == [1800] * 10


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((5, 4), "sum to 9"),
        ((0.5, 0.4), "sum to 0.9"),
        ((float("nan"), 0.5), "sum to nan"),
        ((1.5, -0.5), "empty"),
        ((0.999, 0.001), "empty"),
        ((10, 0), "empty"),
        ((), "sum to 0"),
    ],
)
def test_sizes_that_do_not_fit_are_named(sizes, message):
    with pytest.raises(UsageError, match=message):
        stratified_split(np.zeros(10, int), sizes)


@pytest.mark.parametrize("k", [1, 11, 0, -3])
def test_folds_that_cannot_be(k):
    with pytest.raises(UsageError, match=f"into {k} folds"):
        stratified_folds(np.zeros(10, int), k)


def test_labels_must_be_a_row():
    with pytest.raises(UsageError, match="shape"):
        stratified_folds(np.zeros((3, 2)), 2)
    with pytest.raises(UsageError, match="shape"):
        stratified_split([], (1, 1))


@given(st.integers(2, 5), st.integers(0, 100), st.integers(5, 40))
def test_groups_are_never_divided_and_every_row_is_in_one_part(parts, seed, count):
    draw = np.random.default_rng(seed)
    groups = draw.integers(0, count, 200)
    labels = draw.integers(0, 3, 200)
    found = group_split(labels, groups, [1 / parts] * parts, seed)
    assert np.sort(np.concatenate(found)).tolist() == list(range(200))
    assert all(len(part) for part in found)
    seen = [set(groups[part]) for part in found]
    assert sum(map(len, seen)) == len(set(groups))


def test_groups_of_one_row_are_split_as_evenly_as_rows():
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    small, large = group_split(labels, np.arange(100), (0.2, 0.8))
    assert np.bincount(labels[small]).tolist() == [12, 6, 2]
    assert len(large) == 80


def test_folds_by_group_test_every_row_once():
    groups = np.repeat(np.arange(10), 7)
    folds = group_folds(np.arange(70) % 2, groups, 5)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(70))
    assert all(not set(groups[fold.train]) & set(groups[fold.test]) for fold in folds)
    with pytest.raises(UsageError, match="2 group"):
        group_folds([0, 1, 0], [0, 0, 1], 3)
