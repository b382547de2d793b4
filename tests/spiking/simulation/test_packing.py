from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from tests.spiking.networks import weights

from weightsmith.spiking.graph import INPUT, Synapses
from weightsmith.spiking.simulation import packing
from weightsmith.spiking.simulation.packing import (
    Form,
    columns_last,
    dense_product,
    in_tiles,
    pattern_bytes,
    patterns_of,
    plain_of,
    table_of,
    tiles_of,
)

OUTPUTS = (1, 3, 5, 8, 10, 17, 64, 100, 130)


def _form(*, positions=1, part=6, signed=False, unit=1.0, state=np.float32, whole=False):
    return Form(positions, part, signed, unit, state, whole)


def _unpacked(table, positions):
    """(positions, depth, outputs and padding) of a table."""
    _, tiles, tile = table.bias.shape
    return (
        table.rows.reshape(tiles, positions, table.depth, tile)
        .transpose(1, 2, 0, 3)
        .reshape(positions, table.depth, -1)
    )


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("state", [np.float32, np.float64])
def test_a_row_for_every_input_of_a_dense_layer(outputs, state):
    node = Synapses("d", INPUT, weights(outputs, 12, seed=1), weights(outputs, seed=2))
    table = table_of(node, _form(state=state))
    rows = _unpacked(table, 2)
    assert rows.dtype == state
    assert np.array_equal(rows[:, :, :outputs].reshape(12, outputs), node.weight.numpy().T)
    assert not rows[:, :, outputs:].any()
    bias = table.bias.reshape(-1)
    assert bias.dtype == state
    assert np.array_equal(bias[:outputs], node.bias.numpy())
    assert not bias[outputs:].any()


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("state", [np.float32, np.float64])
def test_a_sum_for_every_pattern_of_eight_inputs(outputs, state):
    node = Synapses("c", INPUT, weights(outputs, 11, 2, 1, seed=1), weights(outputs, seed=2))
    table = patterns_of(node, _form(part=11, unit=0.5, state=state))
    _, tiles, tile = table.bias.shape
    sums = table.rows.reshape(tiles, 4, packing.LINES, tile).transpose(1, 2, 0, 3).reshape(4, packing.LINES, -1)
    assert sums.dtype == state
    assert table.rows.nbytes == pattern_bytes(node, np.dtype(state))
    assert np.array_equal(table.bias.reshape(-1)[:outputs], node.bias.numpy())
    for group, (row, channels) in enumerate([(0, range(8)), (0, range(8, 11)), (1, range(8)), (1, range(8, 11))]):
        for pattern in range(1 << len(channels)):
            chosen = [channel for bit, channel in enumerate(channels) if pattern >> bit & 1]
            expected = node.weight.double()[:, chosen, row, 0].sum(dim=1) / 2
            assert np.array_equal(sums[group, pattern, :outputs], expected.numpy())
    assert not sums[..., outputs:].any()


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_a_row_for_every_input_of_a_convolution(outputs):
    node = Synapses("c", INPUT, weights(outputs, 5, 2, 3, seed=1))
    table = table_of(node, _form(part=5, signed=True, unit=0.25))
    rows = _unpacked(table, 6)[:, :, :outputs]
    assert table.depth == 10
    for j in range(2):
        for i in range(3):
            for channel in range(5):
                expected = node.weight[:, channel, j, i].numpy() / 4
                assert np.array_equal(rows[j * 3 + i, channel], expected)
                assert np.array_equal(rows[j * 3 + i, 5 + channel], -expected)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("outputs", OUTPUTS)
def test_tiles_are_whole_vectors_that_begin_on_a_line(outputs, whole):
    node = Synapses("d", INPUT, torch.ones(outputs, 12))
    table = table_of(node, _form(whole=whole))
    _, tiles, tile = table.bias.shape
    lanes = 16 if whole else 8
    assert tile == table.registers * lanes
    assert table.registers in (1, 2, 4, 8, 16)
    assert (tiles - 1) * tile < outputs <= tiles * tile
    assert table.rows.ctypes.data % 64 == 0
    assert table.rows.dtype == (np.int16 if whole else np.float32)
    assert table.bias.dtype == np.float32


def test_so_many_rows_that_16_bits_hold_their_sum():
    node = Synapses("d", INPUT, torch.full((2, 3), -127.0))
    whole = table_of(node, _form(part=3, whole=True, signed=True))
    assert whole.most * 127 <= np.iinfo(np.int16).max < (whole.most + 2) * 127 + 127
    assert table_of(node, _form(part=3)).most > 10**15


