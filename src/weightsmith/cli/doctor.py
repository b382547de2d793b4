"""``weightsmith doctor``: what is installed and found, what this processor cannot do, and how to fix that."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from weightsmith._version import __version__
from weightsmith.cli import _shared_options as given
from weightsmith.cli.terminal import out, print_json
from weightsmith.core.errors import how_to_install

if TYPE_CHECKING:
    from weightsmith.reporting.parts import Table

__all__ = ["doctor"]

_EXTRAS = {
    "prune": "reducing convolutions",
    "onnx": "reading and writing ONNX files",
    "keras": "reading .keras and .h5 files",
    "nir": "spiking networks for other simulators",
    "faces": "features of face images",
    "compat": "tables as pandas frames",
    "cluster": "work spread by Dask",
    "tensorboard": "logs for TensorBoard",
}
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)([^;]*)(?:;\s*(.*))?$")
_EXTRA = re.compile(r"extra == ['\"](\w+)['\"]")
_PROBE_SECONDS = 60
_ILLEGAL = -4  # POSIX exit code of a process killed by an illegal instruction
_PROBES = {
    "float32 products": "torch.ones(64, 64) @ torch.ones(64, 64)",
    "bfloat16 products": "torch.ones(64, 64, dtype=torch.bfloat16) @ torch.ones(64, 64, dtype=torch.bfloat16)",
    "int8 products": "torch._int_mm(torch.ones(32, 32, dtype=torch.int8), torch.ones(32, 32, dtype=torch.int8))",
}


class _Package(NamedTuple):
    name: str
    asked: str
    extra: str
    version: str | None


def doctor(
    as_json: given.AsJson = False,
    licences: Annotated[
        bool, typer.Option("--licences", help="list the licences of all packages in use and of their dependencies")
    ] = False,
) -> None:
    """Print versions, extras, data sets found and what this processor can do, and how to fix what is missing."""
    from weightsmith.reporting.parts import Facts, Section
    from weightsmith.reporting.terminal import show

    if licences:
        section = Section(f"weightsmith {__version__}", "The licences as the packages state them.", (_licences(),))
        print_json(section.to_dict()) if as_json else show(section, out())
        return
    packages, data, abilities = _packages(), _data(), _abilities()
    needed = [package for package in packages if not package.extra and package.version is None]
    absent = [extra for extra in _EXTRAS if any(p.extra == extra and p.version is None for p in packages)]
    failing = [name for name, works in abilities if works != "yes"]
    section = Section(
        f"weightsmith {__version__}",
        _answer(needed, failing),
        (_table(packages), data, Facts("This processor", tuple(abilities))),
        chips=(
            ("python", platform.python_version()),
            ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"),
        ),
        look_at=tuple(f"{package.name} is missing: pip install '{package.name}{package.asked}'" for package in needed),
        try_next=(
            *(f"{how_to_install(extra)}, for {_EXTRAS[extra]}" for extra in absent),
            *(_way_out(name) for name in failing),
        ),
    )
    if as_json:
        print_json(section.to_dict())
    else:
        show(section, out())


def _answer(needed: list[_Package], failing: list[str]) -> str:
    if needed:
        return f"Packages that weightsmith needs are missing: {len(needed)}."
    if failing:
        return f"Everything needed is installed. This processor cannot do {', '.join(failing)}."
    return "Everything needed is installed, and this processor can do everything that was tried."


def _packages() -> list[_Package]:
    """The packages that the installed weightsmith requires, from its metadata."""
    found = []
    for line in importlib.metadata.requires("weightsmith") or []:
        match = _REQUIREMENT.match(line)
        if match is None:
            continue
        name, asked, marker = match[1], match[2].strip(), match[3] or ""
        extra = _EXTRA.search(marker)
        if name != "weightsmith" and (extra is None or extra[1] in _EXTRAS):
            found.append(_Package(name, asked, "" if extra is None else extra[1], _version(name)))
    return found


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _table(packages: list[_Package]) -> Table:
    from weightsmith.reporting.parts import Column, Table

    columns = (Column("package"), Column("installed"), Column("required", spare=1), Column("needed for"))
    rows = tuple(
        (p.name, p.version or "missing", p.asked or "any", f"optional: {_EXTRAS[p.extra]}" if p.extra else "everything")
        for p in packages
    )
    return Table("Packages", columns, rows)


def _licences() -> Table:
    """Every installed package that weightsmith needs, directly or through others, with the licence it states."""
    from weightsmith.reporting.parts import Column, Table

    waiting, rows = ["weightsmith", *(package.name for package in _packages())], {}
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in rows or (version := _version(name)) is None:
            continue
        rows[name] = (name, version, _licence(importlib.metadata.metadata(name)))
        needed = [line for line in importlib.metadata.requires(name) or [] if "extra ==" not in line]
        waiting += [match[1] for line in needed if (match := _REQUIREMENT.match(re.sub(r"\[.*?\]", "", line)))]
    columns = (Column("package"), Column("installed"), Column("licence"))
    return Table("Licences", columns, tuple(rows[name] for name in sorted(rows)))


def _licence(metadata: importlib.metadata.PackageMetadata) -> str:
    """The licence as metadata state it: an expression, classifiers, or the first line of a text."""

    def lines(name: str) -> list[str]:
        return metadata.get_all(name) or []

    stated = [line.rpartition(" :: ")[2] for line in lines("Classifier") if line.startswith("License")]
    text = "".join(lines("License")).strip().partition("\n")[0][:80]
    return ", ".join(lines("License-Expression") or stated) or text or "not stated"


def _data() -> Table:
    from weightsmith.data.datasets import known
    from weightsmith.reporting.parts import Column, Table

    columns = (Column("data set"), Column("found in"), Column("how to get it"))
    rows = []
    for entry in known():
        if entry.name.endswith(":PATH"):
            continue
        how = "" if entry.found else f"weightsmith data fetch {entry.name}, or set WEIGHTSMITH_DATA"
        rows.append((entry.name, ", ".join(entry.found) or "none", how))
    return Table("Data", columns, tuple(rows))


def _abilities() -> list[tuple[str, str]]:
    """What a child process could compute: an instruction that the processor lacks kills the child, not this process."""
    return [(name, _probed(code)) for name, code in _PROBES.items()]


def _probed(code: str) -> str:
    words = [sys.executable, "-c", f"import torch; torch.set_num_threads(1); {code}"]
    try:
        ended = subprocess.run(words, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer in {_PROBE_SECONDS} s"
    if ended.returncode == 0:
        return "yes"
    return "no: illegal instruction" if ended.returncode == _ILLEGAL else "no: " + _last_line(ended.stderr)


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it ended without a message"


def _way_out(name: str) -> str:
    return f"for {name}, set ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI before starting Python, or use float32"
