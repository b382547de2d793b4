"""Sites: who writes and reads which units, found in two ways that must agree."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from tests.reducing.networks import KINDS, inputs, network
from torch import Tensor, nn

from weightsmith.core.errors import MissingExtra, UnknownName, UsageError
from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery import sites
from weightsmith.reducing.surgery._graph_sites import graph_sites
from weightsmith.reducing.surgery.removal import cut_out
from weightsmith.reducing.surgery.sites import Sites, find_sites


def _sites(kind: str) -> Sites:
    return find_sites(network(kind), inputs(kind, 2))


@pytest.mark.parametrize("kind", ["mlp", "mlp with batch norm"])
def test_both_finders_agree_on_dense_networks(kind: str) -> None:
    by_fx = _sites(kind).sites
    by_graph = graph_sites(network(kind), inputs(kind, 2)).sites
    assert len(by_fx) == len(by_graph) == 2
    for ours, theirs in zip(by_fx, by_graph, strict=True):
        assert ours.units == theirs.units
        assert ours.activation == theirs.activation
        for ports, positions in (
            (ours.writers, theirs.writers),
            (ours.carriers, theirs.carriers),
            (ours.readers, theirs.readers),
        ):
            assert [port.layer for port in ports] == [layer for layer, _ in positions]
            assert all(np.array_equal(port.indices, at) for port, (_, at) in zip(ports, positions, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_graph_fails_units_that_only_flow_on_are_found_alike(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_graph = {site.name: site for site in _sites(kind).sites}
    monkeypatch.setattr(sites, "graph_sites", _failing)
    by_fx = _sites(kind).sites
    inner = [site.name for site in by_graph.values() if len(site.writers) == 1]
    assert [site.name for site in by_fx] == inner
    for site in by_fx:
        same = by_graph[site.name]
        assert [port.layer for port in site.ports] == [port.layer for port in same.ports]
        assert all(np.array_equal(a.indices, b.indices) for a, b in zip(site.ports, same.ports, strict=True))
        assert (site.activation, site.shifts, site.norms) == (same.activation, same.shifts, same.norms)


def _failing(network: nn.Module, example: Tensor) -> None:
    raise UsageError("cannot be traced")


class _Shuffled(nn.Module):
    """Half of the channels pass a branch with a depthwise convolution, then all are shuffled (ShuffleNet's unit)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.branch = nn.Sequential(
            nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1), nn.ReLU(),
        )  # fmt: skip
        self.last, self.output = nn.Conv2d(8, 6, 1), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.first(x).chunk(2, dim=1)
        joined = torch.cat([left, self.branch(right)], dim=1)
        rows, channels, height, width = joined.size()
        shuffled = joined.view(rows, 2, channels // 2, height, width).transpose(1, 2).reshape(rows, -1, height, width)
        return self.output(torch.relu(self.last(shuffled)).mean([2, 3]))


def test_shuffled_channels_stay_and_those_inside_the_branch_go(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    whole, x = _Shuffled().eval(), torch.randn(8, 3, 6, 6)
    monkeypatch.setattr(sites, "graph_sites", _failing)
    found = find_sites(whole, x[:2])
    assert [site.name for site in found.sites] == ["branch.0", "last"]
    assert [port.layer for port in found.sites[0].carriers] == ["branch.1", "branch.3", "branch.4"]
    assert "pass through chunk" in found.obstacles["first"]
    assert "pass through cat" in found.obstacles["branch.5"]
    choices = [Choice(site.name, site.units, (Removal(1), Removal(2))) for site in found.sites]
    cut = cut_out(whole, found.sites, choices, x)
    assert not cut.refused
    assert cut.network.branch[3].groups == 2


def test_flattened_channels_are_read_at_several_inputs() -> None:
    last = next(site for site in _sites("vgg").sites if site.name == "features.6")
    (reader,) = last.readers
    assert reader.layer == "classifier.1"
    assert reader.indices.shape == (10, 4)  # 2 × 2 positions
    assert reader.indices[3].tolist() == [12, 13, 14, 15]


def test_residual_layers_with_convolution_shortcuts_lose_units_together() -> None:
    found = {site.name: site for site in _sites("resnet conv").sites}
    assert found["conv1"].layers == ("conv1", "layer1.0.conv2")
    assert found["layer2.0.conv2"].layers == ("layer2.0.conv2", "layer2.0.downsample.0")
    assert {port.layer for port in found["conv1"].readers} == {
        "layer1.0.conv1",
        "layer2.0.conv1",
        "layer2.0.downsample.0",
    }


def test_zero_padded_shortcuts_leave_only_inner_channels() -> None:
    found = _sites("resnet pad")
    assert [site.name for site in found.sites] == ["layer1.0.conv1", "layer2.0.conv1", "layer3.0.conv1"]
    assert "only some of" in found.obstacles["conv1"]
    assert "only some of" in found.obstacles["layer2.0.conv2"] or "are more than" in found.obstacles["layer2.0.conv2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_layer_is_no_site(kind: str) -> None:
    found = _sites(kind)
    last = [name for name, module in network(kind).named_modules() if isinstance(module, nn.Linear)][-1]
    assert found.obstacles[last] == "gives the output of the network"
    assert all(last not in site.layers for site in found.sites)


@pytest.mark.parametrize(
    ("kind", "site", "takers"),
    [
        ("mlp", "dense1", {"dense2": "dense2"}),
        ("vgg", "features.0", {}),
        ("vgg with bias", "features.0", {"features.3": "features.3"}),
        ("resnet pad", "layer1.0.conv1", {"layer1.0.conv2": "layer1.0.bn2"}),
    ],
)
def test_constants_go_into_a_bias_or_a_batch_norm(kind: str, site: str, takers: dict[str, str]) -> None:
    found = next(item for item in _sites(kind).sites if item.name == site)
    assert found.shifts == takers
    assert found.takes_constants == bool(takers)


def test_layers_are_chosen_by_globs_and_refused_with_the_reason() -> None:
    found = _sites("resnet pad")
    assert [site.name for site in found.matching(["layer[12]*"])] == ["layer1.0.conv1", "layer2.0.conv1"]
    with pytest.raises(UsageError, match="conv1: cannot be cut: its 4 units are only some"):
        found.matching("conv1")
    with pytest.raises(UnknownName, match="layer9"):
        found.matching("layer9.conv1")


def test_a_coupled_layer_is_found_by_any_of_its_names() -> None:
    assert [site.name for site in _sites("resnet conv").matching("layer1.0.conv2")] == ["conv1"]


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.shared(torch.relu(self.shared(torch.relu(self.first(x)))))))


class _Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x) + self.second(x)))


