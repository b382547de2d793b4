"""The family of pruning methods: each takes a pruning context and returns a decision."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from weightsmith.core.options import Option
from weightsmith.reducing.decisions import Decision

if TYPE_CHECKING:
    from weightsmith.reducing.context import PruningContext

__all__ = ["Method"]


class Method(Option, family="method"):
    """How units are chosen.

    By ``error``, ``angles``, ``groups``, ``folding``, ``genetic``, ``compensated``, ``pareto``, ``magnitude``,
    ``scale``, ``taylor`` or ``random``.
    """

    needs_target: ClassVar[bool] = False
    """Whether the method needs a target or a plan."""

    @abstractmethod
    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """The units to remove; ``counts`` are the units to keep per site, None without a target."""
