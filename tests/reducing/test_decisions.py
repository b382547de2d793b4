"""The language of decisions: what cannot be carried out cannot be said."""

from __future__ import annotations

import pytest

from weightsmith.core.errors import UsageError
from weightsmith.reducing.decisions import Choice, Decision, FrontPoint, Removal, Trace, TraceRow


def test_kept_are_the_units_that_never_go() -> None:
    assert Choice("a", 5, (Removal(4), Removal(0, (2,), (1.0,)))).kept == (1, 2, 3)


def test_a_unit_that_took_another_may_go_later() -> None:
    assert Choice("a", 3, (Removal(2, (1,), (1.0,)), Removal(1, (0,), (0.5,)))).kept == (0,)


@pytest.mark.parametrize(
    ("removals", "words"),
    [
        ((Removal(0), Removal(0)), "unit 0 is already removed"),
        ((Removal(1), Removal(0, (1,), (1.0,))), "unit 1 is already removed"),
        ((Removal(3),), "has no unit 3, only 0 to 2"),
        ((Removal(0, (-1,), (1.0,)),), "has no unit -1"),
        ((Removal(1, (1,), (1.0,)),), "cannot be merged into itself"),
        ((Removal(0), Removal(1), Removal(2)), "all 3 units would be removed"),
    ],
)
def test_impossible_choices_are_refused(removals: tuple[Removal, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Choice("dense1", 3, removals)


def test_removals_must_be_finite_and_complete() -> None:
    with pytest.raises(UsageError, match="1 units with 0 factors"):
        Removal(0, (1,))
    with pytest.raises(UsageError, match="not finite"):
        Removal(0, (1,), (float("nan"),))


def test_decisions_survive_json() -> None:
    decision = Decision(
        (Choice("a", 3, (Removal(1, (0,), (0.5,), 0.25, "sum", "similar", 12.5),), ("a note",)),),
        Trace("eq. 5", (TraceRow(0, 1.5, 0.5, 2, 1.5, 100),)),
        (FrontPoint(90.0, 2, {"a": (0, 2)}),),
    )
    assert Decision.from_json(decision.to_json()) == decision
