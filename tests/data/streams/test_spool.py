from __future__ import annotations

import gc
import pickle
import shutil
from collections import namedtuple

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from weightsmith.core.errors import FileRefused
from weightsmith.data import coerce
from weightsmith.data.coerce import as_data
from weightsmith.data.streams import rows
from weightsmith.data.streams.rows import StreamedRows


class Once(IterableDataset):
    """Rows that come in one order, and only once."""

    def __init__(self, count=50):
        self.rows = iter([(torch.full((2, 3, 3), row, dtype=torch.uint8), row % 3) for row in range(count)])

    def __iter__(self):
        return self.rows


@pytest.fixture
def _small_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(rows, "fits", lambda size: False)
    monkeypatch.setattr(coerce, "_LOOK", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.usefixtures("_small_memory")
@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: DataLoader(rows, batch_size=7)])
def test_rows_that_come_once_can_be_read_again_in_any_order(wrap, tmp_path):
    data = as_data(wrap(Once()))
    x = data.train.x
    assert isinstance(x, StreamedRows)
    assert data.train.y.tolist() == [row % 3 for row in range(50)]
    assert x[[30, 4, 30]].amax((1, 2, 3)).tolist() == [30, 4, 30]
    assert pickle.loads(pickle.dumps(x))[[9]].amax() == 9
    with_values = as_data((x[:], data.train.y))
    assert data.digest() == with_values.digest()
    assert len(list(tmp_path.glob("weightsmith-rows-*"))) == 1
    del data, x
    gc.collect()
    assert not list(tmp_path.glob("weightsmith-rows-*"))


@pytest.mark.usefixtures("_small_memory")
def test_a_full_disk_is_refused_with_the_figure(monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2_000_000))
    with pytest.raises(FileRefused, match=r"does not fit into memory .* 2\.0 MB are free; set TMPDIR"):
        as_data(Once())
