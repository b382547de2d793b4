"""Layouts are right when torch computes with them what Keras says its layers compute."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from weightsmith.networks.readers.keraslayouts import LayerFacts, is_recurrent, layout_of, roles_of

UNKNOWN = LayerFacts()


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def turned(role: str, kernel: np.ndarray, facts: LayerFacts = UNKNOWN, gates: int = 0) -> torch.Tensor:
    return layout_of(role, kernel.shape, facts, gates).turn(torch.from_numpy(kernel))


def test_dense():
    kernel, x = draw(5, 3), draw(2, 5)
    weight = turned("kernel", kernel, LayerFacts("dense"))
    np.testing.assert_allclose(F.linear(torch.from_numpy(x), weight).numpy(), x @ kernel)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(groups):
    """Keras: out[o] = Σ over positions and inputs of its group of x[h, w, i] · kernel[h, w, i, o]."""
    kernel, x = draw(2, 3, 4 // groups, 6), draw(2, 3, 4)
    layout = layout_of("kernel", kernel.shape, LayerFacts("conv2d", groups))
    weight = layout.turn(torch.from_numpy(kernel))
    parts = zip(np.split(x, groups, axis=2), np.split(kernel, groups, axis=3), strict=True)
    expected = np.concatenate([np.einsum("hwi,hwio->o", part, filters) for part, filters in parts])
    image = torch.from_numpy(x).permute(2, 0, 1)[None]
    np.testing.assert_allclose(F.conv2d(image, weight, groups=groups).flatten().numpy(), expected)
    assert str(layout.form) == ("Conv2d" if groups == 1 else "Conv2d(groups=2)")


@pytest.mark.parametrize("dimensions", [1, 3])
def test_convolutions_of_other_dimensions(dimensions):
    kernel, x = draw(*[2] * dimensions, 4, 6), draw(*[2] * dimensions, 4)
    weight = turned("kernel", kernel, LayerFacts(f"conv{dimensions}d"))
    image = torch.from_numpy(x).movedim(-1, 0)[None]
    out = {1: F.conv1d, 3: F.conv3d}[dimensions](image, weight)
    np.testing.assert_allclose(out.flatten().numpy(), np.tensordot(x, kernel, dimensions + 1))


def test_transposed_convolution():
    """Keras: one pixel x[i] writes Σ x[i] · kernel[h, w, o, i] at h, w."""
    kernel, x = draw(2, 3, 5, 4), draw(4)
    weight = turned("kernel", kernel, LayerFacts("conv2d_transpose"))
    out = F.conv_transpose2d(torch.from_numpy(x)[None, :, None, None], weight)
    np.testing.assert_allclose(out[0].numpy(), np.einsum("hwoi,i->ohw", kernel, x))


@pytest.mark.parametrize("role", ["kernel", "depthwise_kernel"])
def test_depthwise(role):
    """Keras: output channel i·m + q is x[…, i] with kernel[…, i, q]."""
    kernel, x = draw(2, 3, 4, 2), draw(2, 3, 4)
    layout = layout_of(role, kernel.shape, LayerFacts("depthwise_conv2d"))
    weight = layout.turn(torch.from_numpy(kernel))
    out = F.conv2d(torch.from_numpy(x).permute(2, 0, 1)[None], weight, groups=4)
    np.testing.assert_allclose(out.flatten().numpy(), np.einsum("hwi,hwiq->iq", x, kernel).flatten())
    assert str(layout.form) == "Conv2d(groups=4)"


@pytest.mark.parametrize(
    ("equation", "shape", "sizes"),
    [
        ("abc,cde->abde", (5, 2, 3), {"c": 5}),
        ("abcd,cde->abe", (2, 3, 5), {"c": 2, "d": 3}),
        ("ab,bc->ac", (5, 4), {"b": 5}),
    ],
)
def test_einsum_dense_by_its_equation(equation, shape, sizes):
    kernel = draw(*shape)
    weight = turned("kernel", kernel, LayerFacts("einsum_dense", equation=equation))
    inputs = int(np.prod(list(sizes.values())))
    left = equation.split(",")[0]
    x = draw(*[sizes.get(letter, 1) for letter in left])
    expected = np.einsum(equation, x, kernel).flatten()
    np.testing.assert_allclose((weight @ torch.from_numpy(x.reshape(inputs))).numpy(), expected)


def test_attention_without_a_configuration():
    query, output = draw(6, 2, 3), draw(2, 3, 6)
    assert np.array_equal(turned("kernel", query, LayerFacts("einsum_dense")).numpy(), query.reshape(6, 6).T)
    facts = LayerFacts("einsum_dense", output=True)
    assert np.array_equal(turned("kernel", output, facts).numpy(), output.reshape(6, 6).T)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_lstm():
    """Keras: i, f, c, o = split(x·kernel + h·recurrent + bias)."""
    kernel, recurrent, bias, x, h, c = draw(5, 12), draw(3, 12), draw(12), draw(5), draw(3), draw(3) + 1
    i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
    new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    cell = torch.nn.LSTMCell(5, 3).double()
    with torch.no_grad():
        cell.weight_ih.copy_(turned("kernel", kernel, gates=4))
        cell.weight_hh.copy_(turned("recurrent_kernel", recurrent, gates=4))
        cell.bias_ih.copy_(torch.from_numpy(bias))
        cell.bias_hh.zero_()
        out = cell(torch.from_numpy(x)[None], (torch.from_numpy(h)[None], torch.from_numpy(c)[None]))
    np.testing.assert_allclose(out[1][0].numpy(), new)
    np.testing.assert_allclose(out[0][0].numpy(), sigmoid(o) * np.tanh(new))


def test_gru():
    """Keras (reset_after): z, r, h = split(x·kernel), split(h·recurrent); h' = z·h + (1−z)·tanh(xh + r·hh)."""
    kernel, recurrent, x, h = draw(5, 9), draw(3, 9), draw(5), draw(3)
    (xz, xr, xh), (hz, hr, hh) = np.split(x @ kernel, 3), np.split(h @ recurrent, 3)
    z, r = sigmoid(xz + hz), sigmoid(xr + hr)
    cell = torch.nn.GRUCell(5, 3, bias=False).double()
    with torch.no_grad():
        cell.weight_ih.copy_(turned("kernel", kernel, gates=3))
        cell.weight_hh.copy_(turned("recurrent_kernel", recurrent, gates=3))
        out = cell(torch.from_numpy(x)[None], torch.from_numpy(h)[None])
    np.testing.assert_allclose(out[0].numpy(), z * h + (1 - z) * np.tanh(xh + r * hh))


