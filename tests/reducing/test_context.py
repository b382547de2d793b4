"""The scene: what readers are given, and accuracies of masks, against networks that are run by hand."""

from __future__ import annotations

import numpy as np
import torch
from tests.reducing.networks import inputs, network

from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.surgery.sites import find_sites


def _scene(kind: str, rows: int = 40, **options: object) -> PruningContext:
    whole, x = network(kind), inputs(kind, rows)
    sites = find_sites(whole, x[:2]).sites
    with torch.no_grad():
        y = (whole(x) + 0.5 * torch.randn(rows, 5, generator=torch.Generator().manual_seed(5))).argmax(dim=1)
    return PruningContext(whole, sites, x, y, batch=16, **options)  # type: ignore[arg-type]


def test_a_dense_unit_has_one_value_per_row() -> None:
    context = _scene("mlp")
    gram = context.grams({"dense1": 0.5, "dense2": 0.0})["dense1"]
    with torch.no_grad():
        hidden = torch.sigmoid(context.network.dense1(context.x)).double().numpy() - 0.5
    assert gram.rows == 40
    np.testing.assert_allclose(gram.products, hidden.T @ hidden, rtol=1e-5)


def test_a_channel_has_one_value_per_image_and_position() -> None:
    context = _scene("vgg")
    grams = context.grams(dict.fromkeys((site.name for site in context.sites), 0.0))
    given: dict[str, torch.Tensor] = {}
    for name in ("features.3", "classifier.1"):
        context.network.get_submodule(name).register_forward_pre_hook(
            lambda _m, seen, name=name: given.__setitem__(name, seen[0])
        )
    with torch.no_grad():
        context.network(context.x)
    maps = given["features.3"].movedim(1, -1).reshape(-1, 6).double().numpy()
    np.testing.assert_allclose(grams["features.0"].products, maps.T @ maps, rtol=1e-5, atol=1e-6)
    flat = given["classifier.1"].reshape(40, 10, 4).movedim(1, -1).reshape(-1, 10).double().numpy()
    np.testing.assert_allclose(grams["features.6"].products, flat.T @ flat, rtol=1e-5, atol=1e-6)
    assert grams["features.6"].rows == 160


def test_readers_of_the_same_values_count_once() -> None:
    """The block and its shortcut read one tensor; the first block reads another."""
    context = _scene("resnet conv")
    rows = {
        name: gram.rows for name, gram in context.grams(dict.fromkeys((s.name for s in context.sites), 0.0)).items()
    }
    assert rows["conv1"] == 40 * 64 * 2
    assert rows["layer2.0.conv2"] == 40 * 16


def test_reading_norms_are_those_of_the_folded_readers() -> None:
    context = _scene("resnet pad")
    site = context.sites[0]
    norm, conv = context.network.layer1[0].bn2, context.network.layer1[0].conv2
    with torch.no_grad():
        folded = conv.weight * (norm.weight / (norm.running_var + norm.eps).sqrt()).reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(context.reading_norms(site), folded.square().sum(dim=(0, 2, 3)).sqrt(), rtol=1e-5)
    flat = _scene("vgg")
    columns = flat.network.classifier[1].weight.detach().reshape(12, 10, 4).square().sum(dim=(0, 2)).sqrt()
    np.testing.assert_allclose(flat.reading_norms(flat.sites[2]), columns, rtol=1e-5)


def test_no_hook_stays_behind() -> None:
    context = _scene("resnet conv")
    context.grams(dict.fromkeys((site.name for site in context.sites), 0.0))
    context.evaluator()(np.ones((2, context.bits), bool))
    assert not any(module._forward_pre_hooks for module in context.network.modules())
