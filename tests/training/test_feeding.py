from __future__ import annotations

import threading
import time

import pytest
import torch
from torch import Tensor

from weightsmith.core.errors import DataMismatch
from weightsmith.core.seeds import torch_stream
from weightsmith.data.augment import CropFlip, NoAugment
from weightsmith.data.normalise import HALF, NONE, Normalisation
from weightsmith.data.tensors import Split
from weightsmith.training import feeding
from weightsmith.training.feeding import Feed, Layout

CPU = torch.device("cpu")
PLAIN = Layout((), torch.float32, CPU, channels_last=False)
LAST = Layout((), torch.float32, CPU, channels_last=True)


def pixels(count: int = 11) -> Split:
    x = torch.randint(0, 256, (count, 3, 5, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Split(x, torch.arange(count) % 3)


def batches(count: int = 11, size: int = 4) -> tuple[Tensor, ...]:
    return torch.randperm(count, generator=torch.Generator().manual_seed(3)).split(size)


def epoch(feed: Feed, seed: int = 0, number: int = 1) -> list[tuple[Tensor, Tensor]]:
    with feed.shuffled(batches(len(feed)), seed, number) as items:
        return list(items)


@pytest.fixture
def cramped(monkeypatch):
    """No room to keep floats: batches are made one by one in the thread."""
    monkeypatch.setattr(feeding, "_ROOM", 0)


def feed_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "weightsmith-feed"]


@pytest.mark.parametrize("layout", [PLAIN, LAST], ids=["plain", "channels last"])
@pytest.mark.parametrize("normalisation", [NONE, HALF, Normalisation((0.1, 0.2, 0.3), (1, 2, 4))], ids=str)
def test_batches_hold_the_rows_asked_for_normalised(layout, normalisation):
    split = pixels()
    for (x, y), rows in zip(epoch(Feed(split, normalisation, layout)), batches(), strict=True):
        mean, std = (
            torch.tensor(v or (d,)).view(-1, 1, 1) for v, d in ((normalisation.mean, 0.0), (normalisation.std, 1.0))
        )
        torch.testing.assert_close(x, (split.x[rows] / 255 - mean) / std)
        assert torch.equal(y, split.y[rows])
        assert x.is_contiguous(memory_format=torch.channels_last if layout.channels_last else torch.contiguous_format)


@pytest.mark.parametrize("layout", [PLAIN, LAST], ids=["plain", "channels last"])
def test_prepared_in_a_thread_or_kept_ready_the_batches_are_the_same(layout, cramped, monkeypatch):
    made = Feed(pixels(), HALF, layout)
    monkeypatch.setattr(feeding, "_ROOM", 1 << 20)
    kept = Feed(pixels(), HALF, layout)
    assert (made.ready, kept.ready) == (False, True)
    for ours, theirs in zip(epoch(made), epoch(kept), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for ours, theirs in zip(made.in_order(3), kept.in_order(3), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_the_room_is_counted_in_bytes_of_the_type_trained_in(monkeypatch):
    split = pixels()
    monkeypatch.setattr(feeding, "_ROOM", split.x.numel() * 4)
    assert Feed(split, NONE, PLAIN).ready
    assert not Feed(split, NONE, Layout((), torch.float64, CPU, channels_last=False)).ready


def test_in_order_gives_every_row_once_from_first_to_last():
    split = pixels()
    parts = list(Feed(split, NONE, PLAIN).in_order(4))
    assert [len(y) for _, y in parts] == [4, 4, 3]
    assert torch.equal(torch.cat([y for _, y in parts]), split.y)
    torch.testing.assert_close(torch.cat([x for x, _ in parts]), split.x / 255)


def test_the_split_itself_is_not_changed():
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    split, before = Split(x, torch.zeros(6, dtype=torch.int64)), x.clone()
    feed = Feed(split, NONE, PLAIN)
    for batch, _ in (*feed.in_order(6), *epoch(feed)):
        batch.zero_()
    assert torch.equal(split.x, before)


def test_augmentation_draws_from_seed_and_epoch_alone():
    feed = Feed(pixels(), HALF, PLAIN, CropFlip(2))
    first = epoch(feed, 5, 2)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(first, epoch(feed, 5, 2), strict=True))
    for other in (epoch(feed, 6, 2), epoch(feed, 5, 3)):
        assert not all(torch.equal(a[0], b[0]) for a, b in zip(first, other, strict=True))


def test_augmentation_is_that_of_the_option_before_normalisation():
    split, generator = pixels(), torch_stream(4, "augment", 7)
    for (x, y), rows in zip(epoch(Feed(split, HALF, LAST, CropFlip(1)), 4, 7), batches(), strict=True):
        torch.testing.assert_close(x, HALF.apply(CropFlip(1)(split.x[rows], generator)))
        assert torch.equal(y, split.y[rows])


def test_no_augmentation_is_none_and_validation_is_never_augmented():
    assert Feed(pixels(), NONE, PLAIN, NoAugment()).ready
    feed = Feed(pixels(), NONE, PLAIN, CropFlip(2))
    assert not feed.ready
    torch.testing.assert_close(torch.cat([x for x, _ in feed.in_order(5)]), pixels().x / 255)


def test_a_measured_batch_has_a_comfortable_size(monkeypatch):
    monkeypatch.setattr(feeding, "_VALUES", 130)
    assert Feed(pixels(), NONE, PLAIN).comfortable == 2  # 60 values an image
    monkeypatch.setattr(feeding, "_VALUES", 1)
    assert Feed(pixels(), NONE, PLAIN).comfortable == 1


# the thread


def test_the_thread_ends_with_the_block_even_if_nobody_takes_its_batches(cramped):
    feed = Feed(pixels(), NONE, PLAIN)
    with feed.shuffled(batches(11, 1), 0, 1) as items:
        next(items)
        assert len(feed_threads()) == 1
    assert feed_threads() == []


def test_an_error_in_the_block_passes_and_the_thread_ends(cramped):
    with pytest.raises(ZeroDivisionError), Feed(pixels(), NONE, PLAIN).shuffled(batches(11, 1), 0, 1):
        _ = 1 / 0
    assert feed_threads() == []


def test_what_the_thread_raises_is_raised_where_the_batches_are_taken(cramped):
    feed = Feed(pixels(), Normalisation((0.1, 0.2), (1, 1)), PLAIN)  # two channels for images of three
    with pytest.raises(DataMismatch, match="has 2 channels"), feed.shuffled(batches(), 0, 1) as items:
        list(items)
    assert feed_threads() == []


def test_only_a_few_batches_are_made_ahead(cramped, monkeypatch):
    made = []
    apply = Normalisation.apply
    monkeypatch.setattr(Normalisation, "apply", lambda self, x: made.append(len(x)) or apply(self, x))
    with Feed(pixels(40), NONE, PLAIN).shuffled(batches(40, 1), 0, 1) as items:
        next(items)
        deadline = time.monotonic() + 5
        while len(made) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert len(made) == 4  # the one taken, two waiting, one in the thread's hands


# the layout


def test_rows_become_images_and_images_rows_as_the_network_takes_them():
    images = torch.arange(24.0).view(2, 3, 2, 2)
    rows = Layout((12,), torch.float64, CPU, channels_last=False).arrange(images)
    assert rows.dtype == torch.float64
    assert torch.equal(rows, images.double().view(2, 12))
    back = Layout((3, 2, 2), torch.float32, CPU, channels_last=True).arrange(images.view(2, 12))
    assert torch.equal(back, images)
    assert back.is_contiguous(memory_format=torch.channels_last)


def test_images_of_another_size_reach_a_convolutional_network_as_they_are():
    layout = Layout((3, 32, 32), torch.float32, CPU, channels_last=True)
    assert layout.arrange(torch.zeros(2, 3, 28, 28)).shape == (2, 3, 28, 28)


@pytest.mark.parametrize(("shape", "given"), [((5,), (2, 4)), ((5,), (2, 1, 2, 2)), ((3, 2, 2), (2, 11))])
def test_inputs_that_cannot_be_arranged_name_both_shapes(shape, given):
    layout = Layout(shape, torch.float32, CPU, channels_last=False)
    with pytest.raises(DataMismatch) as caught:
        layout.arrange(torch.zeros(given))
    assert str(caught.value) == f"the network takes inputs of shape {shape}, the data have {given[1:]}"
