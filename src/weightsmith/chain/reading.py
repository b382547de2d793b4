"""Results on disk as the records they are: a folder that a verb wrote, the folder of a chain, a folder of folders.

A record does not say its kind: its fields do. Nothing but JSON is read, none of it is executed, and a file that is too
large, too deep or of another version is refused by name before anything is made of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from weightsmith._version import __version__
from weightsmith.chain._stored_angles import ARRAYS, read_angles
from weightsmith.chain.results import ChainRecord
from weightsmith.chain.tailor_results import TailorRecord
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.records import Record
from weightsmith.core.storage import file_digest, reading
from weightsmith.core.sweep import SweepTable
from weightsmith.grading.results import Grades
from weightsmith.networks.evaluation import Evaluation
from weightsmith.reducing.inspecting import AnglesRecord, UnitAngles
from weightsmith.reducing.results import ReductionRecord
from weightsmith.reducing.study_table import Study
from weightsmith.spiking.results import SpikeRecord
from weightsmith.spiking.sweep_results import SpikeSweep
from weightsmith.training.run import TrainRecord
from weightsmith.training.transfer import TransferRecord

__all__ = ["KINDS", "RECORD", "Result", "read_record", "read_result", "read_results"]

KINDS: dict[type[Record], str] = {
    ChainRecord: "chain",
    TrainRecord: "training",
    TransferRecord: "transfer",
    SweepTable: "table",
    Grades: "grades",
    Evaluation: "evaluation",
    ReductionRecord: "reduction",
    AnglesRecord: "angles",
    Study: "study",
    SpikeRecord: "spiking",
    SpikeSweep: "sweep",
    TailorRecord: "tailoring",
}
"""The records that a result folder may hold, and what each is called."""

_SETTINGS: dict[type[Record], dict[str, tuple[type, ...]]] = {
    ReductionRecord: {"by": (str,), "recover": (str, type(None))},
    AnglesRecord: {"angle": (int, float)},
    Study: {"folds": (int,), "repeats": (int,)},
    SpikeRecord: {"neuron": (str,), "encode": (str,)},
}
"""Settings that a page cannot do without, and what they are: a record's own fields say nothing of these."""

RECORD, EVALUATION = "record.json", "evaluation.json"
_MOST_BYTES = 32 << 20  # the largest of ours, of a spiking ResNet, has 2 MB
_DEEPEST = 40  # lists in lists; ours reach 10
_FOLDERS_DEEP, _MOST_FOLDERS = 6, 5_000
_ALIKE = 0.6  # the share of fields in common from which on a record is one of ours, of another version


class Result(NamedTuple):
    """A record and what it is called, the name of its folder; ``detail`` is what there is beyond the record, if that is
    at hand: the angles with their matrices."""

    name: str
    record: Record
    detail: UnitAngles | None = None


def read_result(path: str | Path) -> Result:
    """The one result in a folder, or in a file such as its ``record.json``."""
    path = Path(path)
    if not path.is_dir():
        return Result(_name_of(path), read_record(path))
    if not (path / RECORD).exists():
        raise FileRefused(path, f"holds no {RECORD}: a result is a folder that --out of a command wrote")
    return Result(_name_of(path), read_record(path / RECORD))


def read_results(path: str | Path) -> list[Result]:
    """Every result in ``path``: a result folder or its file, or a folder with result folders in it.

    An evaluation that lies beside a record is a result too. Of a folder of folders each result is called by its way
    from there; what lies inside a result folder (the training of a recovery) is part of that result.
    """
    path = Path(path)
    if not path.is_dir():
        return [read_result(path)]
    found = [result for folder, name in _result_folders(path) for result in _read_folder(folder, name)]
    if not found:
        raise FileRefused(
            path, f"neither it nor a folder in it holds a {RECORD}: give a folder that --out of a command wrote"
        )
    return found


