"""Accuracies of masks, against networks that are really cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reducing.networks import inputs, network
from torch import nn

from weightsmith.core.errors import DataMismatch
from weightsmith.networks.models.mlp import mlp
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.search import evaluator as population
from weightsmith.reducing.search.evaluator import Readout, _last_layer, _one, accuracies
from weightsmith.reducing.surgery.removal import plain_cut
from weightsmith.reducing.surgery.sites import find_sites


def _scene(kind: str, rows: int = 40, **options: object) -> PruningContext:
    whole, x = network(kind), inputs(kind, rows)
    sites = find_sites(whole, x[:2]).sites
    with torch.no_grad():
        y = (whole(x) + 0.5 * torch.randn(rows, 5, generator=torch.Generator().manual_seed(5))).argmax(dim=1)
    return PruningContext(whole, sites, x, y, batch=16, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["mlp", "vgg", "resnet conv"])
def test_accuracies_of_masks_are_those_of_cut_networks(kind: str) -> None:
    context = _scene(kind)
    generator = np.random.default_rng(1)
    masks = generator.random((6, context.bits)) < 0.7
    for part in context.site_slices:
        masks[:, part.start] = True
    found = context.evaluator()(masks)
    for mask, accuracy in zip(masks, found, strict=True):
        kept = {name: np.flatnonzero(on).tolist() for name, on in context.split(mask).items()}
        with torch.no_grad():
            called = plain_cut(context.network, context.sites, kept)(context.x).argmax(dim=1)
        assert accuracy == pytest.approx(100 * float((called == context.y).float().mean()))


def test_one_hidden_layer_is_evaluated_in_one_product_with_the_same_result() -> None:
    whole, x = mlp(10, 15, 4, activation="sigmoid"), torch.randn(50, 10)
    y = torch.arange(50) % 4
    context = PruningContext(whole, find_sites(whole, x[:2]).sites, x, y, batch=16)
    assert _last_layer(context, x) is not None
    masks = np.random.default_rng(0).random((20, 15)) < 0.5
    slow = [_one(context, [x], y, mask) for mask in masks]
    np.testing.assert_array_equal(context.evaluator()(masks), slow)


def test_what_follows_the_last_layer_forbids_the_short_way() -> None:
    whole = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 3), nn.Softmax(dim=1)).eval()
    x = torch.randn(20, 4)
    context = PruningContext(whole, find_sites(whole, x[:2]).sites, x, torch.arange(20) % 3)
    assert _last_layer(context, x) is None
    assert context.evaluator()(np.ones((1, 6), bool)).shape == (1,)


def test_rows_are_drawn_by_the_seed() -> None:
    context = _scene("mlp")
    mask = np.ones((1, context.bits), bool)
    some = {float(_scene("mlp", seed=seed).evaluator(10)(mask)[0]) for seed in range(12)}
    assert len(some) > 1
    assert context.evaluator(10)(mask) == context.evaluator(10)(mask)
    assert context.evaluator(1000)(mask) == context.evaluator()(mask)


def _layer(rows: int, units: int, classes: int, seed: int = 0, whole: bool = False) -> tuple[np.ndarray, ...]:
    """Activations, weights, bias and labels; ``whole`` numbers make every sum exact and equal logits frequent."""
    random = np.random.default_rng(seed)
    if whole:
        hidden, weight = random.integers(0, 3, (rows, units)), random.integers(-1, 2, (classes, units))
        bias = random.integers(-1, 2, classes)
    else:
        hidden, weight = random.random((rows, units)), random.normal(size=(classes, units))
        bias = random.normal(size=classes)
    return (
        hidden.astype(np.float32),
        weight.astype(np.float32),
        bias.astype(np.float32),
        random.integers(0, classes, rows),
    )


def cut_one_by_one(hidden, weight, bias, labels, masks):
    """A network for each mask with the other units cut out, its answer by torch's argmax."""
    found = []
    for mask in masks:
        layer = torch.nn.Linear(int(mask.sum()), len(weight))
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight[:, mask]))
            layer.bias.copy_(torch.from_numpy(bias))
            called = layer(torch.from_numpy(hidden[:, mask])).argmax(dim=1)
        found.append(100 * float((called.numpy() == labels).mean()))
    return np.array(found)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 6), st.integers(1, 20), st.integers(0, 10**6))
