"""The options of a refit."""

from __future__ import annotations

import pytest

from weightsmith.core.errors import OptionError
from weightsmith.reducing.refitting.options import LeastSquares, NoRefit, Refit


def test_text_forms() -> None:
    assert Refit.parse("least-squares") == LeastSquares(1e-4)
    assert Refit.parse("least-squares:ridge=0.01") == LeastSquares(0.01)
    assert Refit.parse("none") == NoRefit()
    with pytest.raises(OptionError, match="ridge must be > 0"):
        Refit.parse("least-squares:0")
