from __future__ import annotations

import torch
from torch import nn

from weightsmith.core.records import Lineage
from weightsmith.data.normalise import HALF
from weightsmith.networks.card import Card, card_of, weights_digest, with_card
from weightsmith.networks.models.mlp import Mlp, mlp


def test_a_card_survives_json_with_everything_on_it():
    card = Card(
        Mlp((3,), input_shape=(4,), classes=2),
        input_shape=(4,),
        normalisation=HALF,
        classes=("cat", "dog"),
        lineage=Lineage("initialised").then("trained", "abc"),
        notes=("a note",),
        widths={"dense1": 3},
    )
    assert Card.from_json(card.to_json()) == card


def test_cards_from_before_widths_can_be_read():
    plain = Card(input_shape=(4,))
    values = plain.to_dict()
    assert values.pop("widths") == {}
    assert Card.from_dict(values) == plain


def test_a_network_without_a_card_gets_what_the_module_shows():
    assert card_of(mlp(4, 3, 2)).input_shape == (4,)
    assert card_of(nn.Linear(2, 2)) == Card()
    network = with_card(nn.Linear(2, 2), Card(classes=("a",)))
    assert card_of(network).classes == ("a",)


def test_the_digest_is_of_names_types_shapes_and_values():
    base = {"a": torch.arange(4.0), "b": torch.zeros(0)}
    others = [
        {"a": torch.arange(4.0) + 1, "b": torch.zeros(0)},
        {"A": torch.arange(4.0), "b": torch.zeros(0)},
        {"a": torch.arange(4.0).reshape(2, 2), "b": torch.zeros(0)},
        {"a": torch.arange(4.0, dtype=torch.float64), "b": torch.zeros(0)},
        {"a": torch.arange(4.0)},
    ]
    assert len({weights_digest(base), *map(weights_digest, others)}) == 6
    assert weights_digest(dict(reversed(base.items()))) == weights_digest(base)
    transposed = torch.arange(6.0).reshape(2, 3).T
    assert weights_digest({"a": transposed}) == weights_digest({"a": transposed.contiguous()})
    network = mlp(4, 3, 2)
    assert weights_digest(network) == weights_digest(network.state_dict())
