"""Write one topic's vectors in this process: ``python -m benchmarks.peers.vectors TOPIC FOLDER``.

A process of its own, because peers set log levels, warning filters and float types for the whole process.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

from weightsmith.core.storage import write_atomic

__all__ = ["main", "text_of"]


def main(topic: str, folder: str) -> None:
    """Run the topic and write ``FOLDER/TOPIC.json``."""
    module = importlib.import_module(f"benchmarks.peers.vectors.{topic}")
    content = {
        "command": f"python -m benchmarks.peers.write {topic}",
        "topic": topic,
        "vectors": module.vectors(),
        "versions": _versions(module.PACKAGES),
    }
    write_atomic(Path(folder) / f"{topic}.json", text_of(content) + "\n")


def text_of(value: Any, indent: str = "") -> str:
    """JSON with sorted keys, an object's entries on lines of their own and a list of plain values on one line.

    >>> print(text_of({"b": [1, 0.5], "a": None}))
    {
     "a": null,
     "b": [1, 0.5]
    }
    """
    deeper = indent + " "
    if isinstance(value, dict) and value:
        lines = [f"{deeper}{json.dumps(key)}: {text_of(value[key], deeper)}" for key in sorted(value)]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(deeper + text_of(item, deeper) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Public versions (the ``+cpu`` of a local build is not one) and the minor version of Python."""
    found = {name: importlib.metadata.version(name).partition("+")[0] for name in packages}
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", **found}


if __name__ == "__main__":
    main(*sys.argv[1:])
