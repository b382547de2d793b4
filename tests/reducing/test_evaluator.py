"""Accuracies of masks, against networks that are really cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import nn

from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.evaluator import _last_layer, _one_by_one
from weightsmith.reducing.scene import Scene
from weightsmith.reducing.sites import find_sites
from weightsmith.reducing.surgery import plain_cut


def _scene(kind: str, rows: int = 40, **options: object) -> Scene:
    whole, x = network(kind), inputs(kind, rows)
    sites = find_sites(whole, x[:2]).sites
    with torch.no_grad():
        y = (whole(x) + 0.5 * torch.randn(rows, 5, generator=torch.Generator().manual_seed(5))).argmax(dim=1)
    return Scene(whole, sites, x, y, batch=16, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["mlp", "vgg", "resnet conv"])
def test_accuracies_of_masks_are_those_of_cut_networks(kind: str) -> None:
    scene = _scene(kind)
    generator = np.random.default_rng(1)
    masks = generator.random((6, scene.bits)) < 0.7
    for part in scene.site_slices:
        masks[:, part.start] = True
    found = scene.evaluator()(masks)
    for mask, accuracy in zip(masks, found, strict=True):
        kept = {name: np.flatnonzero(on).tolist() for name, on in scene.split(mask).items()}
        with torch.no_grad():
            called = plain_cut(scene.network, scene.sites, kept)(scene.x).argmax(dim=1)
        assert accuracy == pytest.approx(100 * float((called == scene.y).float().mean()))


def test_one_hidden_layer_is_evaluated_in_one_product_with_the_same_result() -> None:
    whole, x = mlp(10, 15, 4, activation="sigmoid"), torch.randn(50, 10)
    y = torch.arange(50) % 4
    scene = Scene(whole, find_sites(whole, x[:2]).sites, x, y, batch=16)
    assert _last_layer(scene, x) is not None
    masks = np.random.default_rng(0).random((20, 15)) < 0.5
    slow = _one_by_one(scene, [x], y, masks)
    np.testing.assert_array_equal(scene.evaluator()(masks), slow)


def test_what_follows_the_last_layer_forbids_the_short_way() -> None:
    whole = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 3), nn.Softmax(dim=1)).eval()
    x = torch.randn(20, 4)
    scene = Scene(whole, find_sites(whole, x[:2]).sites, x, torch.arange(20) % 3)
    assert _last_layer(scene, x) is None
    assert scene.evaluator()(np.ones((1, 6), bool)).shape == (1,)


def test_rows_are_drawn_by_the_seed() -> None:
    scene = _scene("mlp")
    mask = np.ones((1, scene.bits), bool)
    some = {float(_scene("mlp", seed=seed).evaluator(10)(mask)[0]) for seed in range(12)}
    assert len(some) > 1
    assert scene.evaluator(10)(mask) == scene.evaluator(10)(mask)
    assert scene.evaluator(1000)(mask) == scene.evaluator()(mask)
