"""The refit of cut networks, against a slow solver on patches unfolded by torch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import Tensor, nn
from torch.nn import functional

from weightsmith.networks.card import card_of, with_card
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.refitting import refit as module_of_refit
from weightsmith.reducing.refitting.options import LeastSquares
from weightsmith.reducing.refitting.refit import refit, stand_ins
from weightsmith.reducing.surgery.removal import cut_out, plain_cut
from weightsmith.reducing.surgery.sites import Site, find_sites

_KINDS = ("mlp", "mlp with batch norm", "vgg", "vgg with bias", "vgg with batch norm", "resnet pad", "resnet conv")


def _cut(
    kind: str, every: int = 2, only: str | None = None
) -> tuple[nn.Module, nn.Module, tuple[Site, ...], list[Choice]]:
    whole = network(kind).double()
    sites = find_sites(whole.float(), inputs(kind, 2)).matching(only)
    whole = whole.double()
    choices = [Choice(s.name, s.units, tuple(map(Removal, range(0, s.units, every)))) for s in sites]
    small = plain_cut(whole, sites, {choice.site: choice.kept for choice in choices}).eval()
    return whole, with_card(small, card_of(whole)), sites, choices


def _outputs(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return module(x)  # type: ignore[no-any-return]


def _hooked(module: nn.Module, layer: str, x: Tensor) -> tuple[Tensor, Tensor]:
    seen = []
    handle = module.get_submodule(layer).register_forward_hook(lambda _, given, out: seen.append((given[0], out)))
    _outputs(module, x)
    handle.remove()
    return seen[0]  # type: ignore[no-any-return]


def _slow_change(x: np.ndarray, r: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Least squares with the penalty as further rows, an unpenalised constant as a further column."""
    columns = x.shape[1]
    level = np.sqrt(ridge * np.square(x - x.mean(0)).sum() / columns)
    rows = np.block([[x, np.ones((len(x), 1))], [level * np.eye(columns), np.zeros((columns, 1))]])
    found = np.linalg.lstsq(rows, np.concatenate([r, np.zeros((columns, r.shape[1]))]), rcond=None)[0]
    return found[:-1].T, found[-1]


