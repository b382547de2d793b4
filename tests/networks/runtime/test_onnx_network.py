"""ONNX files in onnxruntime."""

from __future__ import annotations

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import UsageError
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
