from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weightsmith.core.errors import UsageError
from weightsmith.data.normalise import HALF
from weightsmith.networks.card import card_of, with_card
from weightsmith.networks.models.vgg import vgg
from weightsmith.spiking.conversion.convert import convert
from weightsmith.spiking.conversion.percentile import RunningPercentile, activation_levels
from weightsmith.spiking.encoding import Constant
from weightsmith.spiking.neurons import IF


@settings(max_examples=200, deadline=None)
@given(
    percent=st.floats(0, 100, exclude_min=True) | st.sampled_from([99.9, 99.0, 50.0, 100.0]),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    rows=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_parts_give_the_percentile_of_the_whole(percent, sizes, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(rows, size, generator=generator).relu() for size in sizes]
    whole = torch.cat(parts, dim=1).double().numpy()
    running = RunningPercentile(percent, whole.shape[1])
    for part in parts:
        running.add(part)
    np.testing.assert_allclose(running.value().numpy(), np.percentile(whole, percent, axis=1), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(running.largest().numpy(), whole.max(axis=1))


def test_only_the_upper_end_is_kept():
    running = RunningPercentile(99.9, 100_000)
    for part in torch.rand(1, 100_000, generator=torch.Generator().manual_seed(0)).split(10_000, dim=1):
        running.add(part)
        assert running._kept.numel() <= 101
    with pytest.raises(UsageError, match="3 of the values are missing"):
        RunningPercentile(50, 3).value()


@pytest.mark.parametrize("per_channel", [True, False])
def test_levels_are_percentiles_over_images_and_positions(per_channel):
    network = vgg(5, (3, 8, 8), 4, widths=(4, 5, 6), classifier=(8,), batch_norm=True, bias=True, seed=3)
    with_card(network, card_of(network).__class__(input_shape=(3, 8, 8), normalisation=HALF))
    found = convert(network, IF(), Constant())
    x = torch.randint(0, 256, (70, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    calls = []
    levels = activation_levels(found, x, 97.5, per_channel=per_channel, progress=lambda *parts: calls.append(parts))
    assert calls == [(32, 70), (64, 70), (70, 70)]
    values = found.activations((x.float() / 255 - 0.5) / 0.5)
    assert list(levels) == list(values)
    for name, level in levels.items():
        array = values[name].transpose(0, 1).flatten(1).double().numpy()
        array = array if per_channel else array.reshape(1, -1)
        np.testing.assert_allclose(level.percentile, np.percentile(array, 97.5, axis=1), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(level.largest, array.max(axis=1), rtol=1e-5, atol=1e-7)
