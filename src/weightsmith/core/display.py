"""Results that show themselves in a notebook, by a renderer that a room above provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Displayed", "show_by"]

_renderers: list[Callable[[Any], str | None]] = []


class Displayed:
    """A result that a notebook displays like the report page."""

    def _repr_html_(self) -> str | None:
        return _renderers[0](self) if _renderers else None


def show_by(renderer: Callable[[Any], str | None]) -> None:
    """Show all results by ``renderer``, which returns HTML, or None for the plain form."""
    _renderers[:] = [renderer]
