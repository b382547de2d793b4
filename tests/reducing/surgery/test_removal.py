"""Surgery equals masking, for every kind of network and every kind of decision, and what does not is rolled back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reducing.networks import KINDS, inputs, network
from torch import Tensor, nn

from weightsmith.networks.files import load
from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.masking import masked
from weightsmith.reducing.surgery.removal import cut_out, plain_cut
from weightsmith.reducing.surgery.sites import Site, find_sites


def _choice(site: Site, generator: np.random.Generator) -> Choice:
    """Any decision that can be said: cuts, merges of merged units, groups, constants where readers take them."""
    alive = list(range(site.units))
    removals = []
    for _ in range(int(generator.integers(1, site.units))):
        unit = alive.pop(int(generator.integers(len(alive))))
        count = int(generator.integers(0, min(3, len(alive)) + 1))
        into = tuple(int(i) for i in generator.choice(alive, count, replace=False))
        constant = float(generator.normal()) if site.takes_constants and generator.random() < 0.5 else 0.0
        removals.append(Removal(unit, into, tuple(generator.normal(size=count).tolist()), constant))
    return Choice(site.name, site.units, tuple(removals))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_cut_network_equals_the_masked_one(kind: str, seed: int) -> None:
    whole, x = network(kind, seed), inputs(kind, seed=seed)
    sites = find_sites(whole, x[:2]).sites
    generator = np.random.default_rng(seed)
    choices = [_choice(site, generator) for site in sites if generator.random() < 0.8]
    cut = cut_out(whole, sites, choices, x)
    assert not cut.refused
    assert cut.done == tuple(choices)
    fresh = inputs(kind, seed=seed + 1)
    with torch.no_grad(), masked(copy.deepcopy(whole), sites, choices) as reference:
        expected = reference(fresh)
        given_ = cut.network(fresh)
    assert float((given_ - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))
    if choices:
        assert _size(cut.network) < _size(whole)
    for choice in choices:
        assert cut.network.get_submodule(choice.site).weight.shape[0] == len(choice.kept)


def _size(module: nn.Module) -> int:
    return sum(value.numel() for value in module.parameters())


def test_masking_by_hand() -> None:
    """One hidden layer, written out: h₂ becomes 0.5·h₀ + 3, and h₁ nothing."""
    whole, x = mlp(4, 3, 2, activation="sigmoid"), torch.randn(5, 4)
    sites = find_sites(whole, x[:2]).sites
    choice = Choice("dense1", 3, (Removal(2, (0,), (0.5,), 3.0), Removal(1)))
    with torch.no_grad():
        hidden = torch.sigmoid(whole.dense1(x))
        changed = torch.stack([hidden[:, 0], torch.zeros(5), 0.5 * hidden[:, 0] + 3.0], dim=1)
        expected = whole.output(changed)
        with masked(copy.deepcopy(whole), sites, [choice]) as twin:
            assert torch.allclose(twin(x), expected, atol=1e-6)
        cut = cut_out(whole, sites, [choice], x)
        assert torch.allclose(cut.network(x), expected, atol=1e-6)
    assert cut.network.dense1.out_features == 1


def test_a_merged_unit_takes_along_what_was_merged_into_it() -> None:
    whole, x = mlp(4, 3, 2, activation="sigmoid"), torch.randn(5, 4)
    sites = find_sites(whole, x[:2]).sites
    choice = Choice("dense1", 3, (Removal(2, (1,), (2.0,)), Removal(1, (0,), (0.5,))))
    weight = whole.output.weight
    expected = weight[:, 0] + 0.5 * (weight[:, 1] + 2.0 * weight[:, 2])
    assert torch.allclose(cut_out(whole, sites, [choice], x).network.output.weight[:, 0], expected)


def test_input_weights_are_summed_or_averaged_when_asked() -> None:
    whole, x = mlp(4, 3, 2, activation="sigmoid"), torch.randn(5, 4)
    sites = find_sites(whole, x[:2]).sites
    for word, share in (("sum", 1.0), ("mean", 0.5)):
        choice = Choice("dense1", 3, (Removal(2, (0,), (1.0,), inputs=word),))  # type: ignore[arg-type]
        cut = cut_out(whole, sites, [choice], x)
        assert not cut.refused
        assert torch.allclose(cut.network.dense1.weight[0], share * (whole.dense1.weight[0] + whole.dense1.weight[2]))
        assert torch.allclose(cut.network.dense1.bias[0], share * (whole.dense1.bias[0] + whole.dense1.bias[2]))


def test_the_network_that_came_in_is_not_changed() -> None:
    whole, x = network("resnet conv"), inputs("resnet conv")
    before = {name: value.clone() for name, value in whole.state_dict().items()}
    sites = find_sites(whole, x[:2]).sites
    cut_out(whole, sites, [Choice("conv1", 4, (Removal(1, (0,), (0.7,), 0.3),))], x)
    assert all(torch.equal(value, before[name]) for name, value in whole.state_dict().items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in whole.modules())


class _FixedView(nn.Module):
    """Runs only at its own width, as many networks of users do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 6, 1), nn.Linear(6 * 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(x.reshape(-1, 24))


class _LeaksWidth(nn.Module):
    """Divides by the number of its channels: it runs at any width, but computes something else."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 6, 1), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(x.mean((2, 3)) / x.shape[1])


@pytest.mark.parametrize(("made", "words"), [(_FixedView, "does not run"), (_LeaksWidth, "differs by")])
def test_a_cut_that_goes_wrong_is_rolled_back_alone(made: type[nn.Module], words: str) -> None:
    whole, x = made().eval(), torch.randn(8, 3, 2, 2)
    sites = find_sites(whole, x[:2]).sites
    assert [site.name for site in sites] == ["first", "second"]
    choices = [Choice("first", 4, (Removal(1),)), Choice("second", 6, (Removal(5),))]
    cut = cut_out(whole, sites, choices, x)
    assert words in cut.refused["second"]
    assert [choice.site for choice in cut.done] == ["first"]
    assert cut.network.second.weight.shape == (6, 3, 1, 1)
    with torch.no_grad():
        cut.network(x)


def test_plain_cut_keeps_the_units_named_of_any_twin() -> None:
    whole, twin = network("vgg", 0), network("vgg", 1)
    sites = find_sites(whole, inputs("vgg", 2)).sites
    small = plain_cut(twin, sites, {"features.0": (1, 4), "classifier.1": range(3)})
    assert torch.equal(small.features[0].weight, twin.features[0].weight[[1, 4]])
    assert torch.equal(small.features[3].weight, twin.features[3].weight[:, [1, 4]])
    assert small.classifier[1].weight.shape == (3, 40)


def test_trainable_and_frozen_parameters_stay_so() -> None:
    whole, x = network("vgg"), inputs("vgg")
    whole.features[0].weight.requires_grad_(False)
    cut = cut_out(whole, find_sites(whole, x[:2]).sites, [Choice("features.0", 6, (Removal(0),))], x)
    assert not cut.network.features[0].weight.requires_grad
    assert cut.network.features[3].weight.requires_grad


def test_agrees_with_torch_pruning(reference: object, unpack: object) -> None:
    """The same channels cut by torch-pruning itself: shapes, parameters and outputs of the stored vectors."""
    vectors = reference("torch_pruning")  # type: ignore[operator]
    layers = {name: torch.from_numpy(unpack(entry)) for name, entry in vectors["layers"].items()}  # type: ignore[operator]
    whole = nn.Sequential(
        *(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(32, 12), nn.ReLU(), nn.Linear(12, 5)),
    ).double()
    whole.load_state_dict({name: value / value[0].numel() ** 0.5 for name, value in layers.items()})
    image = torch.from_numpy(unpack(vectors["image"]))  # type: ignore[operator]
    sites = find_sites(whole, image).sites
    choices = [
        Choice(site.name, site.units, tuple(Removal(unit) for unit in vectors["removed"][site.name]))
        for site in sites
        if site.name in vectors["removed"]
    ]
    cut = cut_out(whole, sites, choices, image)
    facts = vectors["after"]
    assert {name: list(value.shape) for name, value in cut.network.state_dict().items()} == facts["shapes"]
    with torch.no_grad():
        expected = torch.tensor(facts["logits"], dtype=torch.float64)
        torch.testing.assert_close(cut.network(image), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.data
@pytest.mark.parametrize("file", ["vgg5_fc512", "akamaster_resnet20", "distiller_resnet20_dense"])
def test_pretrained_networks_cut_as_masked(shared_data: Path, file: str) -> None:
    whole = load(shared_data / "weights" / f"{file}.safetensors")
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    sites = find_sites(whole, x[:2]).sites
    generator = np.random.default_rng(3)
    choices = []
    for site in sites:
        gone = generator.choice(site.units, site.units // 3, replace=False).tolist()
        left = [unit for unit in range(site.units) if unit not in gone]
        factors = generator.normal(size=len(gone)) / 3
        choices.append(
            Choice(
                site.name,
                site.units,
                tuple(
                    Removal(unit, (left[k % len(left)],), (float(factors[k]),), 0.1 if site.takes_constants else 0.0)
                    for k, unit in enumerate(gone)
                ),
            )
        )
    cut = cut_out(whole, sites, choices, x)
    assert not cut.refused
    assert len(cut.done) == len(sites)
    assert _size(cut.network) < 0.75 * _size(whole)
    with torch.no_grad(), masked(whole, sites, choices):
        expected, found = whole(x), cut.network(x)
    assert float((found - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


class _Small(nn.Module):
    """Gives outputs of any size; its readers see each unit twice."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 1), nn.Linear(16, 4)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)) * self.scale


def test_units_that_are_joined_to_themselves_are_no_site() -> None:
    found = find_sites(_Small(1.0), torch.randn(2, 3, 4, 4))
    assert [site.name for site in found.sites] == ["first"]
    assert "joined" in found.obstacles["second"]


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_check_does_not_depend_on_the_scale_of_the_outputs(scale: float) -> None:
    class Scaled(_LeaksWidth):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * scale

    whole, x = Scaled().eval(), torch.randn(8, 3, 2, 2)
    sites = find_sites(whole, x[:2]).sites
    cut = cut_out(whole, sites, [Choice("first", 4, (Removal(1),)), Choice("second", 6, (Removal(5),))], x)
    assert [choice.site for choice in cut.done] == ["first"]
    assert "differs by" in cut.refused["second"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_stay_as_they_were(dtype: torch.dtype, computable: Callable[[torch.dtype], None]) -> None:
    computable(dtype)
    whole, x = network("mlp with batch norm").to(dtype), inputs("mlp with batch norm").to(dtype)
    sites = find_sites(whole, x[:2]).sites
    cut = cut_out(whole, sites, [Choice("dense1", 20, (Removal(1, (0,), (0.5,), 0.25),))], x)
    assert not cut.refused
    assert {value.dtype for value in cut.network.state_dict().values()} == {dtype, torch.int64}
    assert cut.network(x).dtype == dtype


class _OwnType(nn.Module):
    """Makes float32 tensors inside, so it cannot run in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)).to(torch.float32))


def test_a_network_that_runs_in_its_own_type_only_is_checked_in_it() -> None:
    whole, x = _OwnType().eval(), torch.randn(8, 4)
    sites = find_sites(whole, x[:2]).sites
    if not sites:
        pytest.skip("not a site here")
    cut = cut_out(whole, sites, [Choice("first", 6, (Removal(1),))], x)
    assert not cut.refused


def test_an_assertion_of_the_user_leaves_the_site_whole() -> None:
    class Asserts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 4, 1), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.first(x)).mean((2, 3))
            assert x.shape[1] == 4
            return self.last(x)

    whole, x = Asserts().eval(), torch.randn(4, 3, 2, 2)
    cut = cut_out(whole, find_sites(whole, x[:2]).sites, [Choice("first", 4, (Removal(0),))], x)
    assert "does not run without these units" in cut.refused["first"]
