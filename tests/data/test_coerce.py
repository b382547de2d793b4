from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from weightsmith.core.errors import DataMismatch, UnknownName, UsageError
from weightsmith.data.coerce import as_data
from weightsmith.data.tensors import Data, Split

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 1, 2])


class Pairs(Dataset):
    """Map-style; raises nothing beyond its end, as some do."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.tensor(X[i % 6], dtype=torch.float32), int(Y[i % 6])


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(X[i], Y[i]) for i in range(6)])


@pytest.mark.parametrize(
    "given",
    [
        (X, Y),
        [X, Y],
        (X.tolist(), Y.tolist()),
        (torch.from_numpy(X), torch.from_numpy(Y)),
        (X.astype(">f8"), Y.astype(">i4")),
        (X.astype(np.float16), Y.astype(np.uint8)),
        (torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y).int()),
        Split(torch.from_numpy(X).float(), torch.from_numpy(Y)),
        TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
        Pairs(),
        Stream(),
        DataLoader(Pairs(), batch_size=4),
        DataLoader(Stream(), batch_size=4),
    ],
)
def test_every_form_gives_the_same_split(given):
    data = as_data(given, splits=("test",))
    assert data.train is None
    assert data.test.x.dtype == torch.float32
    assert data.test.x.tolist() == X.tolist()
    assert data.test.y.tolist() == Y.tolist()
    assert data.classes == ("0", "1", "2")
    assert not data.test.x.requires_grad


@pytest.mark.parametrize(
    ("targets", "kind", "described"),
    [
        (Y, "classification", "3 classes"),
        (Y > 0, "multi-label", "1 labels"),
        (np.stack([Y > 0, Y > 1], 1), "multi-label", "2 labels"),
        (Y + 0.5, "regression", "1 values"),
        (np.stack([Y, Y], 1).astype(float), "regression", "2 values"),
    ],
)
def test_the_type_of_the_targets_says_what_they_are(targets, kind, described):
    data = as_data((X, targets))
    assert data.kind.value == kind
    assert described in repr(data)
    assert as_data(TensorDataset(torch.from_numpy(X), torch.from_numpy(targets))).digest() == data.digest()


def test_whole_numbers_stay_whole_and_weights_travel_with_their_rows():
    tokens = as_data((np.arange(12).reshape(6, 2), Y, np.arange(6.0)))
    assert tokens.train.x.dtype == torch.int64
    assert tokens.train.take([4, 2]).weights.tolist() == [4, 2]
    assert tokens.train.digest() != as_data((np.arange(12).reshape(6, 2), Y)).train.digest()


def test_data_pass_and_bare_inputs_become_the_first_split_needed():
    data = as_data((X, Y))
    assert as_data(data) is data
    assert list(data.splits) == ["train"]


def test_a_mapping_names_its_splits():
    data = as_data({"train": (X, Y), "validation": Pairs()})
    assert {name: len(part) for name, part in data.splits.items()} == {"train": 6, "validation": 6}
    with pytest.raises(UnknownName, match="unknown split 'valid'"):
        as_data({"valid": (X, Y)})


def test_a_name_is_loaded_with_the_splits_needed_only():
    data = as_data("digits", splits=("test",))
    assert isinstance(data, Data)
    assert (data.train, len(data.test)) == (None, 360)


def test_pixels_stay_pixels():
    assert as_data((np.zeros((2, 1, 3, 3), np.uint8), [0, 1])).train.x.dtype == torch.uint8


def test_a_loader_keeps_its_own_order_and_global_randomness_is_given_back():
    state = torch.random.get_rng_state()
    loader = DataLoader(Pairs(), batch_size=2, shuffle=True)
    shuffled = as_data(loader).train
    assert torch.equal(state, torch.random.get_rng_state())
    assert sorted(map(tuple, shuffled.x.tolist())) == sorted(map(tuple, X.tolist()))
    assert all(Y[X.tolist().index(x)] == y for x, y in zip(shuffled.x.tolist(), shuffled.y.tolist(), strict=True))


def test_a_read_only_array_is_copied_not_shared():
    frozen = X.astype(np.float32)
    frozen.flags.writeable = False
    part = as_data((frozen, Y)).train
    part.x[0, 0] = 99
    assert frozen[0, 0] == 0


class Images(Pairs):
    def __getitem__(self, i):
        from PIL import Image

        return Image.new("RGB", (4, 4)), 0


class Ragged(Pairs):
    def __getitem__(self, i):
        return torch.zeros(i + 1), 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (7, UsageError, "not a int"),
        ((X, Y, Y, Y), UsageError, r"written as \(x, y\)"),
        ((X, Y, Y[:3]), DataMismatch, "need a weight each"),
        ((X, Y, Y - 1.0), DataMismatch, "not negative"),
        ((X, Y.astype(float)), DataMismatch, "whole numbers as floats: for classes give integers"),
        ((X, Y * 1j), DataMismatch, "real numbers"),
        ((X[:5], Y), DataMismatch, "5 inputs"),
        ((X, Y - 1), DataMismatch, "not -1"),
        ((np.array([["a", "b"]]), [0]), DataMismatch, "must be numbers"),
        ((X * 1j, Y), DataMismatch, "complex"),
        ((np.where(X == 5, np.nan, X), Y), DataMismatch, "row 2 holds nan"),
        ((X.reshape(6, 1, 2).astype(np.uint8), Y), DataMismatch, "x\\[:, None\\]"),
        (Images(), DataMismatch, "not Image; convert them by a transform"),
        (Ragged(), DataMismatch, "input 1 has shape \\(2,\\), the first \\(1,\\)"),
        (TensorDataset(torch.zeros(2, 2)), UsageError, r"written as \(x, y\)"),
        (DataLoader(TensorDataset(torch.zeros(2, 2))), DataMismatch, "batch 0 of the data is a list"),
        (DataLoader([]), DataMismatch, "no items"),
        ({}, UsageError, "at least one split"),
    ],
)
def test_what_is_not_data_is_named(given, error, message):
    with pytest.raises(error, match=message):
        as_data(given)


class Rows(torch.utils.data.Dataset):
    def __init__(self, noise=0.0):
        self.noise = noise

    def __len__(self):
        return 10

    def __getitem__(self, row):
        return torch.full((2,), float(row)) + self.noise * torch.rand(2), row % 3


def test_a_loader_that_shuffles_reads_the_same_each_time_in_the_order_of_its_rows():
    loader = torch.utils.data.DataLoader(Rows(), batch_size=4, shuffle=True)
    state = torch.random.get_rng_state()
    first, again = as_data(loader), as_data(loader)
    assert first.digest() == again.digest()
    assert first.train.x[:, 0].tolist() == list(range(10))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_rows_drawn_at_random_are_reported_and_drawn_the_same_again():
    with pytest.warns(UserWarning, match="applies a random transform when a row is read"):
        first = as_data(Rows(noise=1.0))
    with pytest.warns(UserWarning, match="applies a random transform"):
        again = as_data(Rows(noise=1.0))
    with pytest.warns(UserWarning, match="applies a random transform"):
        as_data(torch.utils.data.DataLoader(Rows(noise=1.0), batch_size=10))
    assert first.train.x[:, 0].floor().tolist() == list(range(10))
    assert torch.equal(first.train.x, again.train.x)


def test_a_sampler_of_ones_own_is_followed():
    sampler = torch.utils.data.SubsetRandomSampler([3, 5])
    data = as_data(torch.utils.data.DataLoader(Rows(), batch_size=4, sampler=sampler))
    assert sorted(data.train.x[:, 0].tolist()) == [3, 5]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_with_their_channels_last_are_refused_with_the_way_out(channels):
    x = torch.zeros(2, 8, 6, channels)
    with pytest.raises(DataMismatch, match=r"channels last; .* by x.permute\(0, 3, 1, 2\)"):
        as_data((x, [0, 1]))
    assert as_data((x.permute(0, 3, 1, 2), [0, 1])).input_shape == (channels, 8, 6)
    assert as_data((torch.zeros(2, 64, 3, 3), [0, 1])).input_shape == (64, 3, 3)