def read_record(path: str | Path) -> Record:
    """The record in a JSON file, whatever kind of result it is."""
    path = Path(path)
    values = _read_json(path)
    kind = _kind_of(path, values)
    try:
        record = kind.from_dict(values)
        record.to_dict()  # refuses infinities, which JSON can write as 1e999
        _check_settings(record)
    except (UsageError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileRefused(
            path, f"is no record of the kind {KINDS[kind]!r} as this version writes it ({reason}){_written_by(values)}"
        ) from error
    return record


def _read_folder(folder: Path, name: str) -> Iterator[Result]:
    """What a result folder holds, and of a chain its stages."""
    for result in _read_one(folder, name):
        yield result
        if isinstance(result.record, ChainRecord):
            yield from _read_stages(folder, result.record)


def _read_one(folder: Path, name: str) -> Iterator[Result]:
    record = read_record(folder / RECORD)
    if isinstance(record, AnglesRecord) and (folder / ARRAYS).exists():
        yield Result(name, record, read_angles(folder / ARRAYS, record))
    else:
        yield Result(name, record)
    if (folder / EVALUATION).exists():
        yield Result(f"{name}, evaluated", read_record(folder / EVALUATION))


def _read_stages(folder: Path, chain: ChainRecord) -> Iterator[Result]:
    """The results of a chain by the names of their stages; folders that it does not name are none of it."""
    several = len({stage.seed for stage in chain.stages}) > 1
    for stage in chain.stages:
        way = PurePosixPath(stage.folder)
        if way.is_absolute() or not way.parts or ".." in way.parts or "\\" in stage.folder or "\0" in stage.folder:
            raise FileRefused(folder / RECORD, f"names a folder outside of its own ({stage.folder[:80]!r})")
        place = folder / way
        if not (place / RECORD).exists():
            raise FileRefused(place, f"the chain has the stage {stage.name!r} there, but {RECORD} is gone")
        if file_digest(place / RECORD) != stage.sha256:
            raise FileRefused(
                place / RECORD, "is not as the chain left it; report the folders of the stages one by one"
            )
        yield from _read_one(place, f"{stage.name} (seed {stage.seed})" if several else stage.name)


def _result_folders(top: Path) -> Iterator[tuple[Path, str]]:
    """The folders that hold a record, with their names; nothing is looked for inside one of them, nor behind links."""
    waiting, seen = [(top, 0)], 0
    while waiting:
        folder, depth = waiting.pop()
        seen += 1
        if seen > _MOST_FOLDERS:
            raise FileRefused(top, f"has more than {_MOST_FOLDERS:,} folders in it: name the result folders themselves")
        if (folder / RECORD).exists():
            yield folder, _name_of(top) if folder == top else folder.relative_to(top).as_posix()
        elif depth < _FOLDERS_DEEP:
            waiting.extend((inner, depth + 1) for inner in reversed(_folders_in(folder)))


def _folders_in(folder: Path) -> list[Path]:
    """Its folders, ``seed-2`` before ``seed-10``; hidden ones are none of ours."""
    with reading(folder), os.scandir(folder) as entries:
        names = [each.name for each in entries if each.is_dir(follow_symlinks=False) and not each.name.startswith(".")]
    return [folder / name for name in sorted(names, key=_natural)]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdecimal(), int(part[:18]) if part.isdecimal() else 0, part) for part in parts]


def _name_of(path: Path) -> str:
    """What the user called a result: its folder, and the file where that is not the folder's record."""
    if path.is_dir():
        return path.resolve().name or str(path)
    folder = path.absolute().parent.name
    return folder if path.name == RECORD and folder else path.stem if not folder else f"{folder}/{path.stem}"


def _read_json(path: Path) -> dict[str, Any]:
    with reading(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(path, "is not an ordinary file")
        if status.st_size > _MOST_BYTES:
            size, most = status.st_size / 1e6, _MOST_BYTES / 1e6
            raise FileRefused(path, f"has {size:,.0f} MB: a record has at most {most:.0f}, so this is none")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    try:
        values = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise FileRefused(path, "is nested too deeply to be a record") from error
    except UsageError as error:
        raise FileRefused(path, str(error)) from error
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        reason = " ".join(str(error).split())[:120]
        raise FileRefused(path, f"is no JSON ({reason}): give a result folder, or its {RECORD}") from error
    if not isinstance(values, dict):
        raise FileRefused(path, "holds no record: a record is a JSON object")
    if _deeper_than(values, _DEEPEST):
        raise FileRefused(path, "is nested too deeply to be a record")
    return values


def _refuse_constant(text: str) -> None:
    raise UsageError(f"holds {text}: a record holds finite numbers or null")


def _deeper_than(values: Any, most: int) -> bool:
    level = [values]
    for _ in range(most):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        level = [inner for inner in inside if isinstance(inner, dict | list)]
    return bool(level)


def _kind_of(path: Path, values: dict[str, Any]) -> type[Record]:
    """The kind that has all of these fields, and needs no others."""
    keys = set(values)
    for kind in KINDS:
        if _fields(kind, needed=True) <= keys <= _fields(kind):
            return kind
    nearest = max(KINDS, key=lambda kind: _likeness(keys, _fields(kind)))
    if _likeness(keys, _fields(nearest)) < _ALIKE:
        known = ", ".join(KINDS.values())
        raise FileRefused(path, f"is no record that a report knows{_written_by(values)}; known are {known}")
    unknown, missing = sorted(keys - _fields(nearest)), sorted(_fields(nearest, needed=True) - keys)
    what = f"has the field {unknown[0][:60]!r} besides" if unknown else f"lacks the field {missing[0]!r}"
    raise FileRefused(path, f"looks like a record of the kind {KINDS[nearest]!r} but {what}{_written_by(values)}")


def _check_settings(record: Record) -> None:
    settings = getattr(record, "settings", {})
    for name, kinds in _SETTINGS.get(type(record), {}).items():
        if not isinstance(settings.get(name, ...), kinds):
            raise UsageError(f"its settings lack {name!r}, or it is of another type")


def _fields(kind: type[Record], *, needed: bool = False) -> set[str]:
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # every record is a dataclass
    return {
        field.name
        for field in fields
        if not needed or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
    }


def _likeness(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b)


def _written_by(values: dict[str, Any]) -> str:
    """Which version wrote the record, where it says so and it is another one."""
    origin = values.get("origin")
    versions = origin.get("versions") if isinstance(origin, dict) else None
    version = versions.get("weightsmith") if isinstance(versions, dict) else None
    if not isinstance(version, str) or version == __version__:
        return ""
    return f"; it was written by weightsmith {version[:20]!r}, this is {__version__}"
