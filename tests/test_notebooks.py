"""The notebooks of docs/notebooks: every cell runs, results show themselves, and stored outputs are there."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONG = ("own-network", "limits-and-fronts", "course-1-initialisation-and-activations", "course-2-batch-norm")
RAW = re.compile(r"\b[A-Z]\w+\((\w+=[^,()]+, ){2}")  # SweepSummary(setting=…, value=…, …


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def shown(value: Any) -> bool:
    """Whether a notebook shows a value in a readable form."""
    html, png = getattr(value, "_repr_html_", lambda: None)(), getattr(value, "_repr_png_", lambda: None)()
    return bool(html or png) or not RAW.search(repr(value))


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in LONG)) for path in NOTEBOOKS]
)
def test_every_cell_runs_and_its_value_shows_itself(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path)):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}[{number}]", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"{path.name}[{number}]", "eval"), names)  # noqa: S307
            assert shown(value), f"{path.name}, cell {number}: {value!r}"
    assert not RAW.search(capsys.readouterr().out)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_without_errors_or_raw_records(path):
    outputs = [output for cell in cells(path) for output in cell["outputs"]]
    assert all(cell["execution_count"] for cell in cells(path))
    assert not [output for output in outputs if output["output_type"] == "error"]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert kinds & {"text/html", "image/png"}, f"{path.name} shows neither a result nor a figure"
    for output in outputs:
        assert not RAW.search("".join(output.get("text", ""))), path.name


def test_every_notebook_is_listed():
    listed = (FOLDER / "index.md").read_text()
    assert [path.name for path in NOTEBOOKS if path.name not in listed] == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed (extra dev)")
def test_a_kernel_shows_figures_without_magic(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    source = "import weightsmith as ws\nfrom weightsmith.reporting.figures.grading import alpha_figure\n"
    source += "grades = ws.grade(ws.networks.mlp(64, 32, 10))\n"
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source + "grades"), nbformat.v4.new_code_cell("alpha_figure(grades)")]
    )
    NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [set(cell.outputs[-1]["data"]) for cell in book.cells]
    assert "text/html" in kinds[0]
    assert "image/png" in kinds[1]
