from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from weightsmith.core.errors import DataMismatch
from weightsmith.core.records import digest_of
from weightsmith.data.streams import rows as module
from weightsmith.data.streams.rows import StreamedRows, batches_of, in_threads, slices_of, view
from weightsmith.data.tensors import Data, Split

BASE = torch.randint(0, 256, (100, 3, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


class InMemory:
    """A reader that counts the rows it has read."""

    def __init__(self, base=BASE):
        self.base, self.shape, self.dtype, self.count = base, tuple(base.shape), base.dtype, 0

    def read(self, batches):
        return in_threads(self._taken, batches, 2)

    def _taken(self, numbers):
        self.count += len(numbers)
        return self.base[torch.from_numpy(numbers)]

    def identity(self):
        return "memory"


INDICES = [
    slice(0, 2),
    slice(3, 50, 7),
    slice(-3, None),
    torch.tensor([5, 2, 2]),
    np.array([9, 1]),
    [3, 4],
    torch.arange(100) % 9 == 0,
    7,
    -1,
    (slice(0, 3), 0),
    (3, 1),
    (slice(0, 4), None),
    None,
]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_indexing_gives_what_a_tensor_gives_and_reads_these_rows_only(mode):
    with mode():
        for index in INDICES:
            reader = InMemory()
            found = StreamedRows(reader)[index]
            assert type(found) is torch.Tensor
            assert found.equal(BASE[index])
            first = index[0] if isinstance(index, tuple) else index
            assert reader.count == (100 if first is None else np.size(np.arange(100)[first]))


def test_what_describes_it_reads_nothing():
    reader = InMemory()
    x = StreamedRows(reader)
    assert (x.shape, x.ndim, x.dim(), len(x), x.numel(), x.dtype) == (BASE.shape, 4, 4, 100, 6000, torch.uint8)
    assert not x.is_floating_point()
    assert isinstance(x, torch.Tensor)
    assert Data("streamed", Split(x, torch.arange(100) % 3)).with_validation(0.2).input_shape == (3, 4, 5)
    assert "StreamedRows((100, 3, 4, 5)" in repr(x)
    assert reader.count == 0


def test_anything_else_is_computed_of_all_rows():
    x = StreamedRows(InMemory())
    assert (x / 255).equal(BASE / 255)
    assert x.float().mean() == BASE.float().mean()
    assert torch.cat([x, BASE]).equal(torch.cat([BASE, BASE]))
    assert x.flatten(1).equal(BASE.flatten(1))
    assert np.array_equal(x.cpu().numpy(), BASE.numpy())


def test_what_does_not_fit_is_refused_with_the_figure(monkeypatch):
    monkeypatch.setattr(module, "free_memory", lambda: 9_000)
    x = StreamedRows(InMemory())
    assert x[:70].equal(BASE[:70])
    with pytest.raises(DataMismatch, match=r"100 rows of \(3, 4, 5\) would take 6\.0 kB .* 9\.0 kB are free"):
        x.float()


def test_a_view_and_a_copy_stay_unread_and_a_pickle_finds_its_reader():
    reader = InMemory()
    part = view(view(StreamedRows(reader), slice(10, 90)), torch.tensor([5, 0]))
    assert copy.deepcopy(part) is part
    assert reader.count == 0
    assert part[:].equal(BASE[[15, 10]])
    assert pickle.loads(pickle.dumps(part))[:].equal(BASE[[15, 10]])


def test_batches_and_slices_come_in_order():
    x = view(StreamedRows(InMemory()), slice(1, None))
    order = torch.randperm(99).split(10)
    assert all(found.equal(BASE[1:][rows]) for found, rows in zip(batches_of(x, order), order, strict=True))
    assert torch.cat(list(slices_of(x, 7))).equal(BASE[1:])
    assert torch.cat(list(slices_of(BASE, 7))).equal(BASE)


def test_the_digest_is_that_of_the_values_and_beyond_the_limit_of_source_and_rows(monkeypatch):
    labels = torch.arange(100) % 3
    assert Split(StreamedRows(InMemory()), labels).digest() == Split(BASE, labels).digest()
    floats = BASE.float()
    assert StreamedRows(InMemory(floats)).digest() == digest_of(floats.numpy())
    monkeypatch.setattr(module, "LIMIT", 100)
    reader = InMemory()
    whole = StreamedRows(reader)
    assert len({whole.digest(), view(whole, slice(0, 50)).digest(), view(whole, slice(1, 51)).digest()}) == 3
    assert whole.digest() == StreamedRows(InMemory()).digest()
    assert reader.count == 0


def test_reading_ahead_is_bounded_and_ends_when_it_is_given_up():
    asked = []

    def batches():
        for number in range(100):
            asked.append(number)
            yield np.array([number])

    found = in_threads(torch.from_numpy, batches(), workers=2)
    assert [int(next(found)) for _ in range(3)] == [0, 1, 2]
    assert len(asked) <= 3 + 3
    found.close()
    assert len(asked) <= 3 + 3


def test_an_error_of_a_worker_is_raised_here():
    def fails(rows):
        raise DataMismatch("row 3 is broken")

    with pytest.raises(DataMismatch, match="row 3 is broken"):
        list(in_threads(fails, [np.array([1])], workers=2))
