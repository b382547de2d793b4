"""Every word that the signature of ``grade`` allows is one that it computes with."""

from __future__ import annotations

import typing

import pytest

from weightsmith.core.errors import OptionError
from weightsmith.core.verbs import parameters
from weightsmith.grading import choices
from weightsmith.grading.grade import grade
from weightsmith.networks import mlp


@pytest.mark.parametrize("name", ["conv", "normalise", "precision", "method"])
def test_all_words_are_computed_with_and_no_other(name):
    words = typing.get_args(getattr(choices, name.capitalize()))
    assert parameters(grade)[name].default in words
    network = mlp(64, 32, 10, seed=0)
    alphas = [grade(network, **{name: word}, evidence="none").layers[0].alpha for word in words]
    assert alphas == pytest.approx([alphas[0]] * len(words), rel=1e-2)  # no word changes α of a dense layer
    with pytest.raises(OptionError, match=f"{name} must be one of {', '.join(words)}, not 'other'"):
        grade(network, **{name: "other"})
