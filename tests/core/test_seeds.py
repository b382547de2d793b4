from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from weightsmith.core.errors import OptionError
from weightsmith.core.seeds import pinned_threads, read_seeds, stream, subseed, torch_stream


def test_streams_are_repeatable_and_apart():
    names = [(), ("a",), ("b",), ("a", "b"), ("ab",), ("a", 1), ("a", "1"), (1,), ("1",)]
    seeds = {subseed(seed, *name) for seed in (0, 1, 10) for name in names}
    assert len(seeds) == 3 * len(names)
    assert stream(3, "x").random() == stream(3, "x").random()
    assert torch.equal(torch.rand(3, generator=torch_stream(3, "x")), torch.rand(3, generator=torch_stream(3, "x")))


def test_the_stream_of_a_name_never_changes():
    """Golden values: results of earlier versions must stay repeatable."""
    assert subseed(0, "initialise") == 4551464340963918655
    assert stream(0, "initialise").integers(1000) == 148


def test_numpy_integers_name_the_same_streams():
    assert subseed(0, "task", np.int64(1)) == subseed(0, "task", 1)
    assert subseed(0, "a\0str1:b") != subseed(0, "a", "b")


def test_global_state_is_neither_read_nor_changed():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    stream(1).random(5)
    torch.rand(5, generator=torch_stream(1))
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(OptionError, match="seed must be a whole number"):
        subseed(seed)


def test_threads_are_pinned_and_restored():
    before = torch.get_num_threads()
    with pinned_threads(2):
        assert torch.get_num_threads() == 2
        with pinned_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before
    for count in (0, 100_000):
        with pytest.raises(OptionError, match="threads must be ≥ 1"), pinned_threads(count):
            pass


def test_seeds_are_a_list_or_a_range():
    assert read_seeds("0, 2") == (0, 2)
    assert read_seeds("3-5") == (3, 4, 5)
    assert read_seeds("0") == (0,)
    for wrong, said in (
        ("2", "0-1, or 2-2 for one"),
        ("5-3", "0-9 for ten"),
        ("a", "0-9 for ten"),
        ("", "0-9 for ten"),
    ):
        with pytest.raises(OptionError, match=said):
            read_seeds(wrong)
