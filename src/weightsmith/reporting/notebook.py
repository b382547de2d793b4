"""A description in a notebook: what the page shows of one result, without its drawings."""

from __future__ import annotations

import io
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.reporting.describe import describe
from weightsmith.reporting.page import fragment
from weightsmith.reporting.parts import Drawing, Section, Table

__all__ = ["html"]


def html(result: Any) -> str | None:
    """A result, a description, or one table or drawing of it as HTML; None for what has no description."""
    match result:
        case Section():
            return fragment(result)
        case Table():
            return fragment(Section(result.title, "", (result,)))
        case Drawing():
            return _svg(result)
    try:
        return fragment(describe(result))
    except UsageError:
        return None


def _svg(drawing: Drawing) -> str:
    content = io.StringIO()
    drawing.figure().savefig(content, format="svg", metadata={"Date": None})
    text = content.getvalue()
    return text[text.index("<svg") :]
