"""The family of methods: each looks at the same scene and answers in the same language."""

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
    """How units are chosen: ``angles``, ``groups``, ``genetic``, ``pareto``, ``magnitude``, ``random``."""

    needs_target: ClassVar[bool] = False
    """Whether the method cannot tell by itself how much to take out."""

    @abstractmethod
    def choose(self, context: PruningContext, counts: Mapping[str, int] | None) -> Decision:
        """What to take out; ``counts`` are the units to keep per site, None where no target was given."""
