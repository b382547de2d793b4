"""Layers whose forward is their author's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import weightsmith as ws
from weightsmith.data.tensors import Data, Split
from weightsmith.reducing.surgery.probing import cuttable_sites

pytest.importorskip("torch_pruning", reason="the extra prune is not installed")


class SamePadding(nn.Conv2d):
    """Pads on the right and below, as TensorFlow does with a stride of two."""

    def forward(self, x):
        return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.weight, self.bias, self.stride)


class Standardised(nn.Conv2d):
    """Standardises its weight over its inputs: one input fewer gives another weight everywhere."""

    def forward(self, x):
        weight = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        return functional.conv2d(x, weight / weight.std(dim=(1, 2, 3), keepdim=True), self.bias, self.stride, 1)


def _network(second: type[nn.Conv2d]) -> nn.Module:
    torch.manual_seed(0)
    first = SamePadding(3, 8, 3, stride=2)
    return nn.Sequential(
        first, nn.ReLU(), second(8, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
    ).eval()


def test_what_only_pads_in_its_own_way_loses_units() -> None:
    network, x = _network(SamePadding), torch.randn(8, 3, 12, 12)
    found = cuttable_sites(network, x)
    assert [site.name for site in found.sites] == ["0", "2"]


def test_what_looks_at_all_its_inputs_is_refused_by_its_name() -> None:
    network, x = _network(Standardised), torch.randn(8, 3, 12, 12)
    found = cuttable_sites(network, x)
    assert [site.name for site in found.sites] == ["2"]  # as a writer it is an ordinary one
    said = "0 (SamePadding) and 2 (Standardised) have forwards of their own, and the output differs by"
    assert found.obstacles["0"].startswith(said)


@pytest.mark.parametrize("by", ["error", "magnitude", "groups:15"])
def test_it_is_cut_checked_and_reloaded(by: str, tmp_path) -> None:
    network = _network(SamePadding)
    rows = torch.randn(200, 3, 12, 12)
    data = Data("own", Split(rows, torch.arange(200) % 4), test=Split(rows[:50], torch.arange(50) % 4))
    small = ws.reduce(network, data, by=by, target="params:0.6", random=0, latency=False)
    assert small.record.reduced.parameters <= 0.6 * small.record.whole.parameters
    assert not any(site.refused for site in small.record.sites)
    assert small.record.difference < 1e-4
    lost = {site.name for site in small.record.sites if site.after < site.before}
    said = any("2 (a SamePadding cannot be refitted)" in note for note in small.record.notes)
    assert said == ("0" in lost)
    ws.save(small.network, tmp_path / "small.safetensors")
    again = ws.load(tmp_path / "small.safetensors", network=lambda: _network(SamePadding))
    assert torch.equal(again(rows[:4]), small.network(rows[:4]))
