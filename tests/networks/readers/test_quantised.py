from __future__ import annotations

import pytest
import torch

from weightsmith.networks.readers.quantised import APPLIED, Scaling, is_quantised, split_quantised
from weightsmith.networks.weights import Entry


def entries(**kinds: tuple[str, tuple[int, ...]]) -> dict[str, Entry]:
    return {
        name.replace("__", "."): Entry(name.replace("__", "."), shape, dtype) for name, (dtype, shape) in kinds.items()
    }


@pytest.mark.parametrize(("rule", "qweight"), [("GPTQ", (64, 128)), ("AWQ", (512, 16))])
def test_layers_packed_by_other_tools_are_named_as_what_they_are(rule, qweight):
    known = entries(
        q__qweight=("int32", qweight),
        q__qzeros=("int32", (4, 16)),
        q__scales=("float16", (4, 128)),
        scales=("float32", (4, 4)),
    )
    found, scalings, left = split_quantised(known)
    assert (list(found), scalings) == (["scales"], {})  # a tensor of that name elsewhere is the user's own
    reasons = {item.name: (item.reason, item.parameters) for item in left}
    count = qweight[0] * qweight[1]
    assert reasons["q.qweight"] == (
        f"packed integers of a {rule} layer (int32): unpack it to floats to grade it",
        count,
    )
    assert reasons["q.scales"] == (f"scales of a {rule} layer, no weights", 0)
    assert reasons["q.qzeros"] == (f"packed zero points of a {rule} layer", 0)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (torch.tensor(2.0), [[2, 4], [6, 8]]),
        (torch.tensor([2.0]), [[2, 4], [6, 8]]),
        (torch.tensor([1.0, 10.0]), [[1, 2], [30, 40]]),
        (torch.tensor([[1.0], [10.0]]), [[1, 2], [30, 40]]),
        (torch.tensor([[1.0, 10.0]]), [[1, 20], [3, 40]]),
    ],
)
def test_scales_of_every_shape(scale, expected):
    codes = torch.tensor([[1, 2], [3, 4]], dtype=torch.int8)
    assert Scaling("s").apply(codes, scale, None).tolist() == expected
    assert codes.tolist() == [[1, 2], [3, 4]]


def test_zero_point_comes_off_first():
    codes = torch.tensor([[0, 128], [255, 1]], dtype=torch.uint8)
    zero = torch.tensor([128, 1], dtype=torch.uint8)
    assert Scaling("s", "z").apply(codes, torch.tensor(0.5), zero).tolist() == [[-64, 0], [127, 0]]


def test_scales_of_blocks():
    codes = torch.ones(130, 300).to(torch.float8_e4m3fn)
    scale = torch.arange(1.0, 7.0).reshape(2, 3)
    values = Scaling("s").apply(codes, scale, None)
    assert values.shape == (130, 300)
    corners = {(0, 0): 1, (127, 127): 1, (127, 128): 2, (0, 299): 3, (128, 0): 4, (129, 299): 6}
    assert {index: values[index].item() for index in corners} == corners


@pytest.mark.parametrize("ending", ["_scale", ".scale", "_scale_inv"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn", "float8_e5m2"])
def test_a_neighbour_is_found_by_its_name(ending, dtype):
    known = {"w": Entry("w", (3, 2), dtype), "w" + ending: Entry("w" + ending, (3,), "float32")}
    found, scalings, left = split_quantised(known)
    assert list(found) == ["w"]
    assert scalings == {"w": Scaling("w" + ending)}
    assert [(item.name, item.reason) for item in left] == [("w" + ending, APPLIED)]


def test_zero_point_is_found_too():
    known = entries(w=("uint8", (3, 2)), w_scale=("float32", ()), w_zero_point=("uint8", ()))
    _, scalings, left = split_quantised(known)
    assert scalings == {"w": Scaling("w_scale", "w_zero_point")}
    assert len(left) == 2


def test_scales_and_zero_points_count_no_parameters():
    layer = {"fc__weight_scale": ("float32", (3,)), "fc__input_scale": ("float32", ()), "fc__input_zero": ("uint8", ())}
    known = entries(fc__weight=("int8", (3, 2)), fc__bias=("float32", (3,)), input_scale=("float32", ()), **layer)
    found, _, left = split_quantised(known)
    assert list(found) == ["fc.weight", "fc.bias", "input_scale"]  # the last belongs to no rounded layer
    assert {item.name: item.parameters for item in left} == {name.replace("__", "."): 0 for name in layer}


def test_real_weights_are_not_scaled():
    known = entries(norm=("float32", (3,)), norm_scale=("float32", (3,)))
    assert split_quantised(known) == (known, {}, [])


def test_what_cannot_be_scaled_is_left_out_with_the_reason():
    known = entries(a=("int8", (3, 2)), b=("int8", (3, 2)), b_scale=("float32", (5,)), c__qweight=("int32", (4, 2)))
    found, scalings, left = split_quantised(known)
    assert (list(found), scalings) == (["b_scale"], {})
    reasons = {item.name: item.reason for item in left}
    assert reasons["a"] == "integer-quantised (int8), no scale"
    assert "(5,) does not fit (3, 2)" in reasons["b"]
    assert reasons["c.qweight"] == "integer-quantised (int32), no scale"
    assert sum(item.parameters for item in left) == 20


@pytest.mark.parametrize(
    ("dtype", "shape", "answer"),
    [("int8", (3, 2), True), ("int8", (3,), False), ("int64", (3, 2), False), ("bool", (3, 2), False)],
)
def test_which_integers_are_codes(dtype, shape, answer):
    assert is_quantised(Entry("w", shape, dtype)) is answer
