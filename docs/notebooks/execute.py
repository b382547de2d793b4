"""Run these notebooks in a kernel and store their outputs: ``python docs/notebooks/execute.py [NAME…]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Run one notebook in a folder of its own, and write it back with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, record_timing=False, resources={"metadata": {"path": folder}})
        client.execute()
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    here = Path(__file__).parent
    for file in sorted(here.glob("*.ipynb")):
        if len(sys.argv) == 1 or file.stem in sys.argv[1:]:
            execute(file)
            print(file.name)
