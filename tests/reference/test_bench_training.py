"""What the benchmark of training lets pass as equal work: the same training, and nothing else."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks/ is not part of the source archive"
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.bench_training")


@pytest.fixture
def given(bench: Any) -> Any:
    """Five steps of an epoch, the last one short, with gradients long enough to be clipped."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    return bench.Work(network, torch.randn(36, 6).double(), torch.arange(36) % 3, batch=8, epochs=3, clip=0.3)


def test_ours_and_the_plain_loop_pass(bench: Any, given: Any) -> None:
    ours, unclipped = bench._ours(given), bench._ours(given, clip=False)
    assert ours.steps == 15
    assert not torch.equal(ours.weights, unclipped.weights)
    plain, bare = bench._plain(given), bench._plain(given, everything=False)
    assert plain.loss == pytest.approx(ours.loss, rel=1e-5)
    assert plain.accuracy == ours.accuracy
    for other in (plain, bare):
        assert bench._same(given, unclipped, ours, other, within=bench._EXACT)


def test_other_work_does_not_pass(bench: Any, given: Any) -> None:
    ours, unclipped = bench._ours(given), bench._ours(given, clip=False)
    plain = bench._plain(given)
    moved = plain.weights + 0.2 * (plain.weights - bench.flat(given.network))
    told = dataclasses.replace(plain, weights=None)
    assert bench._same(given, unclipped, ours, told)
    for other in (
        dataclasses.replace(plain, steps=14),
        dataclasses.replace(plain, weights=moved),
        dataclasses.replace(told, loss=1.05 * ours.loss),
        dataclasses.replace(told, accuracy=ours.accuracy - 0.05),
        dataclasses.replace(told, loss=None),
    ):
        assert not bench._same(given, unclipped, ours, other)
    unclipped_as_clipped = dataclasses.replace(bench._plain(given, everything=False), clips=True)
    other_order = bench._plain(dataclasses.replace(given, seed=1))
    for other in (unclipped_as_clipped, other_order):
        assert not bench._same(given, unclipped, ours, other, within=bench._EXACT)


def test_the_check_in_double_refuses_an_arm_that_skips_clipping(
    bench: Any, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_clipping(work: Any) -> dict[str, Any]:
        return {"lazy": lambda: dataclasses.replace(bench._plain(work, everything=False), clips=True)}

    monkeypatch.setattr(bench, "_ordered_arms", lambda work: {"plain": lambda: bench._plain(work)})
    bench._check_in_double("small", given)
    monkeypatch.setattr(bench, "_ordered_arms", without_clipping)
    with pytest.raises(bench.UnequalWork, match="small: 'lazy' and ours differ in double precision"):
        bench._check_in_double("small", given)
