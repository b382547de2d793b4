from __future__ import annotations

import pytest

import weightsmith as ws
from weightsmith.core.errors import OptionError, UsageError

pytest.importorskip("nir")


@pytest.fixture(scope="module")
def spiking():
    network = ws.networks.mlp(64, 6, 10, bias=False, seed=0)
    return ws.spike(
        network, "digits", steps=2, test_rows=4, watch=0, neuron="if", balance="percentile:half=false"
    ).network


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"rounding": 21}, "rounding must be ≤ 20, not 21"), ({"steps": 0}, "steps must be a whole number ≥ 1, not 0")],
)
def test_options_have_their_range(spiking, tmp_path, wrong, message):
    with pytest.raises(OptionError, match=message):
        ws.export_nir(spiking, tmp_path / "net.nir", **wrong)
    assert not list(tmp_path.iterdir())


def test_the_file_has_its_ending_and_its_vector_the_steps(spiking, tmp_path):
    with pytest.raises(UsageError, match=r"NIR files end in \.nir"):
        ws.export_nir(spiking, tmp_path / "net.h5")
    found = ws.export_nir(spiking, tmp_path / "net.nir", steps=5)
    assert (found.steps, found.vector) == (5, "net.vector.npz")
    assert found.spikes == found.before
