"""The house itself: arrows point down, public lists are true, importing changes nothing."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import weightsmith

SOURCE = Path(weightsmith.__file__).parent
TESTS = Path(__file__).parent

# A room may import from rooms on lower floors and from itself, never from a neighbour or from above.
FLOORS = {
    "core": 0,
    "data": 1,
    "networks": 2,
    "training": 3,
    "grading": 4,
    "reducing": 4,
    "spiking": 4,
    "compat": 5,
    "reporting": 5,
    "chain": 6,
    "papers": 7,
    "cli": 8,
}
OPEN_TO_ALL = {"_version"}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(text: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                names.add("weightsmith.relative")
            elif node.module == "weightsmith":
                names |= {f"weightsmith.{alias.name}" for alias in node.names}
            else:
                names.add(node.module or "")
    return {name.split(".")[1] for name in names if name.startswith("weightsmith.")}


def forbidden(room: str, text: str) -> list[str]:
    rooms = imported_rooms(text) - OPEN_TO_ALL - {room}
    return sorted(other for other in rooms if FLOORS.get(other, 99) >= FLOORS[room])


SOURCES = sorted(p for p in SOURCE.rglob("*.py") if room_of(p) in FLOORS)


def test_arrows_point_down():
    arrows = {str(path.relative_to(SOURCE)): forbidden(room_of(path), path.read_text()) for path in SOURCES}
    assert {path: rooms for path, rooms in arrows.items() if rooms} == {}


@pytest.mark.parametrize(
    ("room", "line", "caught"),
    [
        ("grading", "from weightsmith.reducing import angles", ["reducing"]),
        ("grading", "import weightsmith.spiking.l4.adjust", ["spiking"]),
        ("core", "def f():\n    from weightsmith.data import load", ["data"]),
        ("data", "from weightsmith import networks", ["networks"]),
        ("networks", "from ..cli import app", ["relative"]),
        ("reducing", "from weightsmith.training.loop import train", []),
        ("networks", "from weightsmith.data.normalise import NONE", []),
    ],
)
def test_a_forbidden_arrow_would_be_seen(room, line, caught):
    assert forbidden(room, line) == caught


def test_every_room_is_on_a_floor():
    rooms = {p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists()}
    assert rooms <= set(FLOORS)


MODULES = sorted(
    info.name for info in pkgutil.walk_packages([str(SOURCE)], "weightsmith.") if not info.name.endswith("__main__")
)


def untrue(name: str, module: ModuleType) -> dict[str, list[str]]:
    """Public names that a module lists and does not have, and those it defines and does not list."""
    defined = {
        key
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == name and hasattr(value, "__qualname__") and not key.startswith("_")
    }
    listed = getattr(module, "__all__", [])
    found = {"absent": [key for key in listed if not hasattr(module, key)], "unlisted": sorted(defined - set(listed))}
    return {kind: names for kind, names in found.items() if names}


def test_public_lists_are_true():
    assert len(MODULES) > 400
    found = {}
    for name in MODULES:
        importlib.import_module(name)
        # By sys.modules: a function may have taken the place of its module as an attribute of the package.
        found[name] = untrue(name, sys.modules[name])
    assert {name: lists for name, lists in found.items() if lists} == {}


def test_an_untrue_public_list_would_be_seen():
    module = ModuleType("made")
    exec("def told(): ...\ndef untold(): ...\n__all__ = ['told', 'gone']", vars(module))
    assert untrue("made", module) == {"absent": ["gone"], "unlisted": ["untold"]}


def test_the_front_door_names_exist_and_are_documented():
    assert dir(weightsmith) == sorted(set(weightsmith.__all__))
    assert len(set(weightsmith.__all__)) == len(weightsmith.__all__)
    for name in weightsmith.__all__:
        assert getattr(weightsmith, name).__doc__
    homes = weightsmith._HOME_OF
    assert set(weightsmith.__all__) == {*homes, "compat", "data", "networks", "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'grde'"):
        weightsmith.grde  # noqa: B018


def test_type_checkers_see_the_same_front_door():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    told = {name: f"weightsmith.{home}" for name, home in weightsmith._HOME_OF.items()}
    assert seen == {**told, **dict.fromkeys(("compat", "data", "networks"), "weightsmith")}


def test_every_source_file_has_its_test_file():
    files = [p.relative_to(SOURCE) for p in SOURCES if not p.name.startswith("_")]
    missing = [str(p) for p in files if not (TESTS / p.parent / f"test_{p.name}").exists()]
    assert missing == []


LONGEST = 400  # lines: what is longer holds more than one idea
CATALOGUES = {"reducing/methods.py", "reporting/figures/grading.py"}  # gather the members of one family for the user


def only_passes_on(text: str) -> bool:
    """Whether a module defines nothing and only imports names for others to import."""
    body = [node for node in ast.parse(text).body if not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom)]
    return all(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in body)


def test_no_source_file_is_long_and_none_is_left_behind_for_old_imports():
    sources = {p.relative_to(SOURCE).as_posix(): p.read_text() for p in SOURCES if p.name != "__init__.py"}
    assert [name for name, text in sources.items() if text.count("\n") > LONGEST] == []
    assert {name for name, text in sources.items() if only_passes_on(text)} == CATALOGUES
    assert only_passes_on("from weightsmith.core.sweep import grid\n__all__ = ['grid']")
    assert not only_passes_on("from weightsmith.core.sweep import grid\nLIMIT = 3")


def writes_tables(text: str) -> bool:
    """Whether source code writes CSV by itself: with the library, or cells put together by a comma, a tab and so on."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module="csv") | ast.Attribute(attr="writer" | "DictWriter"):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Constant(value="," | ";" | "\t"), attr="join")):
                return True
            case ast.Call(func=ast.Attribute(attr="to_csv"), args=[_, *_]):  # another library's: ours take nothing
                return True
    return False


