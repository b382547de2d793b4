"""ONNX files in onnxruntime."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.networks.runtime import onnx_network
from weightsmith.networks.runtime.onnx_files import export_onnx
from weightsmith.networks.runtime.onnx_network import onnx_latency

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")


def test_a_larger_network_takes_longer(tmp_path) -> None:
    x = torch.randn(2, 64)
    for width in (8, 4000):
        export_onnx(
            ws.networks.build(f"mlp:{width},{width}", input_shape=(64,), classes=3), tmp_path / f"{width}.onnx", x
        )
    files = [tmp_path / "8.onnx", tmp_path / "4000.onnx"]
    found = onnx_latency(files, x, batches=(1, 8), repeats=4)
    times = {(each.file, each.batch): each.median for each in found}
    assert set(times) == {(file.name, batch) for file in files for batch in (1, 8)}
    assert times["4000.onnx", 1] > times["8.onnx", 1]
    assert all(0 < each.low <= each.median <= each.high for each in found)
    with pytest.raises(UsageError, match="four samples"):
        onnx_latency(files, x, repeats=1)


def test_a_sample_lasts_until_the_clock_can_tell_and_is_divided_by_its_runs(monkeypatch) -> None:
    """Each reading of this clock is 1 ms after the one before: a sample of 9.5 ms takes ten runs."""
    readings = itertools.count()
    monkeypatch.setattr(onnx_network, "time", SimpleNamespace(perf_counter=lambda: 0.001 * next(readings)))
    monkeypatch.setattr(onnx_network, "_LEAST_SECONDS", 0.0095)
    runs = []
    network = SimpleNamespace(scores=lambda inputs, batch: runs.append(batch))
    assert onnx_network._sample(network, torch.zeros(4, 2)) == pytest.approx(0.011 / 10)
    assert runs == [4] * 10
