"""What a centre means for each activation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weightsmith.core.errors import OptionError
from weightsmith.core.seeds import stream
from weightsmith.reducing.criteria.centres import centre_of, centre_text, centred_grams
from weightsmith.reducing.criteria.gram import Gram


@pytest.mark.parametrize(
    ("activation", "middle"), [("sigmoid", 0.5), ("hardsigmoid", 0.5), ("tanh", 0.0), ("relu", None), (None, None)]
)
def test_auto_is_the_middle_of_the_range(activation: str | None, middle: float | None) -> None:
    assert centre_of("auto", activation) == middle


def test_words_and_numbers() -> None:
    assert centre_of("mean", "sigmoid") is None
    assert centre_of("none", "sigmoid") == 0.0
    assert centre_of("-1e-1", "sigmoid") == -0.1


@pytest.mark.parametrize("wrong", ["", "median", "nan", "-inf", "0,5"])
def test_refuses_anything_else(wrong: str) -> None:
    with pytest.raises(OptionError, match="auto, mean, none or a finite number"):
        centre_of(wrong, None)


def test_numbers_and_no_value_become_text() -> None:
    assert [centre_text(given) for given in (1, 0.5, None, "auto", True)] == ["1.0", "0.5", "none", "auto", True]


def test_each_site_about_its_own_centre() -> None:
    rows = stream(0, "centres").random((50, 3))
    context: Any = SimpleNamespace(
        sites=(
            SimpleNamespace(name="a", activation="sigmoid", takes_constants=True),
            SimpleNamespace(name="b", activation="sigmoid", takes_constants=False),
        )
    )

    def grams(centres: dict[str, float]) -> dict[str, Gram]:
        made = {name: Gram(3, centre) for name, centre in centres.items()}
        for gram in made.values():
            gram.add(rows)
        return made

    context.grams = grams
    for centre, expected in (("auto", 0.5), ("mean", rows.mean(axis=0)), ("0.25", 0.25)):
        found = centred_grams(context, centre)
        np.testing.assert_allclose(found["a"].centres, np.broadcast_to(expected, 3))
        np.testing.assert_allclose(found["b"].centres, 0.0)