def test_a_residual_block_equals_the_slow_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches with their padding, batch norm behind, and what the sum has lost, all by hand; the block's only layer."""
    monkeypatch.setattr(module_of_refit, "_LAST_RIDGE", 0.0)
    whole, small, sites, choices = _cut("resnet conv", only="layer2.0.conv1")
    with torch.no_grad():  # a drift of the stream before the block, which its refit must make good
        small.conv1.weight.add_(0.05)
    before = copy.deepcopy(small)
    x = inputs("resnet conv", 60).double()
    ridge = 1e-3
    record = refit(whole, small, sites, choices, x=x, option=LeastSquares(ridge))
    assert [layer.layer for layer in record.layers] == ["layer2.0.conv2", "fc"]
    assert record.layers[0].sum
    assert record.layers[0].after < record.layers[0].before

    given, _ = _hooked(before, "layer2.0.conv2", x)
    _, original = _hooked(whole, "layer2.0.conv2", x)
    shortcut = _hooked(whole, "layer2.0.downsample", x)[1] - _hooked(before, "layer2.0.downsample", x)[1]
    norm, weight = whole.layer2[0].bn2, before.layer2[0].conv2.weight.detach()
    factor = norm.weight.detach() / torch.sqrt(norm.running_var + norm.eps)
    target = original + shortcut / factor.reshape(-1, 1, 1)
    patches = functional.unfold(given, 3, padding=1).movedim(1, 2).reshape(-1, weight[0].numel()).numpy()
    rows = target.flatten(2).movedim(1, 2).reshape(-1, len(weight)).numpy()
    change, constant = _slow_change(patches, rows - patches @ weight.flatten(1).numpy().T, ridge)
    found = small.layer2[0].conv2.weight.detach() - weight
    np.testing.assert_allclose(found.flatten(1).numpy(), change, rtol=1e-6, atol=1e-9)
    moved = before.layer2[0].bn2.running_mean - small.layer2[0].bn2.running_mean
    np.testing.assert_allclose(moved.numpy(), constant, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", _KINDS)
def test_outputs_come_nearer_to_those_of_the_original(kind: str) -> None:
    whole, small, sites, choices = _cut(kind, every=3)
    x, other = inputs(kind, 400, seed=1).double(), inputs(kind, 100, seed=2).double()
    expected, before = _outputs(whole, other), _outputs(small, other)
    record = refit(whole, small, sites, choices, x=x, option=LeastSquares())
    after = _outputs(small, other)
    assert float((after - expected).square().mean()) < 0.7 * float((before - expected).square().mean())
    readers = {port.layer for site in sites for port in site.readers}
    assert readers <= {layer.layer for layer in record.layers}
    assert not record.left
    assert all(layer.after <= layer.before + 1e-9 for layer in record.layers)
    assert record.rows == 400


@pytest.mark.parametrize("kind", ["mlp", "vgg with bias", "resnet conv"])
def test_an_exact_cut_stays_exact(kind: str) -> None:
    """Twins merged into each other: outputs are those of the original, and the refit must leave them so."""
    whole = network(kind)
    sites = find_sites(whole, inputs(kind, 2)).sites[:1]
    site = sites[0]
    with torch.no_grad():
        for port in (*site.writers, *site.carriers):
            for tensor in (*whole.get_submodule(port.layer).parameters(), *whole.get_submodule(port.layer).buffers()):
                if tensor.dim():
                    tensor[1] = tensor[0]
    whole = whole.double()
    x = inputs(kind, 100).double()
    choice = Choice(site.name, site.units, (Removal(1, (0,), (1.0,)),))
    small = cut_out(whole, sites, [choice], x[:8]).network.eval()
    refit(whole, with_card(small, card_of(whole)), sites, [choice], x=x, option=LeastSquares())
    torch.testing.assert_close(_outputs(small, x), _outputs(whole, x), rtol=1e-9, atol=1e-9)


def test_a_flattened_layer_takes_over_what_other_channels_say() -> None:
    """A channel that is twice another is lost by a plain cut; behind the flattening the map gives it back."""
    whole = network("vgg")
    sites = find_sites(whole, inputs("vgg", 2)).sites
    site = next(site for site in sites if site.readers[0].indices.shape[1] > 1)
    with torch.no_grad():
        weight = whole.get_submodule(site.writers[0].layer).weight
        weight[3] = 2 * weight[1]
    whole = whole.double()
    choice = Choice(site.name, site.units, (Removal(3),))
    small = with_card(plain_cut(whole, [site], {site.name: choice.kept}).eval(), card_of(whole))
    x, other = inputs("vgg", 200, seed=1).double(), inputs("vgg", 50, seed=2).double()
    before = (_outputs(small, other) - _outputs(whole, other)).abs().max()
    refit(whole, small, [site], [choice], x=x, option=LeastSquares(1e-9))
    assert float((_outputs(small, other) - _outputs(whole, other)).abs().max()) < 1e-3 * float(before)


def test_what_stands_in_follows_units_merged_later() -> None:
    choice = Choice("a", 4, (Removal(3, (1,), (2.0,), 1.0), Removal(1, (0,), (3.0,), 0.5)))
    mapped, constants = stand_ins(choice)
    assert mapped.tolist() == [[1.0, 3.0, 0.0, 6.0], [0.0, 0.0, 1.0, 0.0]]
    assert constants.tolist() == [0.0, 0.5, 0.0, 2.0]


def test_the_original_is_not_changed() -> None:
    whole, small, sites, choices = _cut("resnet pad")
    before = {name: value.clone() for name, value in whole.state_dict().items()}
    refit(whole, small, sites, choices, x=inputs("resnet pad", 50).double(), option=LeastSquares())
    assert all(torch.equal(value, before[name]) for name, value in whole.state_dict().items())
