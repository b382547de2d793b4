"""Rebuilt networks compute what the cut ones do, and keep what they were."""

from __future__ import annotations

import pytest
import torch
from tests.reducing.networks import KINDS, inputs, network
from torch import nn

from weightsmith.networks.card import card_of, weights_digest, with_card
from weightsmith.networks.models.architecture import architecture_of
from weightsmith.reducing.surgery.rebuilding import rebuilt
from weightsmith.reducing.surgery.removal import plain_cut
from weightsmith.reducing.surgery.sites import find_sites

pytestmark = pytest.mark.choice


@pytest.mark.parametrize("kind", KINDS)
def test_the_rebuilt_network_computes_the_same_from_its_architecture(kind: str) -> None:
    whole, x = network(kind), inputs(kind)
    sites = find_sites(whole, x[:2]).sites
    kept = {site.name: range(0, site.units, 2) for site in sites}
    cut = plain_cut(whole, sites, kept)
    units: dict[str, int] = {}
    for site in sites:
        units |= site.widths(whole, len(kept[site.name]))
    made = rebuilt(cut, whole, units, "cut by hand", x)
    fresh = architecture_of(made)
    assert fresh is not None
    assert {name: value.shape for name, value in fresh.build().state_dict().items()} == {
        name: value.shape for name, value in cut.state_dict().items()
    }
    with torch.no_grad():
        assert torch.equal(made(x), cut.eval()(x))
    lineage = card_of(made).lineage
    assert (lineage.operation, lineage.parent) == ("cut by hand", weights_digest(whole))


def test_a_module_of_the_users_own_keeps_its_widths_on_the_card() -> None:
    whole = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    sites = find_sites(whole, torch.zeros(2, 4)).sites
    made = rebuilt(plain_cut(whole, sites, {"0": (1, 2)}), whole, {"0": 2}, "cut", torch.zeros(2, 4))
    assert card_of(made).widths == {"0": 2}
    again = find_sites(made, torch.zeros(2, 4)).sites
    twice = rebuilt(plain_cut(made, again, {"0": (0,)}), made, {"0": 1}, "cut again", torch.zeros(2, 4))
    assert card_of(twice).widths == {"0": 1}
    assert [step.operation for step in card_of(twice).lineage.ancestors] == ["made in memory", "cut"]


def test_type_and_freezing_stay() -> None:
    whole = network("mlp").double()
    whole.dense1.bias.requires_grad_(False)
    with_card(whole, card_of(whole))
    sites = find_sites(whole, inputs("mlp", 2).double()).sites
    made = rebuilt(
        plain_cut(whole, sites, {"dense1": range(5)}), whole, {"dense1": 5}, "cut", inputs("mlp", 2).double()
    )
    assert made.dense1.weight.dtype == torch.float64
    assert [name for name, value in made.named_parameters() if not value.requires_grad] == ["dense1.bias"]


def test_a_network_that_was_changed_stays_what_it_is() -> None:
    """Its architecture says sigmoid; the module computes with another activation."""
    whole, x = network("mlp"), inputs("mlp")
    whole.activation1 = nn.ReLU()
    sites = find_sites(whole, x[:2]).sites
    cut = plain_cut(whole, sites, {"dense1": range(5)})
    made = rebuilt(cut, whole, {"dense1": 5}, "cut", x)
    assert made is cut
    assert architecture_of(made) is None
    assert card_of(made).architecture is None
    assert card_of(made).widths == {"dense1": 5}
