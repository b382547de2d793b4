"""What the benchmark of spiking networks is built on: inputs, thresholds, equal work, and memory of one process."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
NARROW = (4, 6, 6, 40, 30, 10)

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not part of the source archive"
)


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.spiking_peers")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.bench_spiking")


def test_weights_are_he_normal(peers: Any) -> None:
    weights = peers.he_weights(widths=NARROW)
    assert [tuple(weight.shape) for weight in weights] == [
        (4, 3, 3, 3),
        (6, 4, 3, 3),
        (6, 6, 3, 3),
        (40, 6 * 64),
        (30, 40),
        (10, 30),
    ]
    dense = weights[3]
    # 15,360 draws: the deviation is known to about 0.6 %.
    assert float(dense.std()) == pytest.approx((2 / dense.shape[1]) ** 0.5, rel=0.03)
    assert peers.he_weights(widths=NARROW)[4].equal(weights[4])


def test_spikes_are_signed_bernoulli_and_the_same_in_chunks(peers: Any) -> None:
    spikes = peers.input_spikes(40, 3)
    assert spikes.shape == (40, 3, 3, 32, 32)
    assert set(spikes.unique().tolist()) == {-1.0, 0.0, 1.0}
    # An input fires with one sign only, and with probability |x|, whose mean is one half.
    assert not bool(((spikes == 1).any(dim=0) & (spikes == -1).any(dim=0)).any())
    assert float(spikes.abs().mean()) == pytest.approx(0.5, abs=0.01)
    chunks = list(peers.input_chunks(40, 3, 15))
    assert [len(chunk) for chunk in chunks] == [15, 15, 10]
    assert torch.cat(chunks).equal(spikes)


@pytest.mark.parametrize(("reset", "leak"), [("soft", 1.0), ("hard", 1.0), ("soft", 0.9375), ("hard", 0.9375)])
def test_thresholds_give_the_rate(peers: Any, reset: str, leak: float) -> None:
    weights, spikes = peers.he_weights(widths=NARROW), peers.input_spikes(30, 2)
    thresholds = peers.threshold_for_rate(weights, spikes, 0.07, leak=leak, reset=reset)
    outcome = peers.plain(peers.Work(weights, thresholds, spikes, leak, reset))
    sizes = [4 * 1024, 6 * 256, 6 * 256, 40, 30]
    rates = [count / (60 * size) for count, size in zip(outcome.counts, sizes, strict=True)]
    assert rates == pytest.approx([0.07] * 5, abs=0.01)
    assert outcome.scores.shape == (2, 10)


def test_plain_neuron_by_hand(peers: Any) -> None:
    """One input of the first layer on: currents 1, 0, 1, then 0 … go through unit weights and thresholds below 1."""
    weights = [torch.zeros(weight.shape) for weight in peers.he_weights(widths=(1, 1, 1, 1, 1, 10))]
    for convolution in weights[:3]:
        convolution[0, 0, 1, 1] = 1
    for dense in weights[3:]:
        dense[:, 0] = 1
    spikes = torch.zeros(4, 1, 3, 32, 32)
    spikes[0, 0, 0, 0, 0] = spikes[2, 0, 0, 0, 0] = 1
    # The first layer fires at steps 0 and 2; each pool leaves a quarter, so 0.25, 0.5 before the second layer …
    work = peers.Work(weights, [0.9, 0.4, 0.9, 0.2, 0.9], spikes)
    soft = peers.plain(work)
    # … which fires at step 2, as do all after it; what remains below a threshold goes no further.
    assert soft.counts == (2, 1, 1, 1, 1)
    assert soft.scores.tolist() == [[1.0] * 10]
    # With a leak of one half 0.25/4 + 0.25 is not enough for the second layer.
    assert peers.plain(dataclasses.replace(work, leak=0.5)).counts == (2, 0, 0, 0, 0)
    # Threshold 0.1: a soft reset leaves 0.15, which fires again in the next step, a hard one leaves nothing.
    low = dataclasses.replace(work, thresholds=[0.9, 0.1, 0.9, 0.2, 0.9])
    assert peers.plain(low).counts[1] == 4
    assert peers.plain(dataclasses.replace(low, reset="hard")).counts[1] == 2


def test_unequal_arms_are_refused(bench: Any, peers: Any) -> None:
    weights = peers.he_weights(widths=NARROW)
    bench.check_small({"plain": peers.plain}, weights)

    def higher(work: Any) -> Any:
        return peers.plain(dataclasses.replace(work, thresholds=[1.01 * threshold for threshold in work.thresholds]))

    def other_reset(work: Any) -> Any:
        return peers.plain(dataclasses.replace(work, reset="hard" if work.reset == "soft" else "soft"))

    for arm in (higher, other_reset):
        with pytest.raises(bench.UnequalWork, match="'it' does not spike as a soft reset with leak 1 does"):
            bench.check_small({"it": arm}, weights)


def test_what_counts_as_the_same(bench: Any, peers: Any) -> None:
    ours = peers.Outcome((1000, 5000), torch.tensor([[3.0, 4.0]]))
    near = peers.Outcome((1001, 4995), torch.tensor([[3.0, 4.5]]))
    far = peers.Outcome((1004, 4980), torch.tensor([[3.0, 5.5]]))
    assert bench._same(("ours", ours), ("theirs", near))
    assert not bench._same(("ours", ours), ("theirs", dataclasses.replace(near, counts=(1000, 5011))))
    assert not bench._same(("ours", ours), ("theirs", dataclasses.replace(near, scores=far.scores)))
    assert bench._same(("ours", ours), ("ours, int8", far))
    assert not bench._same(("ours", ours), ("ours, int8", dataclasses.replace(far, counts=(1000, 5030))))


@pytest.mark.slow
def test_peak_memory_is_of_the_child_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    memory = importlib.import_module("benchmarks.peak_memory")
    held = bytearray(b"x" * 300_000_000)
    small = memory.peak_of("builtins:len", "text")
    large = memory.peak_of("os:urandom", 200_000_000)
    assert 0 < small.private < small.resident < len(held)
    assert 190e6 < large.resident - small.resident < 210e6
    assert 190e6 < large.private - small.private < 210e6
    with pytest.raises(RuntimeError, match="TypeError"):
        memory.peak_of("builtins:len", 3)


@pytest.mark.slow
def test_memory_in_8_bits_is_that_of_the_file(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from its file, a network in 8 bits needs no room for its weights in 32 bits."""
    peaks = bench.memory(["weightsmith, int8 weights"], bench.work(4, 2, thresholds=[3.0] * 5))
    whole, read = (peaks[f"weightsmith, int8 weights{end}"] for end in ("", " from a file"))
    weights = sum(weight.nbytes for weight in bench.he_weights())
    assert whole.private - read.private > 0.9 * weights