class _Loose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 1), nn.Parameter(torch.randn(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(torch.relu(self.first(x)).mean((2, 3)), self.last)


def test_dense_layers_that_torch_fx_cannot_follow_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    twice = find_sites(_Twice(), torch.zeros(2, 4))
    assert not twice.sites
    assert "used more than once" in twice.obstacles["shared"]
    assert "used more than once" in twice.obstacles["first"]
    sums = find_sites(_Sum(), torch.zeros(2, 4))
    assert "add" in sums.obstacles["first"]
    with pytest.raises(UsageError, match="nothing can be removed"):
        twice.matching(None)


def test_a_parameter_outside_layers_is_no_silent_reader() -> None:
    found = find_sites(_Loose(), torch.zeros(2, 3, 4, 4))
    assert not found.sites
    assert found.obstacles["last"] == "is a parameter outside the layers that can be cut"
    assert "first" in found.obstacles


def test_grouped_convolutions_are_refused_and_depthwise_ones_carried() -> None:
    grouped = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4, 2))
    assert find_sites(grouped, torch.zeros(2, 4, 4, 4)).obstacles["0"] == "is a grouped convolution"
    depthwise = nn.Sequential(
        nn.Conv2d(3, 6, 1), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)
    )
    (site,) = find_sites(depthwise, torch.zeros(2, 3, 4, 4)).sites
    assert [port.layer for port in site.carriers] == ["2"]
    assert site.readers[0].indices.shape == (6, 4)


def test_recurrent_layers_are_refused_by_name() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.last = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.cell(x[:, None])[0][:, -1])

    found = find_sites(Recurrent(), torch.zeros(2, 4))
    assert not found.sites
    assert any(name.startswith("cell") for name in found.obstacles)


def test_frozen_layers_can_be_cut_and_the_network_stays_as_it_is() -> None:
    made = network("vgg").requires_grad_(False)
    assert len(find_sites(made, inputs("vgg", 2)).sites) == 4
    assert not any(value.requires_grad for value in made.parameters())


def test_without_the_extra_convolutions_are_refused_and_dense_networks_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    assert len(find_sites(mlp(4, 3, 2), torch.zeros(2, 4)).sites) == 1
    with pytest.raises(MissingExtra, match="prune"):
        _sites("vgg")


def test_shared_and_computed_weights_are_refused_by_name() -> None:
    tied = nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)
    )
    tied[4].weight = tied[2].weight
    found = find_sites(tied, torch.zeros(2, 4))
    assert not found.sites
    assert found.obstacles["0"] == "2 shares its weights with 4"
    normed = nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 1)), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)
    )
    assert "parametrisation" in find_sites(normed, torch.zeros(2, 3, 2, 2)).obstacles["0"]


def test_no_layers_are_not_all_layers() -> None:
    with pytest.raises(UsageError, match="names no layer"):
        _sites("mlp").matching([])


def test_sums_and_joins_of_dense_layers_take_the_dependency_graph() -> None:
    """With the extra, what torch.fx alone cannot follow can be cut after all."""
    (site,) = find_sites(_Sum(), torch.zeros(2, 4)).sites
    assert site.layers == ("first", "second")


@pytest.mark.parametrize(
    ("between", "activation"),
    [
        ((nn.ReLU(), nn.Sigmoid()), None),
        ((nn.Sigmoid(),), "sigmoid"),
        ((nn.ReLU(), nn.ReLU()), "relu"),
        ((nn.Mish(),), "mish"),
        ((), None),
    ],
)
def test_the_activation_is_known_only_where_there_is_one(
    between: tuple[nn.Module, ...], activation: str | None
) -> None:
    dense = nn.Sequential(nn.Linear(4, 6), *between, nn.Linear(6, 2))
    assert find_sites(dense, torch.zeros(2, 4)).sites[0].activation == activation
    if activation != "mish":  # autograd has no name of its own for it
        conv = nn.Sequential(nn.Conv2d(3, 6, 1), *between, nn.Flatten(), nn.Linear(24, 2))
        assert find_sites(conv, torch.zeros(2, 3, 2, 2)).sites[0].activation == activation


def test_obstacles_hold_no_address() -> None:
    class Softmaxed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.softmax(self.first(x), dim=1))

    assert not any("0x" in reason for reason in find_sites(Softmaxed(), torch.zeros(2, 4)).obstacles.values())
