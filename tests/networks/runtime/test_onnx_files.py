"""Networks written as ONNX, in 32 and in 8 bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.networks.card import Card
from weightsmith.networks.runtime.onnx_files import export_onnx, quantise_onnx
from weightsmith.networks.runtime.onnx_network import OnnxNetwork

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")


@pytest.fixture(scope="module")
def small() -> nn.Module:
    return ws.networks.build("resnet:8,widths=[4,8,16]", input_shape=(3, 16, 16), classes=5).eval()


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    return torch.randn(80, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_a_file_gives_the_scores_of_the_module_for_any_number_of_rows(small, rows, tmp_path) -> None:
    found = export_onnx(small, tmp_path / "net.onnx", rows[:4])
    assert found.difference <= 1e-3 * found.spread
    assert found.bytes == (tmp_path / "net.onnx").stat().st_size
    given = OnnxNetwork(tmp_path / "net.onnx").scores(rows[:7], batch=3)
    torch.testing.assert_close(given, small(rows[:7]).detach(), rtol=1e-3, atol=1e-4)


def test_eight_bits_are_smaller_and_near(small, rows, tmp_path) -> None:
    whole = export_onnx(small, tmp_path / "net.onnx", rows[:4])
    found = quantise_onnx(small, tmp_path / "net.onnx", tmp_path / "net-int8.onnx", rows)
    assert found.bits == 8
    assert 0 < found.difference < 0.5 * found.spread
    assert found.agreement > 0.7
    assert found.rows == 80
    assert whole.rows == 4
    import onnx

    kinds = {tensor.data_type for tensor in onnx.load(tmp_path / "net-int8.onnx").graph.initializer}
    assert onnx.TensorProto.INT8 in kinds


def test_the_card_travels_with_the_file(small, rows, tmp_path) -> None:
    import onnx

    export_onnx(small, tmp_path / "net.onnx", rows[:2])
    props = {each.key: each.value for each in onnx.load(tmp_path / "net.onnx").metadata_props}
    assert Card.from_json(props["weightsmith.card"]).input_shape == (3, 16, 16)


def test_one_row_is_too_few_and_other_files_are_refused(small, rows, tmp_path) -> None:
    with pytest.raises(UsageError, match="at least two"):
        export_onnx(small, tmp_path / "net.onnx", rows[:1])
    (tmp_path / "no.onnx").write_bytes(b"nothing")
    with pytest.raises(FileRefused, match="cannot open"):
        OnnxNetwork(tmp_path / "no.onnx")
