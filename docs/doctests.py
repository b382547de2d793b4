"""A griffe extension: what Markdown does not know in docstrings, doctests and cross-reference roles, made readable."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a prompt to the next empty line.
EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


ROLE = re.compile(r":(?:class|func|meth|mod):`~?([^`]+)`")


class Doctests(griffe.Extension):
    """Fences what begins with a prompt, and leaves the bare name of what a role refers to."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of each module, class and function as it is collected."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(_fenced, ROLE.sub(r"`\1`", obj.docstring.value))


def _fenced(match: re.Match[str]) -> str:
    indent = match["indent"]
    return f"\n{indent}```pycon\n{match[0]}\n{indent}```"
