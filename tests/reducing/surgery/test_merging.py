"""Rows of units as batch norms scale them, and units that have no mean."""

from __future__ import annotations

import pytest
import torch
from tests.reducing.networks import inputs, network
from torch import nn

from weightsmith.core.errors import UsageError
from weightsmith.reducing.decisions import Choice, Removal
from weightsmith.reducing.surgery.merging import fold_units, rows_of
from weightsmith.reducing.surgery.sites import find_sites


def _site(whole: nn.Module, x: torch.Tensor):  # type: ignore[no-untyped-def]
    return next(site for site in find_sites(whole, x[:2]).sites if len(site.writers) == 1)


@torch.no_grad()
def test_rows_and_constant_are_those_of_the_layer_and_its_norm() -> None:
    whole, x = network("mlp with batch norm"), inputs("mlp with batch norm")
    site = _site(whole, x)
    rows = rows_of(whole, site)
    assert rows is not None
    norm = whole.get_submodule(site.norms[site.name])
    given = norm(whole.get_submodule(site.name)(x.flatten(1)))
    torch.testing.assert_close(
        (x.flatten(1).double() @ rows[:, :-1].T + rows[:, -1]).float(), given, rtol=1e-4, atol=1e-4
    )


def test_units_that_pass_through_a_layer_norm_have_no_mean() -> None:
    pytest.importorskip("torch_pruning", reason="the extra prune is not installed")
    whole = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))
    site = _site(whole, torch.randn(4, 4))
    assert rows_of(whole, site) is None
    folded = Choice(site.name, 6, (Removal(1, (0,), (1.0,), inputs="fold"),))
    with pytest.raises(UsageError, match="cannot be folded"):
        fold_units(whole, site, folded)
