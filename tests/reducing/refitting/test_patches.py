"""Rows of a layer: their product with the flattened weight is what the layer gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from weightsmith.networks.editing.resizing import outputs_first
from weightsmith.reducing.refitting.patches import columns_of, drawn_places, input_rows, is_supported, output_rows, taps

_LAYERS = {
    "dense": (nn.Linear(6, 4), (5, 6)),
    "dense on tokens": (nn.Linear(6, 4), (5, 3, 6)),
    "padded": (nn.Conv2d(3, 4, 3, padding=1), (5, 3, 7, 6)),
    "strided": (nn.Conv2d(3, 4, 3, stride=2, padding=(1, 2)), (5, 3, 8, 9)),
    "dilated": (nn.Conv2d(3, 4, (3, 2), dilation=2, padding=2), (5, 3, 8, 9)),
    "same": (nn.Conv2d(3, 4, (4, 3), padding="same", dilation=2), (5, 3, 8, 9)),
    "valid": (nn.Conv2d(3, 4, 3, padding="valid"), (5, 3, 8, 9)),
    "reflected": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (5, 3, 8, 9)),
    "one axis": (nn.Conv1d(3, 4, 5, padding=2), (5, 3, 11)),
    "transposed": (nn.ConvTranspose2d(3, 4, (4, 3), stride=2, padding=(1, 0), output_padding=(0, 1)), (5, 3, 5, 4)),
    "transposed, cropped": (nn.ConvTranspose1d(3, 4, 2, stride=3, padding=2, dilation=2), (5, 3, 6)),
    "three axes": (nn.Conv3d(2, 3, (1, 3, 2), padding=(0, 1, 1)), (2, 2, 3, 5, 4)),
}


@pytest.mark.parametrize("kind", _LAYERS)
@torch.no_grad()
def test_rows_times_the_weight_are_the_outputs(kind: str) -> None:
    layer, shape = _LAYERS[kind]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    y = layer(x)
    places = drawn_places(layer, y, 6, np.random.default_rng(0))
    rows = input_rows(layer, x, places)
    weight = outputs_first(layer).flatten(1)
    assert rows.shape[1] == weight.shape[1] == taps(layer) * x.shape[-1 if isinstance(layer, nn.Linear) else 1]
    torch.testing.assert_close(rows @ weight.T + layer.bias, output_rows(layer, y, places), rtol=1e-4, atol=1e-5)


def test_places_are_drawn_once_each_and_all_if_they_are_few() -> None:
    layer, y = nn.Conv2d(1, 1, 1), torch.zeros(2, 1, 4, 5)
    some = drawn_places(layer, y, 7, np.random.default_rng(0))
    assert some is not None
    assert len({(int(i), int(j)) for i, j in zip(*some, strict=True)}) == 7
    every = drawn_places(layer, y, 20, np.random.default_rng(0))
    assert every is not None
    assert len(every[0]) == 20


def test_columns_of_channels() -> None:
    layer = nn.Conv2d(3, 2, 2)
    x = torch.zeros(1, 3, 2, 2)
    x[:, 1] = 1.0
    rows = input_rows(layer, x, drawn_places(layer, layer(x), 9, np.random.default_rng(0)))
    assert np.flatnonzero(rows[0].numpy()).tolist() == columns_of(layer, np.array([1])).tolist()


def test_groups_are_not_one_product() -> None:
    assert not is_supported(nn.Conv2d(4, 4, 3, groups=2))
    assert not is_supported(nn.BatchNorm2d(4))
    assert is_supported(nn.Conv1d(4, 4, 3))