def test_each_equals_the_network_with_the_units_cut_out_even_with_equal_logits(rows, units, classes, count, seed):
    given_ = _layer(rows, units, classes, seed, whole=True)
    masks = np.random.default_rng(seed + 1).random((count, units)) < 0.5
    masks[:, 0] |= ~masks.any(axis=1)
    np.testing.assert_allclose(accuracies(*given_, masks), cut_one_by_one(*given_, masks), rtol=1e-12)


def test_real_numbers_and_a_class_without_rows():
    hidden, weight, bias, labels = _layer(300, 50, 7)
    labels[labels == 3] = 4
    masks = np.random.default_rng(1).random((80, 50)) < 0.5
    np.testing.assert_allclose(
        accuracies(hidden, weight, bias, labels, masks), cut_one_by_one(hidden, weight, bias, labels, masks), rtol=1e-12
    )


def test_what_all_classes_share_does_not_drown_the_difference():
    """Classes are compared by their differences: a large common part of the weights, as rounding, changes nothing."""
    hidden, weight, bias, labels = _layer(200, 20, 4)
    masks = np.random.default_rng(1).random((40, 20)) < 0.5
    shifted = weight.astype(np.float64) + 1e6
    np.testing.assert_array_equal(
        accuracies(hidden, shifted, bias, labels, masks), accuracies(hidden, weight, bias, labels, masks)
    )


def test_blocks_change_nothing(monkeypatch):
    given_ = _layer(101, 9, 4, whole=True)
    masks = np.random.default_rng(1).random((33, 9)) < 0.5
    whole = accuracies(*given_, masks)
    monkeypatch.setattr(population, "_MOST_WEIGHTS", 5 * 4 * 9)
    monkeypatch.setattr(population, "_MOST_LOGITS", 5 * 4 * 13)
    np.testing.assert_array_equal(accuracies(*given_, masks), whole)
    monkeypatch.setattr(population, "_MOST_WEIGHTS", 1)
    monkeypatch.setattr(population, "_MOST_LOGITS", 1)
    np.testing.assert_array_equal(accuracies(*given_, masks), whole)


def test_the_empty_mask_leaves_the_bias_to_decide_and_no_bias_the_first_class():
    hidden, weight, _, labels = _layer(50, 5, 3)
    nothing = np.zeros((1, 5), np.bool_)
    assert accuracies(hidden, weight, [0.0, 0.0, 1.0], labels, nothing)[0] == pytest.approx(100 * (labels == 2).mean())
    assert accuracies(hidden, weight, None, labels, nothing)[0] == pytest.approx(100 * (labels == 0).mean())
    assert accuracies(hidden, weight, None, labels, nothing[:0]).shape == (0,)


def test_the_inputs_stay_as_they_are():
    given_ = _layer(20, 5, 3)
    before = [array.copy() for array in given_]
    masks = np.ones((2, 5), np.bool_)
    accuracies(*given_, masks)
    for array, copy in zip((*given_, masks), (*before, np.ones((2, 5), np.bool_)), strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": np.zeros((4, 3))}, "do not have the same units"),
        ({"bias": np.zeros(3)}, "the bias has the shape"),
        ({"labels": np.array([0, 1, 0])}, "must be 4 whole numbers"),
        ({"labels": np.array([0.0, 1.0, 0.0, 1.0])}, "must be 4 whole numbers"),
        ({"labels": np.array([0, 1, 2, 1])}, "labels run from 0 to 2, but there are 2 classes"),
        ({"labels": np.array([0, 1, -1, 1])}, "labels run from -1"),
        ({"hidden": np.full((4, 2), np.nan)}, "the activations contain NaN"),
        ({"weight": np.full((2, 2), np.inf)}, "the output weights contain NaN"),
        ({"hidden": np.zeros((0, 2)), "labels": np.zeros(0, int)}, "nothing to evaluate"),
        ({"hidden": np.zeros((4, 0)), "weight": np.zeros((2, 0))}, "nothing to evaluate"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    good = {
        "hidden": np.zeros((4, 2)),
        "weight": np.zeros((2, 2)),
        "bias": np.zeros(2),
        "labels": np.array([0, 1, 0, 1]),
    }
    with pytest.raises(DataMismatch, match=message):
        Readout(**{**good, **change})


def test_masks_of_another_length_are_refused():
    with pytest.raises(DataMismatch, match="the layer has 5 units"):
        Readout(*_layer(20, 5, 3))(np.ones((2, 4), np.bool_))
