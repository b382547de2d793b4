from __future__ import annotations

import numpy as np
import pytest

from weightsmith.spiking._packed import PackedSpikes


@pytest.mark.parametrize("shapes", [[(2, 3, 4, 8)], [(3, 2, 5, 1), (1, 2, 5, 1), (3, 1, 5, 1)]])
def test_parts_come_back_in_any_order(tmp_path, shapes):
    draw = np.random.default_rng(0)
    parts = {(number, 0): draw.integers(0, 2, shape, dtype=np.uint8) for number, shape in enumerate(shapes)}
    kept = PackedSpikes(tmp_path / "spikes")
    for part, spikes in parts.items():
        kept.write(part, spikes)
    for part in reversed(parts):
        found = kept.read(part)
        assert found.dtype == np.uint8
        assert np.array_equal(found, parts[part])
    assert (tmp_path / "spikes").stat().st_size == sum(-(-spikes.size // 8) for spikes in parts.values())


def test_the_room_is_given_back(tmp_path):
    kept = PackedSpikes(tmp_path / "spikes")
    kept.write("a", np.ones((2, 2), np.uint8))
    kept.remove()
    assert list(tmp_path.iterdir()) == []