# Lists in the text form of options, which no spreadsheet opens.
NO_TABLES = {
    "core/text.py",
    "core/options.py",
    "data/normalise.py",
    "cli/_verb_options.py",
    "training/targets.py",
    "training/optimisers.py",
}


def test_one_file_writes_all_tables():
    """Elsewhere a name from a stranger's file could become a formula."""
    found = {str(path.relative_to(SOURCE)) for path in SOURCES if writes_tables(path.read_text())}
    assert found == {"core/csv_text.py", *NO_TABLES}


@pytest.mark.parametrize(
    "line",
    [
        "import csv as c\nc.writer(file)",
        "from csv import DictWriter",
        "csv.DictWriter(file, names)",
        "f'{\",\".join(cells)}'",
        "'\\t'.join(cells)",
        "frame.to_csv(path)",
    ],
)
def test_a_second_writer_would_be_seen(line):
    assert writes_tables(line)
    assert not writes_tables("csv.reader(file)\n', '.join(names)\ntable.to_csv()")


IMPORT = """
import io, json, logging, random, socket, sys, threading, warnings
import numpy, torch
before = set(sys.modules)
state = lambda: [len(logging.root.handlers), logging.root.level, list(map(str, warnings.filters)),
                 hash(random.getstate()), numpy.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist(),
                 torch.get_num_threads(), str(torch.get_default_dtype()), threading.active_count()]
def refuse(*_, **__): raise AssertionError("a socket was opened")
socket.socket = refuse
was = state()
sys.stdout = out = io.StringIO()
sys.stderr = err = io.StringIO()
import weightsmith
new = sorted(set(sys.modules) - before)
unchanged = state() == was
import weightsmith.networks, weightsmith.data, weightsmith.core.statistics, weightsmith.core.sweep
import weightsmith.training.loop
rooms = sorted(set(sys.modules) - before)
sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
print(json.dumps([new, unchanged, rooms, state() == was, out.getvalue() + err.getvalue()]))
"""


def test_importing_changes_nothing_and_loads_little():
    answer = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    new, unchanged, rooms, still_unchanged, printed = json.loads(answer.stdout)
    assert (unchanged, still_unchanged, printed, answer.stderr) == (True, True, "", "")
    assert len(new) <= 60, new
    heavy = {"scipy", "sklearn", "pyarrow", "PIL", "openpyxl", "joblib", "dask", "onnx", "h5py", "typer", "rich"}
    heavy |= {"matplotlib", "tensorboard"}
    assert not heavy & {name.split(".")[0] for name in rooms}
    assert len(rooms) <= 180, rooms


def test_no_test_reaches_beyond_this_machine():
    """The audit hook in conftest.py is at work; addresses of documentation (RFC 5737) belong to nobody."""
    with pytest.raises(RuntimeError, match="stay on this machine"):
        socket.create_connection(("192.0.2.1", 9), timeout=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
