from __future__ import annotations

import dataclasses

import pytest

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.data.normalise import Normalisation
from weightsmith.networks.card import card_of
from weightsmith.training.transferring import base_network, ready_data


def test_a_base_keeps_its_normalisation_unless_another_is_given():
    base = ws.networks.mlp(4, 3, 2)
    assert base_network(base, None) is base
    other = base_network(base, "0.5/0.5")
    assert card_of(other).normalisation == Normalisation.parse("0.5/0.5")
    assert card_of(base).normalisation != card_of(other).normalisation


def test_data_get_names_for_their_classes_and_a_validation_split():
    plain = ws.data.load("digits")
    made = ready_data(dataclasses.replace(plain, classes=()), 0.25, 0)
    assert made.classes == tuple(map(str, range(10)))
    assert len(made.validation) == pytest.approx(0.25 * len(plain.train), abs=10)
    with pytest.raises(UsageError, match=r"has a validation split already; leave validation=0\.1 out"):
        ready_data(made, 0.1, 0)
