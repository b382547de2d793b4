"""The family itself: a member must say how it chooses."""

from __future__ import annotations

import pytest

from weightsmith.reducing.criteria.method import Method


def test_a_method_without_choose_cannot_be_made() -> None:
    class Vague(Method, name="vague"):
        """Says nothing."""

    try:
        with pytest.raises(TypeError, match="abstract"):
            Vague()  # type: ignore[abstract]
        assert not Vague.needs_target
    finally:
        del Method.members["vague"]
