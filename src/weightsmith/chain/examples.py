"""Recipes that come with weightsmith: two demonstrations, and one with comments to begin with."""

from __future__ import annotations

import importlib.resources

from weightsmith.core.errors import UnknownName

__all__ = ["EXAMPLES", "example"]

EXAMPLES = {
    "new": "every stage once, with comments",
    "digits": "what weightsmith demo does",
    "fashion-mnist": "what weightsmith demo --data fashion-mnist does",
}
"""The recipes by name, and what each is."""


def example(name: str) -> str:
    """The TOML text of a recipe.

    >>> example("digits").splitlines()[0]
    '# The chain of `weightsmith demo`, about a minute on two cores:'
    """
    if name not in EXAMPLES:
        raise UnknownName("recipe", name, EXAMPLES)
    return (importlib.resources.files("weightsmith.chain") / "recipes" / f"{name}.toml").read_text("utf-8")