def test_names_and_forms():
    def name_and_form(
        role: str, shape: tuple[int, ...], facts: LayerFacts = UNKNOWN, gates: int = 0
    ) -> tuple[str, str]:
        layout = layout_of(role, shape, facts, gates)
        return layout.name, str(layout.form)

    assert name_and_form("embeddings", (9, 4)) == ("weight", "Embedding")
    assert name_and_form("gamma", (4,)) == ("weight", "None")
    assert name_and_form("moving_variance", (4,)) == ("running_var", "None")
    assert name_and_form("bias", (4,)) == ("bias", "None")
    assert name_and_form("pointwise_kernel", (1, 1, 4, 6)) == ("pointwise.weight", "Conv2d")
    assert name_and_form("kernel", (5, 12), LayerFacts(backward=True), 4) == ("weight_ih_l0_reverse", "LSTM(gates=4)")
    assert name_and_form("strange", (2, 2)) == ("strange", "None")


@pytest.mark.parametrize(
    ("kind", "shapes", "cell", "roles"),
    [
        ("dense", [(5, 3), (3,)], False, ["kernel", "bias"]),
        ("dense", [(5, 3)], False, ["kernel"]),
        ("embedding", [(9, 4)], False, ["embeddings"]),
        ("lstm_cell", [(5, 12), (3, 12), (12,)], True, ["kernel", "recurrent_kernel", "bias"]),
        ("batch_normalization", [(4,)] * 4, False, ["gamma", "beta", "moving_mean", "moving_variance"]),
        ("batch_normalization", [(4,)] * 2, False, ["moving_mean", "moving_variance"]),
        ("layer_normalization", [(4,), (4,)], False, ["gamma", "beta"]),
        (
            "separable_conv2d",
            [(3, 3, 4, 1), (1, 1, 4, 8), (8,)],
            False,
            ["depthwise_kernel", "pointwise_kernel", "bias"],
        ),
        ("my_layer", [(5, 3), (3,), (2, 2)], False, ["kernel", "bias", "2"]),
        ("my_layer", [(3,), (5, 3)], False, ["0", "1"]),
        ("anything", [], False, []),
    ],
)
def test_variables_by_number(kind, shapes, cell, roles):
    assert roles_of(kind, shapes, cell) == roles


@pytest.mark.parametrize(
    ("shapes", "answer"),
    [([(5, 12), (3, 12)], True), ([(5, 12), (4, 12), (12,)], True), ([(5, 12), (5, 12)], False), ([(5, 12)], False)],
)
def test_which_variables_are_a_recurrent_layer(shapes, answer):
    assert is_recurrent(shapes) is answer
