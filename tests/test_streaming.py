"""Data that do not fit into memory go through the verbs with the same bytes as data in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

import weightsmith as ws
from weightsmith.data.streams import rows
from weightsmith.data.streams.images import ImageFiles
from weightsmith.data.streams.rows import StreamedRows


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root, draw = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for split, count in (("train", 40), ("test", 20)):
        for shade, name in enumerate("abc"):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 80, (12, 12, 3)) + 60 * shade
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    return root


@pytest.fixture
def both(photos, monkeypatch):
    """The same images in memory and streamed."""
    whole = ws.data.load(f"folder:{photos}")
    with monkeypatch.context() as patch:
        patch.setattr(rows, "fits", lambda size: False)
        lazy = ws.data.load(f"folder:{photos}")
    assert isinstance(lazy.train.x, StreamedRows)
    return whole, lazy


@pytest.fixture(scope="module")
def network(photos):
    return ws.train("mlp:12", f"folder:{photos}", epochs=3, schedule=0.02, seed=1).network


@pytest.mark.parametrize("augment", [None, "crop-flip:1"])
def test_training_on_a_stream_has_the_same_bytes(both, augment, tmp_path):
    made = []
    for number, data in enumerate(both):
        folder = tmp_path / str(number)
        ws.train("mlp:12", data, epochs=2, schedule=0.02, validation=0.2, augment=augment, out=folder, keep=1)
        made.append({name: (folder / name).read_bytes() for name in ("record.json", "network.safetensors")})
    assert made[0] == made[1]


def test_training_on_a_stream_goes_on_at_the_epoch_where_it_stopped(both, tmp_path, monkeypatch):
    whole, lazy = both

    class Killed(Exception):
        pass

    def dies(end):
        if end.row.epoch == 2:
            raise Killed

    options = {"epochs": 3, "schedule": 0.02, "validation": 0.2}
    with pytest.raises(Killed):
        ws.train("mlp:12", lazy, out=tmp_path / "run", hooks=dies, **options)
    read, decoded = [], ImageFiles._decoded

    def counted(self, numbers):
        read.append(len(numbers))
        return decoded(self, numbers)

    monkeypatch.setattr(ImageFiles, "_decoded", counted)
    run = ws.train("mlp:12", lazy, out=tmp_path / "run", **options)
    resumed, read[:] = sum(read), []
    assert run.record.network == ws.train("mlp:12", whole, **options).record.network
    ws.train("mlp:12", lazy, **options)
    assert sum(read) - resumed == 120  # the training and validation rows of the epoch that was done


@pytest.mark.parametrize(
    "verb",
    [
        lambda network, data: ws.evaluate(network, data).to_json(),
        lambda network, data: ws.reduce(network, data, by="error", target="params:0.6").record.to_json(),
        lambda network, data: ws.spike(network, data, steps=8, test_rows=20).record.to_json(),
        lambda network, data: ws.angles(network, data).record.to_json(),
    ],
    ids=["evaluate", "reduce", "spike", "angles"],
)
def test_verbs_give_the_same_records_on_a_stream(both, network, verb):
    whole, lazy = both
    assert verb(network, whole) == verb(network, lazy)


class Endless(Dataset):
    """Thirty gigabytes of inputs, if one should read them all."""

    def __len__(self):
        return 10_000_000

    def __getitem__(self, row):
        return torch.full((3, 16, 16), row % 7, dtype=torch.uint8), row % 7


def test_the_size_of_a_data_set_is_known_before_it_is_read(monkeypatch):
    asked = []
    monkeypatch.setattr(rows, "fits", lambda size: bool(asked.append(size)))
    monkeypatch.setattr("weightsmith.data.coerce._streamed", lambda *given: pytest.fail(str(given[1])))
    with pytest.raises(pytest.fail.Exception, match="10000000"):
        ws.evaluate(ws.networks.mlp(768, 8, 7), Endless())
    assert asked == [10_000_000 * 768]
