"""The plain rules: smallest weights, or chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network

from weightsmith.core.errors import UsageError
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.plain import Magnitude, NormScale, Random
from weightsmith.reducing.surgery.sites import find_sites


def _scene(kind: str, seed: int = 0) -> PruningContext:
    whole, x = network(kind), inputs(kind)
    return PruningContext(whole, find_sites(whole, x[:2]).sites, x, torch.zeros(len(x), dtype=torch.int64), seed=seed)


@pytest.mark.parametrize("norm", [1, 2])
def test_the_smallest_weights_go(norm: int) -> None:
    context = _scene("vgg")
    counts = {site.name: site.units // 2 for site in context.sites}
    for site, choice in zip(context.sites, Magnitude(norm).choose(context, counts).choices, strict=True):  # type: ignore[arg-type]
        weight = context.network.get_submodule(site.name).weight.detach().flatten(1).double().numpy()
        sizes = np.linalg.norm(weight, ord=norm, axis=1)
        assert sorted(choice.kept) == sorted(np.argsort(sizes)[-(site.units // 2) :])


def test_coupled_layers_count_together() -> None:
    context = _scene("resnet conv")
    site = context.sites[0]
    assert site.layers == ("conv1", "layer1.0.conv2")
    sizes = sum(context.network.get_submodule(name).weight.detach().abs().flatten(1).sum(dim=1) for name in site.layers)
    counts = {one.name: 1 for one in context.sites}
    assert Magnitude().choose(context, counts).choices[0].kept == (int(sizes.argmax()),)


def test_of_equal_units_the_later_goes() -> None:
    context = _scene("mlp")
    with torch.no_grad():
        context.network.dense1.weight.fill_(1.0)
    assert Magnitude().choose(context, {"dense1": 3, "dense2": 12}).choices[0].kept == (0, 1, 2)


def test_chance_comes_from_the_seed() -> None:
    counts = {"dense1": 10, "dense2": 6}
    first, again, other = (Random().choose(_scene("mlp", seed), counts) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert [len(choice.kept) for choice in first.choices] == [10, 6]


@pytest.mark.parametrize("method", [Magnitude(), Random()])
def test_both_must_be_told_how_much(method: Magnitude | Random) -> None:
    with pytest.raises(UsageError, match="does not determine how much"):
        method.choose(_scene("mlp"), None)


def test_the_smallest_factors_of_batch_norms_go() -> None:
    context = _scene("resnet conv")
    counts = {site.name: max(1, site.units // 2) for site in context.sites}
    for site, choice in zip(context.sites, NormScale().choose(context, counts).choices, strict=True):
        norms = [context.network.get_submodule(port.layer).weight.detach().abs() for port in site.carriers]
        factors = torch.stack(norms).sum(dim=0).double().numpy()
        assert min(factors[list(choice.kept)]) >= max(factors[sorted(set(range(site.units)) - set(choice.kept))])


def test_a_layer_without_a_batch_norm_is_named() -> None:
    with pytest.raises(UsageError, match="no batch norm with factors follows dense1"):
        NormScale().choose(_scene("mlp"), {"dense1": 3, "dense2": 3})
