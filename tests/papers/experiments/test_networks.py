from __future__ import annotations

import pytest

from weightsmith.core.errors import DataMissing
from weightsmith.papers.experiments.networks import AKAMASTER, graded


def test_a_network_is_found_by_name_or_trained_here(tmp_path, monkeypatch):
    import weightsmith as ws

    (tmp_path / "weights").mkdir()
    ws.save(ws.networks.mlp(64, 32, 10), tmp_path / "weights" / "own.safetensors")
    assert [layer.name for layer in graded("own", tmp_path).layers] == ["dense1", "output"]
    assert len(graded("mlp:16", None).layers) == 2
    monkeypatch.delenv("WEIGHTSMITH_DATA", raising=False)
    with pytest.raises(DataMissing, match="--quick"):
        graded(next(iter(AKAMASTER)), tmp_path)
