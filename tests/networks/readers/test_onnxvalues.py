from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from weightsmith.core.errors import FileRefused
from weightsmith.networks.readers.onnxgraph import Quantisation
from weightsmith.networks.readers.onnxvalues import TYPES, OnnxValues

REAL = np.array([[0.5, -2.0, 3.0], [0.0, 1.0, 4.0]])
PATH = Path("model.onnx")


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("code", TYPES)
def test_every_type_reads_back_as_bytes_and_as_numbers(code, raw):
    kind = helper.tensor_dtype_to_np_dtype(code)
    values = np.abs(REAL).astype(kind)
    if raw:
        tensor = numpy_helper.from_array(values, "w")
    else:
        tensor = helper.make_tensor("w", code, values.shape, values.astype(kind).flatten().tolist())
    assert tensor.HasField("raw_data") == raw
    read = OnnxValues(PATH, {"w": tensor}).read("w")
    assert read.shape == (2, 3)
    assert read.to(torch.float64).tolist() == values.astype("f8").tolist()


def test_external_values_are_read_where_they_lie(tmp_path):
    (tmp_path / "w.data").write_bytes(b"....." + REAL.astype("<f4").tobytes() + b"...")
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.data"), ("offset", "5"), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    values = OnnxValues(tmp_path / "model.onnx", {"w": tensor})
    assert values.read("w").tolist() == REAL.tolist()
    for offset in ("-1", "9", "1e3", "9" * 30):
        tensor.external_data[1].value = offset
        with pytest.raises(FileRefused):
            OnnxValues(tmp_path / "model.onnx", {"w": tensor})


@pytest.mark.parametrize(
    ("dims", "raw", "reason"),
    [
        ([2, 3], bytes(20), "claims 24 bytes and has 20"),
        ([-2, 3], b"", "impossible"),
        ([1] * 99, bytes(4), "impossible"),
    ],
)
def test_claims_are_checked(dims, raw, reason):
    tensor = TensorProto(name="w", data_type=1, dims=dims, raw_data=raw)
    with pytest.raises(FileRefused, match=reason):
        OnnxValues(PATH, {"w": tensor})


def test_numbers_must_be_as_many_as_the_shape_says():
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], float_data=[1.0] * 5)
    with pytest.raises(FileRefused, match="another number"):
        OnnxValues(PATH, {"w": tensor})


@pytest.mark.parametrize(
    ("scale", "axis", "block", "expected"),
    [
        ([2.0], 1, 0, [[2, 4, 6, 8], [10, 12, 14, 16]]),
        ([1.0, 10.0], 0, 0, [[1, 2, 3, 4], [50, 60, 70, 80]]),
        ([1.0, 2, 3, 4], 1, 0, [[1, 4, 9, 16], [5, 12, 21, 32]]),
        ([1.0, 2, 3, 4], -1, 0, [[1, 4, 9, 16], [5, 12, 21, 32]]),
        ([[1.0, 10.0], [2.0, 20.0]], 1, 2, [[1, 2, 30, 40], [10, 12, 140, 160]]),
    ],
)
def test_scales_along_an_axis(scale, axis, block, expected):
    codes = numpy_helper.from_array(np.arange(1, 9, dtype="i1").reshape(2, 4), "w")
    values = OnnxValues(PATH, {"w": codes, "s": numpy_helper.from_array(np.array(scale, "f4"), "s")})
    told = Quantisation("s", None, axis, block)
    assert values.can_scale("w", told)
    assert values.dequantised("w", told).tolist() == expected


def test_zero_point_and_missing_scale():
    tensors = {
        "w": numpy_helper.from_array(np.array([[0, 255]], "u1"), "w"),
        "s": numpy_helper.from_array(np.array(0.5, "f4"), "s"),
        "z": numpy_helper.from_array(np.array(128, "u1"), "z"),
        "odd": numpy_helper.from_array(np.ones(7, "f4"), "odd"),
    }
    values = OnnxValues(PATH, tensors)
    assert values.dequantised("w", Quantisation("s", "z", 1)).tolist() == [[-64.0, 63.5]]
    assert not values.can_scale("w", Quantisation("nowhere", None, 1))
    assert not values.can_scale("w", Quantisation("odd", None, 1))
    assert not values.can_scale("w", Quantisation("odd", None, 5))