def test_flattened_images_count_channel_by_channel():
    weight = weights(4, 3 * 10, seed=3)
    node = Synapses("d", INPUT, weight)
    image = torch.arange(30.0).reshape(3, 10)
    by_position = image.t().reshape(-1)
    assert torch.equal(columns_last(weight, 10) @ by_position, weight @ image.reshape(-1))
    assert columns_last(weight, 1) is weight
    rows = _unpacked(table_of(node, _form(positions=10, part=15)), 2)[:, :, :4].reshape(30, 4)
    assert np.array_equal(by_position.numpy() @ rows, (weight @ image.reshape(-1)).numpy())


def test_tables_are_laid_out_once_and_go_with_their_layer():
    node = Synapses("d", INPUT, weights(4, 12, seed=1))
    table = table_of(node, _form())
    assert table_of(node, _form()) is table
    assert table_of(node, _form(signed=True)) is not table
    assert table_of(Synapses("d", INPUT, node.weight), _form()) is not table
    known = len(packing._TABLES)
    del node, table
    gc.collect()
    assert len(packing._TABLES) < known


def test_weights_for_products_are_put_in_order_once():
    node = Synapses("d", INPUT, weights(4, 30, seed=1))
    ordered = plain_of(node, 10, torch.float64)
    assert ordered.dtype == torch.float64
    assert torch.equal(ordered.float(), columns_last(node.weight, 10))
    assert plain_of(node, 10, torch.float64) is ordered
    assert torch.equal(plain_of(node, 1, torch.float32), node.weight)
    conv = Synapses("c", INPUT, weights(4, 3, 2, 2, seed=2))
    assert torch.equal(plain_of(conv, 1, torch.float32), conv.weight)
    assert plain_of(conv, 1, torch.float32).is_contiguous(memory_format=torch.channels_last)


def test_weights_changed_in_place_are_laid_out_anew():
    node = Synapses("d", INPUT, weights(4, 12, seed=1))
    before = [table_of(node, _form()).rows.copy(), plain_of(node, 1, torch.float64).clone()]
    node.weight.mul_(2)
    assert np.array_equal(table_of(node, _form()).rows, 2 * before[0])
    assert torch.equal(plain_of(node, 1, torch.float64), 2 * before[1])


def test_in_tiles():
    values = np.arange(24.0).reshape(2, 3, 4)
    view = in_tiles(values, 2, 2, 0)
    assert view.shape == (6, 2, 2)
    assert np.shares_memory(view, values)
    padded = in_tiles(values, 2, 3, np.inf)
    assert padded.shape == (6, 2, 3)
    assert np.array_equal(padded.reshape(6, 6)[:, :4], values.reshape(6, 4))
    assert np.isinf(padded.reshape(6, 6)[:, 4:]).all()


@pytest.mark.parametrize(("positions", "kind"), [(4, np.float32), (1, np.float64), (1, np.float32)])
def test_a_large_dense_layer_is_multiplied_without_a_second_copy_of_its_weights(monkeypatch, positions, kind):
    node = Synapses("dense", "flat", torch.randn(11, 12, generator=torch.Generator().manual_seed(0)))
    values = np.random.default_rng(0).integers(0, 2, (2, 3, positions, 12 // positions)).astype(kind)
    kept = dense_product(node, values, (), (11,), None)
    monkeypatch.setattr(packing, "_KEPT", 0)
    monkeypatch.setattr(packing, "_OUTPUTS", 4)
    packing._PLAIN.clear()
    found = dense_product(node, values, (), (11,), None)
    assert np.allclose(found, kept, atol=1e-6)
    assert list(packing._PLAIN) == ([node] if (positions, kind) == (1, np.float32) else [])


@pytest.mark.parametrize("stored", [torch.float32, torch.float64, torch.int8])
@pytest.mark.parametrize(("whole", "state"), [(True, np.float32), (False, np.float32), (False, np.float64)])
@pytest.mark.parametrize("outputs", [5, 130])
def test_a_large_dense_layer_is_laid_out_tile_by_tile_and_never_kept(monkeypatch, stored, whole, state, outputs):
    weight = torch.randint(-127, 128, (outputs, 60), generator=torch.Generator().manual_seed(0)).to(stored)
    form = _form(positions=3, part=20, signed=True, unit=1.0 if whole else 1 / 9, state=state, whole=whole)
    kept, large = Synapses("d", INPUT, weight), Synapses("d", INPUT, weight)
    expected = _unpacked(table_of(kept, form), 3)
    by_position = columns_last(weight, 3).numpy().T.astype(np.float64) * form.unit
    assert np.array_equal(expected[:, :20, :outputs].reshape(60, outputs), by_position.astype(form.kind))
    assert np.array_equal(expected[:, 20:], -expected[:, :20])
    monkeypatch.setattr(packing, "_KEPT", 0)
    assert table_of(large, form).rows.size == 0
    tiles = [rows.copy().reshape(3, 40, -1) for rows in tiles_of(large, form)]
    assert np.array_equal(np.concatenate(tiles, axis=2)[:, :, :outputs], expected[:, :, :outputs])
