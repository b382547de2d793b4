"""The first-order effect of units on the loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reducing.networks import inputs, network
from torch.nn import functional

from weightsmith.core.errors import UsageError
from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.taylor import Taylor, taylor_scores
from weightsmith.reducing.surgery.masking import masked
from weightsmith.reducing.surgery.sites import find_sites


def _context(kind: str, rows: int = 12) -> PruningContext:
    whole, x = network(kind), inputs(kind, rows)
    return PruningContext(whole.double(), find_sites(whole, x[:2].double()).sites, x.double(), torch.arange(rows) % 3)


@pytest.mark.parametrize("kind", ["mlp", "vgg with bias", "resnet conv"])
def test_scores_are_slopes_of_the_loss(kind: str) -> None:
    """Against finite differences: each unit a little smaller, row by row."""
    context = _context(kind)
    site, step = context.sites[0], 1e-5
    found = taylor_scores(context, 100)[site.name]

    def losses(unit: int | None) -> torch.Tensor:
        handles = []

        def shrink(port):
            def hook(module, given):
                axis = 1 if given[0].dim() == 4 else given[0].dim() - 1
                values = given[0].movedim(axis, 0).clone()
                values[port.indices[unit]] *= 1 - step
                return (values.movedim(0, axis),)

            return hook

        if unit is not None:
            handles = [
                context.network.get_submodule(port.layer).register_forward_pre_hook(shrink(port))
                for port in site.readers
            ]
        with torch.no_grad():
            given = functional.cross_entropy(context.network(context.x), context.y, reduction="none")
        for handle in handles:
            handle.remove()
        return given

    whole = losses(None)
    for unit in range(min(4, site.units)):
        expected = float(((whole - losses(unit)) / step).abs().mean())
        assert found[unit] == pytest.approx(expected, rel=1e-2, abs=1e-7)


def test_the_smallest_go_and_nothing_is_left_behind() -> None:
    context = _context("mlp")
    counts = {"dense1": 5, "dense2": 4}
    choices = Taylor().choose(context, counts).choices
    scores = taylor_scores(context, 1000)
    for choice in choices:
        gone = sorted(set(range(choice.units)) - set(choice.kept))
        assert scores[choice.site][gone].max() <= scores[choice.site][list(choice.kept)].min()
    assert not any(module._forward_pre_hooks for module in context.network.modules())
    assert all(value.grad is None for value in context.network.parameters())
    with pytest.raises(UsageError, match="does not determine how much"):
        Taylor().choose(context, None)
    with masked(context.network, context.sites, choices):
        assert np.isfinite(context.network(context.x).detach().numpy()).all()
