from __future__ import annotations

import numpy as np
import torch

import weightsmith as ws
from weightsmith.data.judging import draw_rows


def test_rows_are_drawn_by_the_seed_in_their_order():
    whole = draw_rows("digits", None, None, 0).part
    some, same, other = (draw_rows("digits", "test", 40, seed).part for seed in (1, 1, 2))
    assert len(some) == 40
    assert torch.equal(some.x, same.x)
    assert not torch.equal(some.x, other.x)
    places = [int((whole.x == row).flatten(1).all(dim=1).nonzero()[0]) for row in some.x]
    assert places == sorted(places)


def test_without_a_split_it_is_test_or_the_only_one():
    assert draw_rows("digits", None, None, 0).split == "test"
    x, y = np.random.default_rng(0).random((6, 3), np.float32), np.arange(6) % 2
    alone = draw_rows({"train": (x, y)}, None, 100, 0)
    assert (alone.split, len(alone.part)) == ("train", 6)
    assert draw_rows(ws.data.load("digits"), "train", 5, 0).split == "train"
