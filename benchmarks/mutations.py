"""Plant faults into the source at random, one at a time, and see whether the tests that belong to the file notice.

    python -m benchmarks.mutations --seed 1 --out mutations.jsonl      goes on where it was stopped
    python -m benchmarks.mutations --seed 1 --out mutations.jsonl --again --page

A fault is another operator, comparison or constant, a condition turned round, or a returned value that is dropped. It
is planted into a copy of the sources. The tests of a file are its doctests and the quick ones (not ``slow``) of
tests/<its place>/test_<its name>.py (without one, of all files in that folder) and of up to four other files that
import it; a fault that these miss is shown to all quick tests of its room (tests/<its first folder>), then to the slow
ones. A fault counts as caught if they fail, or do not end in time.

``--again`` plants those that were missed anew, as the file of results has them. ``--page`` writes
docs/results/mutations.md; what stands there under "How to read it" is written by hand and stays.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Fault", "belonging", "faults_of"]

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "src" / "weightsmith"
_LIMIT = 900  # seconds
_MOST_FILES = 4
_COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
             ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}  # fmt: skip
_COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"}


class Fault(NamedTuple):
    """A fault: from ``start`` to ``end`` (bytes) of a file the source reads ``new`` in place of ``old``."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str


def faults_of(path: Path, root: Path = _ROOT) -> list[Fault]:
    """Every fault that can be planted into a file, in order."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    def fault(node: ast.expr, new: str) -> Fault:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        return Fault(path.relative_to(root).as_posix(), node.lineno, start, end, source[start:end].decode(), new)

    found = []
    for node in _code(ast.parse(source)):
        match node:
            case ast.Compare(ops=[operator], left=left, comparators=[right]):
                found.append(fault(node, f"({ast.unparse(left)} {_COMPARED[type(operator)]} {ast.unparse(right)})"))
            case ast.BinOp(op=operator) if type(operator) in _COMPUTED and not isinstance(node.left, ast.JoinedStr):
                new = f"({ast.unparse(node.left)} {_COMPUTED[type(operator)]} {ast.unparse(node.right)})"
                found.append(fault(node, new))
            case ast.BoolOp(op=operator):
                joined = (" or " if isinstance(operator, ast.And) else " and ").join(map(ast.unparse, node.values))
                found.append(fault(node, f"({joined})"))
            case ast.UnaryOp(op=ast.Not()):
                found.append(fault(node, f"({ast.unparse(node.operand)})"))
            case ast.Constant(value=bool()):
                found.append(fault(node, str(not node.value)))
            case ast.Constant(value=int() | float() as number):
                found.append(fault(node, repr(number + 1)))
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                found.append(fault(value, "None"))
    return found


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that are computed: not annotations, decorators, and what only type checkers read."""
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and tree.test.id == "TYPE_CHECKING":
        return
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _code(child)


def belonging(file: str, root: Path = _ROOT) -> list[str]:
    """The test files that belong to a source file."""
    place = Path(file).relative_to("src/weightsmith")
    own = root / "tests" / place.parent / f"test_{place.stem.lstrip('_')}.py"
    module = ".".join(["weightsmith", *place.with_suffix("").parts])
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"(from|import) {re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    users = [
        path for path in sorted((root / "tests").rglob("test_*.py")) if path != own and imports.search(path.read_text())
    ]
    users.sort(key=lambda path: (path.parent != own.parent, path.stat().st_size))
    folder = own.parent if own.parent.exists() else root / "tests" / place.parts[0]
    users = [path for path in users if own.exists() or folder not in path.parents]
    found = [own if own.exists() else folder, *users[:_MOST_FILES]]
    return [path.relative_to(root).as_posix() for path in found]


