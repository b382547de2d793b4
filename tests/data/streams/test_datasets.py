from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from weightsmith.core.errors import DataMismatch
from weightsmith.data.coerce import as_data
from weightsmith.data.streams import rows
from weightsmith.data.streams.rows import StreamedRows


class Numbered(Dataset):
    def __init__(self, count=150, noise=0.0, broken=None):
        self.count, self.noise, self.broken = count, noise, broken

    def __len__(self):
        return self.count

    def __getitem__(self, row):
        if row == self.broken:
            return torch.full((4,), float("nan")), 0
        return torch.full((4,), float(row)) + self.noise * (torch.rand(4) + random.random()), row % 3


@pytest.fixture
def _small_memory(monkeypatch):
    monkeypatch.setattr(rows, "fits", lambda size: False)


@pytest.mark.usefixtures("_small_memory")
@pytest.mark.parametrize(
    "given", [Numbered(), DataLoader(Numbered(), batch_size=10, shuffle=True, num_workers=2), DataLoader(Numbered())]
)
def test_a_data_set_is_streamed_by_row(given, monkeypatch):
    lazy = as_data(given)
    monkeypatch.undo()
    whole = as_data(given)
    assert isinstance(lazy.train.x, StreamedRows)
    assert not isinstance(whole.train.x, StreamedRows)
    assert lazy.digest() == whole.digest()
    assert lazy.train.x[[140, 3]].tolist() == [[140.0] * 4, [3.0] * 4]
    order = torch.randperm(150).split(16)
    found = torch.cat(list(rows.batches_of(lazy.train.x, order)))
    assert found.equal(whole.train.x[torch.cat(order)])


@pytest.mark.usefixtures("_small_memory")
def test_a_loader_that_drops_its_last_batch_has_the_rows_it_gives():
    data = as_data(DataLoader(Numbered(25), batch_size=10, drop_last=True))
    assert (len(data.train), len(data.train.x)) == (20, 20)


@pytest.mark.usefixtures("_small_memory")
@pytest.mark.filterwarnings("ignore:the data set applies a random transform")
def test_a_random_row_is_the_same_each_time_and_draws_of_others_are_left_alone():
    states = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    x = as_data(Numbered(noise=1.0)).train.x
    alone = torch.cat([x[[row]] for row in (0, 70, 149)])
    assert torch.cat(list(rows.slices_of(x, 40)))[[0, 70, 149]].equal(alone)
    assert states[0].equal(torch.random.get_rng_state())
    assert states[1:] == (random.getstate(), np.random.get_state()[1].tolist())


@pytest.mark.usefixtures("_small_memory")
def test_a_row_that_is_refused_in_a_worker_is_refused_in_one_line():
    with pytest.raises(DataMismatch, match="must be finite") as caught:
        as_data(Numbered(broken=77))
    assert "\n" not in str(caught.value)
