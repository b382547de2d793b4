"""What the site makes from other sources: the front page from README, option tables from the option objects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REPOSITORY_FILES = {"CHANGELOG.md", "CONTRIBUTING.md"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the front page, and replace ``{{ options module:Family }}`` and ``{{ verb name }}`` by their tables."""
    if page.file.src_uri == "index.md":
        markdown = (ROOT / "README.md").read_text().replace("](docs/", "](")
        for name in REPOSITORY_FILES:
            markdown = re.sub(rf"\[([^\]]+)\]\({name}\)", r"\1", markdown)
    markdown = re.sub(r"\{\{ verb (\w+) \}\}", lambda m: verb_table(m[1]), markdown)
    return re.sub(r"\{\{ options ([\w.]+):(\w+) \}\}", lambda m: option_tables(m[1], m[2]), markdown)


def verb_table(name: str) -> str:
    """The options of a verb, from its signature."""
    import weightsmith
    from weightsmith.core.verbs import table

    return "\n".join(_table(table(getattr(weightsmith, name))))


def option_tables(module: str, family: str) -> str:
    """One table per member of an option family, from the objects themselves."""
    import importlib

    import weightsmith.networks  # noqa: F401  (defines all members)

    lines = []
    for name, member in sorted(getattr(importlib.import_module(module), family).members.items()):
        about = (member.__doc__ or "").partition("\n")[0]
        lines += [f"**`{name}`** {about}", ""]
        lines += [*_table(member.table()), ""]
    return "\n".join(lines)


def _table(rows: list[dict[str, str]]) -> list[str]:
    if not rows:
        return []
    lines = ["| parameter | type | default | range | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        kind = row["type"].replace("|", "\\|")
        lines.append(f"| `{row['name']}` | {kind} | `{row['default']}` | {row['range']} | {row['doc']} |")
    return lines
