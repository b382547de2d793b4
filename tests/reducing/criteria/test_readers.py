"""Readers as least-squares problems: what they predict is what the network does."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.reducing.networks import KINDS, inputs, network

from weightsmith.reducing.context import PruningContext
from weightsmith.reducing.criteria.elimination import eliminate
from weightsmith.reducing.criteria.readers import readers_of
from weightsmith.reducing.surgery.masking import silenced
from weightsmith.reducing.surgery.sites import find_sites


def _context(kind: str, rows: int = 80) -> PruningContext:
    whole, x = network(kind).double(), inputs(kind, rows).double()
    sites = find_sites(network(kind), inputs(kind, 2)).sites
    return PruningContext(whole, sites, x, torch.arange(rows) % 5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_refitted_weights_stand_in_for_removed_units(kind: str) -> None:
    """Removed units are not read any more, and the outputs are nearer than those of a plain mask."""
    context = _context(kind)
    for site in context.sites:
        readers = readers_of(context)[site.name]
        kept = site.units // 2
        found = eliminate([reader.problem for reader in readers], 1e-9, keep=kept, at=[kept])
        changed = copy.deepcopy(context.network)
        for reader, weight in zip(readers, found.weights[kept], strict=True):
            reader.put(changed, weight)
        on = {site.name: np.isin(np.arange(site.units), found.order, invert=True)}
        x, whole = context.x, context.network(context.x)
        with silenced(changed, [site], on):  # removed units are read with weight 0: silencing them changes nothing
            expected = changed(x)
        torch.testing.assert_close(changed(x), expected)
        with silenced(context.network, [site], on):
            plain = (context.network(x) - whole).square().mean()
        assert float((changed(x) - whole).square().mean()) <= float(plain)  # equal where no unit has an effect


@torch.no_grad()
def test_the_predicted_error_is_the_measured_one() -> None:
    context = _context("mlp", 300)
    site = context.sites[1]
    (reader,) = readers_of(context)[site.name]
    found = eliminate([reader.problem], 1e-12, keep=6, at=[6])
    changed = copy.deepcopy(context.network)
    reader.put(changed, found.weights[6][0])
    whole, small = context.network(context.x), changed(context.x)
    error = (whole - small).square().sum() / (whole - whole.mean(dim=0)).square().sum()
    assert float(error) == pytest.approx(found.errors[-1], rel=1e-4)
