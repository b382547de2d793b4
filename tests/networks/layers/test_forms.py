"""A layer's matrices are right when they do what the layer does."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from weightsmith.networks.layers.forms import Form

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
SPREAD = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
KERNELS = {1: (4,), 2: (2, 3), 3: (2, 1, 3)}


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolution_is_the_sum_of_its_positions(dimensions, groups):
    kernel = KERNELS[dimensions]
    weight = draw(12, 6 // groups, *kernel)
    image = draw(1, 6, *kernel)  # as large as the kernel, so that there is one output
    matrices = Form(f"Conv{dimensions}d", groups).stack(weight)
    positions = list(itertools.product(*map(range, kernel)))
    assert matrices.shape == (groups * len(positions), 12 // groups, 6 // groups)
    out = []
    for group, inputs in enumerate(image[0].chunk(groups)):
        slices = matrices[group * len(positions) :]
        out.append(sum(slices[i] @ inputs[(slice(None), *position)] for i, position in enumerate(positions)))
    torch.testing.assert_close(torch.cat(out), CONVOLVE[dimensions](image, weight, groups=groups).flatten())


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_transposed_convolution_writes_one_matrix_per_position(dimensions, groups):
    kernel = KERNELS[dimensions]
    weight = draw(6, 12 // groups, *kernel)
    pixel = draw(1, 6, *[1] * dimensions)
    matrices = Form(f"ConvTranspose{dimensions}d", groups).stack(weight)
    out = SPREAD[dimensions](pixel, weight, groups=groups)[0]
    positions = list(itertools.product(*map(range, kernel)))
    assert matrices.shape == (groups * len(positions), 12 // groups, 6 // groups)
    for i, position in enumerate(positions):
        parts = [matrices[g * len(positions) + i] @ part.flatten() for g, part in enumerate(pixel[0].chunk(groups))]
        torch.testing.assert_close(torch.cat(parts), out[(slice(None), *position)])


def test_gates_are_rows_cut_into_equal_parts():
    weight = draw(12, 5)
    matrices = Form("LSTM", gates=4).stack(weight)
    assert torch.equal(matrices, torch.stack(weight.chunk(4)))
    both_ways = Form("GRU", gates=3).stack(draw(2, 12, 5))
    assert both_ways.shape == (6, 4, 5)


def test_matrices_are_views_where_strides_allow():
    for form, shape in [
        (Form("Linear"), (3, 4)),
        (Form("Conv2d"), (5, 4, 3, 3)),
        (Form("ConvTranspose2d"), (5, 4, 3, 3)),
        (Form("LSTM", gates=4), (8, 4)),
        (Form("Experts"), (2, 3, 4)),
    ]:
        weight = torch.zeros(shape)
        assert form.stack(weight).untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()


@pytest.mark.parametrize("text", ["Linear", "Conv2d(groups=32)", "LSTM(gates=4)"])
def test_text_form(text):
    assert str(Form.parse(text)) == text
    with pytest.raises(ValueError, match="kind of layer"):
        Form.parse(text + "(")


@pytest.mark.parametrize(
    ("text", "shape", "fits"),
    [
        ("Conv2d", (4, 3, 3, 3), True),
        ("Conv2d", (4, 3, 3), False),
        ("Conv2d(groups=3)", (4, 1, 3, 3), False),
        ("LSTM(gates=4)", (8, 2), True),
        ("LSTM(gates=4)", (9, 2), False),
        ("Linear", (3, 0), False),
        ("Linear", (3, 2, 1), False),
    ],
)
def test_a_form_knows_what_it_fits(text, shape, fits):
    assert Form.parse(text).fits(shape) is fits


def test_shape_of_the_stack_needs_no_values():
    # Two terabytes, if it were allocated.
    assert Form("Conv2d", 2).stack_shape((1 << 18, 1 << 18, 3, 3)) == (18, 1 << 17, 1 << 18)