def caught(fault: Fault, copy: Path) -> tuple[bool, str, float]:
    """Whether the tests notice a fault planted into ``copy``, by what, and after how many seconds."""
    path, begin = copy / fault.file, time.monotonic()
    sound = path.read_bytes()
    if sound[fault.start : fault.end].decode() != fault.old:
        raise SystemExit(f"{fault.file}: {fault.old!r} is not where it was; draw again, with another --out")
    path.write_bytes(sound[: fault.start] + fault.new.encode() + sound[fault.end :])
    room = f"tests/{Path(fault.file).relative_to('src/weightsmith').parts[0].removesuffix('.py')}"
    stages = [("not slow", [fault.file, *belonging(fault.file, copy)])]
    if (copy / room).exists():
        stages += [("not slow", [room]), ("slow", [room])]
    try:
        for marked, tests in stages:
            failed, said = _failed(marked, tests, copy)
            if failed:
                break
    finally:
        path.write_bytes(sound)
    return failed, said, time.monotonic() - begin


def _failed(marked: str, tests: list[str], copy: Path) -> tuple[bool, str]:
    """Whether these tests with this mark fail, and which was the first, or how the run ended."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marked, *tests]
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "CI": "true"}
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return True, f"no end in {_LIMIT} s"
    said = next((line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), run.stdout[-200:])
    return run.returncode not in (0, 5), said[:200]


def drawn(count: int, seed: int) -> list[Fault]:
    """``count`` faults, all places of all files alike likely."""
    files = sorted(path for path in _PACKAGE.rglob("*.py") if path.name != "__init__.py")
    return random.Random(seed).sample([fault for path in files for fault in faults_of(path)], count)


def main() -> None:
    """Try the faults that are not known yet, and say how many were caught."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=None, help="no more than so many in this call")
    parser.add_argument("--again", action="store_true", help="try those again that were not caught")
    parser.add_argument("--page", action="store_true", help="write the page of all results")
    parser.add_argument("--out", type=Path, default=_ROOT / "mutations.jsonl")
    given = parser.parse_args()
    first, known = _read(given.out)
    faults = dict(enumerate(drawn(given.count, given.seed)))
    if given.again:
        faults = {n: Fault(*map(row.get, Fault._fields)) for n, row in known.items()}
    left = [n for n in faults if n not in known or (given.again and not known[n]["caught"])]
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        shutil.copytree(_ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "site", "demo", "__pycache__"))
        for number in left[: given.most]:
            found, by, seconds = caught(faults[number], copy)
            row = {"number": number, "caught": found, "by": by, "seconds": round(seconds), **faults[number]._asdict()}
            known[number] = row
            first.setdefault(number, row)
            with given.out.open("a") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(number, "caught" if found else "SURVIVED", *faults[number][:2], faults[number][4:], flush=True)
    print(f"{sum(row['caught'] for row in known.values())} of {len(known)} caught")
    if given.page:
        path = _ROOT / "docs" / "results" / "mutations.md"
        old = path.read_text(encoding="utf-8") if path.exists() else _READING
        path.write_text(_page(first, known, given.seed) + old[old.index(_READING) :], encoding="utf-8")


def _read(path: Path) -> tuple[dict[int, Any], dict[int, Any]]:
    """The first and the last result of every fault."""
    first: dict[int, Any] = {}
    last: dict[int, Any] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        first.setdefault(row["number"], row)
        last[row["number"]] = row
    return first, last


_READING = "## How to read it"


def _page(first: dict[int, Any], last: dict[int, Any], seed: int) -> str:
    """How many were caught, and what became of those that were not."""
    missed = [last[number] for number, row in sorted(first.items()) if not row["caught"]]
    found = [sum(row["caught"] for row in rows.values()) for rows in (first, last)]
    rows = [
        f"| {row['file'].removeprefix('src/weightsmith/')}:{row['line']} | `{row['old']}` | `{row['new']}` | "
        f"{'yes' if row['caught'] else '**no**'} |".replace("\n", " ")
        for row in missed
    ]
    return "\n".join(
        [
            "# mutations\n",
            f"{len(first)} faults drawn at random from the sources (seed {seed}), planted one by one: **{found[0]}**",
            f"were caught by the tests as they were, **{found[1]}** after tests for the others had been added.\n",
            "| missed at first | old | new | caught now |",
            "|---|---|---|---|",
            *rows,
            f"\n`python -m benchmarks.mutations --seed {seed}`; Python {sys.version.split()[0]}.\n\n",
        ]
    )


if __name__ == "__main__":
    main()
