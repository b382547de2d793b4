from __future__ import annotations

import dataclasses
from typing import Optional

from weightsmith.core.hints import field_hints, is_union, without_none


@dataclasses.dataclass
class Base:
    a: int
    b: Optional[str] = None  # noqa: UP045


@dataclasses.dataclass
class Derived(Base):
    c: tuple[Base, ...] = ()


def test_hints_are_resolved_in_field_order_with_inherited_ones():
    hints = field_hints(Derived)
    assert list(hints) == ["a", "b", "c"]
    assert hints["c"] == tuple[Base, ...]
    assert is_union(hints["b"])
    assert is_union(int | None)
    assert not is_union(int)
    assert without_none(hints["b"]) == [str]
