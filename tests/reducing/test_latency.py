from __future__ import annotations

import itertools
import time

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch, UsageError
from weightsmith.networks.card import weights_digest
from weightsmith.reducing import latency as room
from weightsmith.reducing.latency import compare_latency, file_bytes, latency

EXAMPLE = torch.ones(3, 5)


class Slow(nn.Module):
    """Takes a known time per pass and per image on a clock of its own, and notes what it was asked."""

    def __init__(self, clock: list[float], per_pass: float, per_image: float, calls: list[tuple[object, int]]) -> None:
        super().__init__()
        self.costs = (clock, per_pass, per_image, calls)

    def __deepcopy__(self, memo):
        return self  # the measuring works on a copy; this one must be told of the calls

    def forward(self, x):
        clock, per_pass, per_image, calls = self.costs
        clock[0] += per_pass + per_image * len(x)
        calls.append((self, len(x), self.training, torch.is_inference_mode_enabled(), torch.get_num_threads()))
        return x


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: now[0])
    monkeypatch.setattr(time, "perf_counter", lambda: 2 * now[0])
    return now


def test_seconds_per_image(clock):
    found = latency(Slow(clock, 0.010, 0.001, []), EXAMPLE, repeats=5)
    assert found.at(1).median == pytest.approx(0.011)
    assert found.at(64).median == pytest.approx((0.010 + 0.064) / 64)
    assert found.at(64).best == pytest.approx(found.at(64).low) == pytest.approx(found.at(64).high)
    assert (found.clock, found.threads, found.samples) == ("processor time of the computing thread", 1, 5)


def test_several_threads_are_measured_by_the_wall_clock(clock):
    calls = []
    found = latency(Slow(clock, 0.010, 0.001, calls), EXAMPLE, batches=(1,), repeats=2, threads=2)
    assert found.at(1).median == pytest.approx(0.022)
    assert found.clock == "wall clock"
    assert {call[4] for call in calls} == {2}


def test_the_middle_and_the_best_of_the_samples(clock, monkeypatch):
    durations = iter([1.0, 1.0, 4.0, 2.0, 3.0, 100.0])  # the first is the warm-up's
    monkeypatch.setattr(room, "_seconds", lambda *_: next(durations))
    found = latency(Slow(clock, 0, 0, []), EXAMPLE, batches=(1,), repeats=5).at(1)
    assert (found.best, found.low, found.median, found.high) == (1.0, 2.0, 3.0, 4.0)


def test_two_networks_are_measured_by_turns(clock):
    calls = []
    before, after = Slow(clock, 0.010, 0.001, calls), Slow(clock, 0.005, 0.0005, calls)
    found = compare_latency(before, after, EXAMPLE, batches=(1, 8), repeats=4)
    for batch in (1, 8):
        assert found.at(batch).median == pytest.approx(0.5)
        assert found.after.at(batch).median == pytest.approx(found.before.at(batch).median / 2)
    turns = [network for (network, rows, *_), _ in itertools.groupby(calls, key=lambda call: call[:2]) if rows == 8]
    assert turns[-8:] == [before, after] * 4
    assert all(call[2:4] == (False, True) for call in calls)


def test_pairs_of_samples_make_the_ratio(clock, monkeypatch):
    # warm-ups, then by turns; the machine is twice as slow during the second pair
    durations = iter([1.0, 1.0, 4.0, 1.0, 8.0, 2.0, 4.0, 3.0])
    monkeypatch.setattr(room, "_seconds", lambda *_: next(durations))
    found = compare_latency(Slow(clock, 0, 0, []), Slow(clock, 0, 0, []), EXAMPLE, batches=(1,), repeats=3).at(1)
    assert (found.low, found.median, found.high) == (0.25, 0.25, 0.5)


def test_quick_passes_are_gathered_into_samples(clock):
    calls = []
    latency(Slow(clock, 0.0002, 0, calls), EXAMPLE, batches=(1,), repeats=2)
    assert len(calls) == 1 + 3 + 2 * 25


def test_a_clock_that_stands_still_gives_its_grain(clock):
    found = latency(Slow(clock, 0, 0, []), EXAMPLE, batches=(1,), repeats=2)
    assert 0 < found.at(1).median <= time.get_clock_info("thread_time").resolution


def test_rows_are_repeated_to_fill_a_batch(clock):
    calls = []
    latency(Slow(clock, 0.01, 0, calls), EXAMPLE, batches=(1, 7), repeats=2)
    assert {call[1] for call in calls} == {1, 7}


def test_a_real_network_is_faster_when_it_is_far_smaller_and_stays_as_it_is():
    large, small = ws.networks.mlp(256, 2000, 2000, 10), ws.networks.mlp(256, 20, 20, 10)
    large.train()
    before, threads = weights_digest(large), torch.get_num_threads()
    found = compare_latency(large, small, torch.zeros(1, 256), repeats=5)
    assert found.at(64).high < 0.5
    assert (weights_digest(large), large.training, torch.get_num_threads()) == (before, True, threads)


def test_images_and_double_precision_run_as_they_are():
    network = ws.networks.vgg(5, (3, 8, 8), classifier=(4,)).double()
    assert latency(network, torch.zeros(2, 3, 8, 8), batches=(2,), repeats=2).at(2).best > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 1}, "at least 2 repeats"),
        ({"batches": ()}, "at least 2 repeats"),
        ({"batches": (0,)}, "at least 2 repeats"),
        ({"threads": 0}, "threads must be ≥ 1"),
    ],
)
def test_what_cannot_be_measured(options, message):
    with pytest.raises(UsageError, match=message):
        latency(nn.Linear(5, 2), EXAMPLE, **options)


def test_examples_that_do_not_fit():
    with pytest.raises(DataMismatch, match=r"cannot take inputs of shape \(5,\)"):
        latency(nn.Linear(4, 2), EXAMPLE)
    with pytest.raises(UsageError, match="must be a batch of at least one input"):
        latency(nn.Linear(4, 2), torch.ones(4))
    with pytest.raises(UsageError, match="batches of 5 were not measured, only of 1"):
        latency(nn.Linear(5, 2), EXAMPLE, batches=(1,), repeats=2).at(5)


def test_file_bytes_are_those_of_the_file(tmp_path):
    network = ws.networks.mlp(30, 20, 10)
    assert file_bytes(network) == ws.save(network, tmp_path / "network.safetensors").stat().st_size
    assert file_bytes(network) > 4 * (30 * 20 + 20 + 20 * 10 + 10)
    assert file_bytes(nn.Linear(100, 100)) - file_bytes(nn.Linear(100, 50)) == pytest.approx(4 * 50 * 101, abs=16)
